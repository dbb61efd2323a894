"""From the entries of a branch to the messages of the conversation (context 9.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from hermitcrab.messages.provenance import is_group_context
from hermitcrab.messages.types import Message
from hermitcrab.sessions.branch import kept_part
from hermitcrab.sessions.format import Entry, parse_time

#: What stands before the summary of a compacted history.
SUMMARY_LEAD_IN = (
    "Earlier messages of this conversation were compacted. What happened in them, in short:"
)
_SYNTHETIC = frozenset({"branch_summary", "custom_message"})
_BRANCH_LEAD_IN = "Another branch of this conversation was left. What happened there, in short:"


@frozen
class ContextItem:
    """A message of the conversation and the entry that it comes from.

    ``is_synthetic`` marks a user message that nobody has said to the agent: the summary of a branch, a plugin's
    message, or what was said in a group to others.
    """

    entry_id: str
    message: Message
    is_summary: bool = False
    is_synthetic: bool = False


def last_compaction(entries: Sequence[Entry]) -> Entry | None:
    """The newest compaction on a path, or ``None``."""
    return next((entry for entry in reversed(entries) if entry["type"] == "compaction"), None)


def context_items(path: Sequence[Entry]) -> list[ContextItem]:
    """The messages that a path amounts to: the last summary, what it kept, and everything since."""
    compaction = last_compaction(path)
    items: list[ContextItem] = []
    if compaction is not None:
        items.append(_summary_item(compaction))
        path = kept_part(path)
    items.extend(_items(entry for entry in path if entry["type"] != "compaction"))
    return items


def _items(entries: Iterable[Entry]) -> Iterable[ContextItem]:
    for entry in entries:
        message = message_of(entry)
        if message is not None:
            is_synthetic = entry["type"] in _SYNTHETIC or is_group_context(message)
            yield ContextItem(entry["id"], message, is_synthetic=is_synthetic)


def message_of(entry: Entry) -> Message | None:
    """The message that an entry puts into the context, or ``None``."""
    kind = entry["type"]
    if kind == "message":
        message = entry.get("message")
        readable = isinstance(message, dict) and isinstance(message.get("role"), str)
        return message if readable else None
    if kind == "custom_message":
        return _user_message(entry, entry.get("content"))
    if kind == "branch_summary":
        return _user_message(entry, wrapped_summary(_BRANCH_LEAD_IN, entry.get("summary")))
    return None


def _summary_item(compaction: Entry) -> ContextItem:
    text = wrapped_summary(SUMMARY_LEAD_IN, compaction.get("summary"))
    message = _user_message(compaction, text)
    return ContextItem(compaction["id"], message, is_summary=True)


def wrapped_summary(lead_in: str, summary: str | None) -> str:
    """A summary as the model sees it."""
    return f"{lead_in}\n<summary>\n{summary or ''}\n</summary>"


def _user_message(entry: Entry, content: object) -> Message:
    message: Message = {
        "role": "user",
        "content": content
        if isinstance(content, list)
        else [{"type": "text", "text": "" if content is None else str(content)}],
    }
    moment = parse_time(entry.get("timestamp"))
    if moment is not None:
        message["timestamp"] = int(moment.timestamp() * 1000)
    return message
