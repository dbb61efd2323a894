"""What the converters to provider formats share: rendering roles that no provider knows, and arguments as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hermitcrab.messages.text import blocks_of, scrub_text, text_of, tool_calls_of
from hermitcrab.messages.types import Block, Message

#: The tool name of a result whose call is nowhere to be found.
UNKNOWN_TOOL = "unknown"

_SUMMARY_LEADS = {
    "branchSummary": "Summary of a branch of this conversation that was left:",
    "compactionSummary": "Summary of the conversation before this point:",
}


def sent_to_models(message: Message) -> bool:
    """Whether a model may see the message; shell output can be marked as kept from it."""
    fields: Mapping[str, Any] = {**message}
    return not (fields.get("role") == "bashExecution" and fields.get("excludeFromContext"))


def user_blocks(message: Message) -> list[Block]:
    """The content of a message that goes out as user content, whatever its own role is."""
    role = message["role"]
    if role in _SUMMARY_LEADS:
        body = message.get("summary") or text_of(message)
        return [{"type": "text", "text": f"{_SUMMARY_LEADS[role]}\n\n{body}"}]
    if role == "bashExecution":
        return [{"type": "text", "text": _shell_text(message)}]
    return blocks_of(message)


def _shell_text(message: Message) -> str:
    fields: Mapping[str, Any] = {**message}
    lines = [f"Ran `{fields.get('command', '')}`", str(fields.get("output") or "(no output)")]
    if fields.get("exitCode"):
        lines.append(f"Exit code: {fields['exitCode']}")
    return "\n".join(lines)


def field_of(block: Block, *names: str) -> Any:
    """The first field of a block, known or foreign, that is there and not empty."""
    fields: Mapping[str, Any] = {**block}
    return next((fields[name] for name in names if fields.get(name)), None)


def arguments_json(arguments: Mapping[str, Any]) -> str:
    """Tool arguments as the JSON text that providers expect."""
    return scrub_text(json.dumps(arguments, ensure_ascii=False))


def call_block(call_id: str, name: str, raw_arguments: Any) -> Block:
    """A tool call block from a provider's arguments, JSON text or an object.

    Text that is not a JSON object leaves ``arguments`` empty and stays in the block's field ``rawArguments``.
    """
    arguments = raw_arguments
    if isinstance(raw_arguments, str):
        arguments = _parsed(raw_arguments) if raw_arguments.strip() else {}
    fields: dict[str, Any] = {"type": "toolCall", "id": call_id, "name": name, "arguments": {}}
    if isinstance(arguments, dict):
        fields["arguments"] = arguments
    elif raw_arguments is not None:
        fields["rawArguments"] = raw_arguments
    block: Block = fields  # type: ignore[assignment]  # foreign field kept beside the known ones
    return block


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def tool_names(messages: Iterable[Message]) -> dict[str, str]:
    """Tool names by call id."""
    return {call["id"]: call["name"] for message in messages for call in tool_calls_of(message)}
