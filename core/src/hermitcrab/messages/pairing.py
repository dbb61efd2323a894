"""Tool calls and their results belong together: grouping them, and repairing what came apart (context 4.3, 4.10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.messages.text import blocks_of, result_call_id, text_of, tool_calls_of
from hermitcrab.messages.types import BROKEN_STOP_REASONS, Block, Message, ToolCall

#: The text of a result that we put in because none was recorded.
MISSING_RESULT_TEXT = (
    "[No result was recorded for this tool call. It may have been interrupted; "
    "check before relying on it.]"
)


@frozen(kw_only=True)
class PairingRepair:
    """A list of messages in which every tool call has exactly one result, right behind it.

    ``messages`` is the very list that went in when nothing had to change.
    """

    messages: Sequence[Message]
    orphan_results: int = 0
    duplicate_results: int = 0
    missing_results: int = 0
    dropped_calls: int = 0


@frozen
class PairingFaults:
    """How many results stand without their call, and calls without their result."""

    orphan_results: int
    missing_results: int


def is_broken(message: Message) -> bool:
    """Whether an assistant message was aborted or failed, so that its calls have no valid results."""
    reason = message.get("stopReason")
    return isinstance(reason, str) and reason in BROKEN_STOP_REASONS


def group_messages(messages: Sequence[Message]) -> list[list[int]]:
    """Split into atomic groups of indexes: an assistant with tool calls and what follows until all are answered.

    Calls of aborted or failed assistants open no group (context 4.3, version B). A group ends with the last result
    that answers one of its calls, or that may because it has no id, so whatever stands between belongs to it.
    """
    return list(iterate_groups(messages))


def iterate_groups(messages: Sequence[Message]) -> Iterator[list[int]]:
    """The groups of :func:`group_messages`, one after the other, each found when it is asked for."""
    start = 0
    while start < len(messages):
        end = _group_end(messages, start)
        yield list(range(start, end))
        start = end


def _group_end(messages: Sequence[Message], start: int) -> int:
    """The index behind the last result that answers a call of the message at ``start``."""
    first = messages[start]
    pending = [] if is_broken(first) else [call["id"] for call in _usable_calls(first)]
    end = index = start + 1
    while pending and index < len(messages) and not _usable_calls(messages[index]):
        if messages[index].get("role") == "toolResult":
            call_id = result_call_id(messages[index])
            if not call_id:
                end = index + 1
            elif call_id in pending:
                pending.remove(call_id)
                end = index + 1
        index += 1
    return end


def find_faults(messages: Sequence[Message]) -> PairingFaults:
    """Count what a provider would refuse, without changing anything."""
    orphans = missing = 0
    pending: list[str] = []
    for message in messages:
        if message.get("role") == "toolResult":
            call_id = result_call_id(message)
            if call_id in pending:
                pending.remove(call_id)
            else:
                orphans += 1
            continue
        missing += len(pending)
        pending = [call["id"] for call in tool_calls_of(message)]
    return PairingFaults(orphans, missing + len(pending))


def repair_pairing(messages: Sequence[Message], *, drop_broken: bool = True) -> PairingRepair:
    """Put every result behind its call, drop results without one and fill in results that are missing.

    :param drop_broken: remove aborted and failed assistants that called tools, and whatever results they got
        (policy ``drop``); otherwise they stay with the results they have. They never get a synthetic result.
    """
    out: list[Message] = []
    counts = dict.fromkeys(("orphan", "duplicate", "missing", "dropped"), 0)
    index = 0
    while index < len(messages):
        message = messages[index]
        if message.get("role") == "toolResult":
            counts["orphan"] += 1
            index += 1
            continue
        message, unusable = _without_unusable_calls(message)
        counts["dropped"] += unusable
        calls = tool_calls_of(message)
        if not calls:
            if not unusable or message.get("content"):
                out.append(message)
            index += 1
            continue
        end = _span_end(messages, index + 1)
        _emit_group(message, calls, messages[index + 1 : end], out, counts, drop_broken)
        index = end
    if len(out) == len(messages) and all(a is b for a, b in zip(out, messages, strict=True)):
        return PairingRepair(messages=messages)
    return PairingRepair(
        messages=out,
        orphan_results=counts["orphan"],
        duplicate_results=counts["duplicate"],
        missing_results=counts["missing"],
        dropped_calls=counts["dropped"],
    )


def _span_end(messages: Sequence[Message], start: int) -> int:
    """The index of the next assistant with usable calls."""
    for index in range(start, len(messages)):
        if _usable_calls(messages[index]):
            return index
    return len(messages)


def _usable_calls(message: Message) -> list[ToolCall]:
    return [call for call in tool_calls_of(message) if call["id"] and call["name"]]


def _without_unusable_calls(message: Message) -> tuple[Message, int]:
    """The message without calls that lack an id or a name or repeat an id, which no provider accepts (sessions 3.3)."""
    if not tool_calls_of(message):
        return message, 0
    kept: list[Block] = []
    known: set[str] = set()
    dropped = 0
    content: Any = message.get("content")
    for block in content:
        probe: Message = {"role": "assistant", "content": [block]}
        call = next(iter(tool_calls_of(probe)), None)
        if call is not None:
            if not (call["id"] and call["name"]) or call["id"] in known:
                dropped += 1
                continue
            known.add(call["id"])
        kept.append(block)
    if not dropped:
        return message, 0
    changed = message.copy()
    changed["content"] = kept
    return changed, dropped


def _emit_group(
    message: Message,
    calls: list[ToolCall],
    span: Sequence[Message],
    out: list[Message],
    counts: dict[str, int],
    drop_broken: bool,
) -> None:
    broken = is_broken(message)
    results: dict[str, Message] = {}
    others: list[Message] = []
    wanted = {call["id"] for call in calls}
    for follower in span:
        if follower.get("role") != "toolResult":
            follower, unusable = _without_unusable_calls(follower)
            counts["dropped"] += unusable
            if not unusable or follower.get("content"):
                others.append(follower)
            continue
        result = _adopt(follower, calls)
        call_id = result_call_id(result)
        if call_id not in wanted:
            counts["orphan"] += 1
        elif call_id in results:
            counts["duplicate"] += 1
        else:
            results[call_id] = result
    if broken and drop_broken:
        counts["dropped"] += len(calls)
        out.extend(others)
        return
    out.append(message)
    for call in calls:
        if call["id"] in results:
            out.append(_named(results[call["id"]], call))
        elif not broken:
            counts["missing"] += 1
            out.append(_synthetic_result(call, message))
    out.extend(others)


def _adopt(result: Message, calls: list[ToolCall]) -> Message:
    """A result without an id takes the id of the only call, if their names agree."""
    if result_call_id(result) or len(calls) != 1 or result.get("toolName") != calls[0]["name"]:
        return result
    adopted = result.copy()
    adopted["toolCallId"] = calls[0]["id"]
    adopted["isError"] = True
    return adopted


def _named(result: Message, call: ToolCall) -> Message:
    if result.get("toolName"):
        return result
    named = result.copy()
    named["toolName"] = call["name"]
    return named


def _synthetic_result(call: ToolCall, origin: Message) -> Message:
    result: Message = {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call["name"] or "unknown",
        "content": [{"type": "text", "text": MISSING_RESULT_TEXT}],
        "isError": True,
    }
    if "timestamp" in origin:
        result["timestamp"] = origin["timestamp"]
    return result


def is_empty(message: Message) -> bool:
    """Whether a message would show a model nothing at all."""
    blocks = blocks_of(message)
    if any(block["type"] != "text" for block in blocks) or text_of(message).strip():
        return False
    return not any(message.get(field) for field in ("summary", "command", "output"))
