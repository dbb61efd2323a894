"""What is checked of requests and of the transcript that a replay leaves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.compaction.plan import latest_ask
from hermitcrab.compaction.serialise import plain_text
from hermitcrab.compaction.structure import IDENTIFIERS, split_sections
from hermitcrab.messages import to_anthropic, to_openai
from hermitcrab.messages.identifiers import (
    extract_identifiers,
    missing_identifiers,
    unique_identifiers,
)
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.sessions.context import ContextItem, context_items, message_of
from hermitcrab.sessions.format import Entry

#: Messages whose identifiers must survive, besides the latest ask and the last summary's (design 7).
RECENT_MESSAGES = 10


@frozen(kw_only=True)
class CompactionCheck:
    """What one stored compaction kept. ``required`` identifiers must stand in its text, and ``standing`` of those from
    which they are chosen do.

    ``findable`` of ``known`` identifiers of all that it summarises stand in its text or beside it; ``tail_changed``
    counts kept messages that are not word for word those of the source.
    """

    required: int
    standing: int
    known: int
    findable: int
    tail_changed: int
    characters: int


def illegal_roles(messages: Sequence[Message]) -> int:
    """How often a provider would refuse the order of the roles, in the wire shape of two families of them."""
    return _illegal_for_openai(messages) + _illegal_for_anthropic(messages)


def _illegal_for_openai(messages: Sequence[Message]) -> int:
    wire = to_openai(messages)
    faults = int(bool(wire) and wire[0]["role"] != "user")
    pending: set[str] = set()
    for message in wire:
        role = message["role"]
        if role == "tool":
            call_id = str(message.get("tool_call_id"))
            faults += call_id not in pending
            pending.discard(call_id)
            continue
        faults += bool(pending) + (role not in {"user", "assistant"})
        pending = {str(call["id"]) for call in message.get("tool_calls") or ()}
    return faults + bool(pending)


def _illegal_for_anthropic(messages: Sequence[Message]) -> int:
    faults, pending = 0, set[str]()
    for position, message in enumerate(to_anthropic(messages)):
        faults += position == 0 and message["role"] != "user"
        results = _named(message, "tool_result", "tool_use_id")
        faults += results != pending
        pending = _named(message, "tool_use", "id")
    return faults + bool(pending)


def _named(message: dict[str, Any], kind: str, key: str) -> set[str]:
    return {str(part[key]) for part in message["content"] if part["type"] == kind}


def check_compactions(
    path: Sequence[Entry], source: Sequence[Message]
) -> Iterator[CompactionCheck]:
    """Check every compaction on a branch against what it replaced, and its tail against the source."""
    originals = {_essence(message) for message in source}
    for index, entry in enumerate(path):
        if entry["type"] == "compaction":
            before = context_items(path[:index])
            yield _check(entry, before, originals)


def _check(entry: Entry, before: Sequence[ContextItem], originals: set[Any]) -> CompactionCheck:
    kept_from = entry.get("firstKeptEntryId")
    cut = next((i for i, item in enumerate(before) if item.entry_id == kept_from), len(before))
    summarised, kept = before[:cut], before[cut:]
    text = str(entry["summary"])
    details = entry.get("details") or {}
    beside = set(details.get("identifiers", ()))
    everything = _identifiers(summarised)
    lost = [one for one in missing_identifiers(text, everything) if one not in beside]
    candidates = _candidates(summarised, before)
    return CompactionCheck(
        required=int(details.get("identifiersRequired", 0)),
        standing=len(candidates) - len(missing_identifiers(text, candidates)),
        known=len(everything),
        findable=len(everything) - len(lost),
        tail_changed=sum(
            _essence(item.message) not in originals for item in kept if not item.is_synthetic
        ),
        characters=len(text),
    )


def _candidates(summarised: Sequence[ContextItem], before: Sequence[ContextItem]) -> list[str]:
    """The identifiers from which those required are chosen: the ask's, the newest, the last summary's (design 7)."""
    previous = text_of(before[0].message) if before and before[0].is_summary else ""
    texts = [
        latest_ask(summarised) or "",
        *(plain_text(item.message) for item in summarised[-RECENT_MESSAGES:]),
        split_sections(previous).get(IDENTIFIERS, ""),
    ]
    return unique_identifiers(one for text in texts for one in extract_identifiers(text))


def _identifiers(items: Iterable[ContextItem]) -> list[str]:
    found = (one for item in items for one in extract_identifiers(text_of(item.message)))
    return list(dict.fromkeys(found))


def _essence(message: Message) -> tuple[str, str, str]:
    """What makes two messages the same to a reader: role, call and content."""
    call = str(message.get("toolCallId", ""))
    return str(message.get("role")), call, repr(message.get("content"))


def messages_of(entries: Iterable[Entry]) -> list[Message]:
    """The messages of a transcript, in the order of its entries."""
    found = (message_of(entry) for entry in entries if entry["type"] == "message")
    return [message for message in found if message is not None]
