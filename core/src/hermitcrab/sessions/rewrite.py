"""Replacing messages of a transcript without touching a line of it (context 1.2): the suffix is appended anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from attrs import field, frozen

from hermitcrab.errors import ContextEngineError
from hermitcrab.messages.types import Message
from hermitcrab.sessions.branch import parent_of
from hermitcrab.sessions.format import ENTRY_CHANGE, Entry, encode_line

if TYPE_CHECKING:
    from hermitcrab.sessions.log import SessionLog

_ATTEMPTS = 2
_MOVED_ON = "another process appended to the session meanwhile"
_LINKS = {"compaction": "firstKeptEntryId", "label": "targetId", "branch_summary": "fromId"}


class Replacement(TypedDict):
    """The entry of a message, and the message to put in its place."""

    entry_id: str
    message: Message


@frozen
class RewriteResult:
    """What a rewrite did; where nothing changed, ``reason`` says why.

    ``bytes_freed`` counts bytes of JSON that the context no longer holds, ``rewritten_entries`` the messages that were
    replaced. ``id_map`` leads from the id of every entry that was appended anew to its new one.
    """

    changed: bool
    reason: str | None = None
    bytes_freed: int = 0
    rewritten_entries: int = 0
    id_map: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class RewritePlan:
    """The leaf goes to ``parent_id``, and ``entries`` follow; they have new ids and no parents yet."""

    parent_id: str | None
    entries: tuple[Entry, ...]
    result: RewriteResult


def plan_rewrite(
    path: Sequence[Entry],
    replacements: Sequence[Replacement],
    *,
    new_id: Callable[[], str],
    allowed: Collection[str] | None = None,
    missing: str | None = None,
) -> RewritePlan | str:
    """What to append so that the branch holds the replacements, or why there is nothing to append.

    :param path: the active branch; what stands before its first entry is not touched.
    :param allowed: the ids that may be appended anew; ``None`` allows all.
    :param missing: an id that the path names although the transcript does not have it.
    """
    if not replacements:
        return "no replacements"
    if not any(entry["type"] == "message" for entry in path):
        return "the session is empty"
    wanted = {one["entry_id"]: one["message"] for one in replacements}
    matches = [
        i for i, each in enumerate(path) if each["type"] == "message" and each["id"] in wanted
    ]
    if not matches:
        return "no replacement matches a message of the active branch"
    changes = {path[i]["id"]: wanted[path[i]["id"]] for i in matches}
    unreadable = [entry_id for entry_id, message in changes.items() if not _is_message(message)]
    if unreadable:
        return f"the replacement for entry {unreadable[0]} is not a message"
    if all(path[i].get("message") == changes[path[i]["id"]] for i in matches):
        return "the replacements change nothing"
    parent_id = path[matches[0] - 1]["id"] if matches[0] else parent_of(path[0])
    if parent_id is not None and parent_id == missing:
        return f"the first target, entry {path[matches[0]]['id']}, follows an entry that is missing"
    suffix = path[matches[0] :]
    barred = [each["id"] for each in suffix if allowed is not None and each["id"] not in allowed]
    if barred:
        return f"entry {barred[0]} would have to be appended anew, which is not allowed"
    id_map = {entry["id"]: new_id() for entry in suffix}
    return RewritePlan(
        parent_id=parent_id,
        entries=tuple(_appended_anew(entry, id_map, changes) for entry in suffix),
        result=RewriteResult(
            True,
            bytes_freed=sum(_freed(path[i], changes[path[i]["id"]]) for i in matches),
            rewritten_entries=len(matches),
            id_map=id_map,
        ),
    )


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _appended_anew(
    entry: Entry, id_map: Mapping[str, str], changes: Mapping[str, Message]
) -> Entry:
    fields: Any = {name: value for name, value in entry.items() if name != "parentId"}
    # Who counts what a transcript holds passes over an entry that says again what was said before.
    fields |= {"id": id_map[entry["id"]], "rewriteOf": entry["id"]}
    link = _LINKS.get(entry["type"])
    if link is not None and isinstance(fields.get(link), str):
        fields[link] = id_map.get(fields[link], fields[link])
    if entry["id"] in changes:
        fields["message"] = changes[entry["id"]]
    if entry.get("customType") == ENTRY_CHANGE and isinstance(fields.get("data"), dict):
        seen = fields["data"].get("flushedEntryId")
        if isinstance(seen, str) and seen in id_map:
            fields["data"] = {**fields["data"], "flushedEntryId": id_map[seen]}
    anew: Entry = fields
    return anew


def _freed(entry: Entry, message: Message) -> int:
    return max(0, len(encode_line(entry["message"])) - len(encode_line(message)))


async def rewrite_transcript_entries(
    log: SessionLog,
    replacements: Sequence[Replacement],
    *,
    allowed_rewrite_suffix_entry_ids: Collection[str] | None = None,
) -> RewriteResult:
    """Put messages in the place of others on the active branch (context 1.2).

    The leaf moves to the parent of the first of them, and everything from there on is appended again with new ids, in
    one write: other processes see the branch as it was or as it is then. Links to old ids in compactions, labels and
    branch summaries follow. What others append at the same time wins: after a second attempt nothing is changed.

    :raises ContextEngineError: if a replacement lacks a field.
    :raises TranscriptError: if a message cannot be written as JSON, or the transcript cannot be written.
    """
    for one in replacements:
        if not {"entry_id", "message"} <= one.keys():
            raise ContextEngineError(
                "a replacement needs `entry_id` and `message`",
                where=log.file,
                hint=f"It has {', '.join(map(repr, one)) or 'nothing'}.",
            )
    rewrite = _Rewrite(log, list(replacements), allowed_rewrite_suffix_entry_ids)
    result = RewriteResult(False, _MOVED_ON)
    for _ in range(_ATTEMPTS):
        result = await rewrite.attempt()
        if result.changed or result.reason != _MOVED_ON:
            break
    seen = result.id_map.get(log.entry.flushed_entry_id or "")
    if seen is not None:
        await log.update_entry(record=False, policy="preserve-activity", flushed_entry_id=seen)
    return result


class _Rewrite:
    """One request of a rewrite."""

    def __init__(
        self,
        log: SessionLog,
        replacements: Sequence[Replacement],
        allowed: Collection[str] | None,
    ) -> None:
        self._log = log
        self._replacements = replacements
        self._allowed = None if allowed is None else frozenset(allowed)

    async def attempt(self) -> RewriteResult:
        """Rewrite from the leaf that is known now, unless the file turns out to be elsewhere."""
        log = self._log
        await log.refresh()
        known = await self._known_branch()
        plan = await asyncio.to_thread(self._plan, _joined(known, log.path) or (), known)
        if isinstance(plan, str):
            return RewriteResult(False, plan)
        result = RewriteResult(False, _MOVED_ON)

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            nonlocal result
            path = _joined(known, log.path)
            if found or leaf_id != log.leaf_id or path is None:
                return ()
            plan = self._plan(path, known)
            if isinstance(plan, str):
                result = RewriteResult(False, plan)
                return ()
            result = plan.result
            leaf = log.new_entry("leaf", targetId=plan.parent_id)
            return (leaf, *plan.entries, *self._flush_change(plan.result.id_map))

        await log.append_decided(make, purpose="rewrite")
        return result

    def _plan(self, path: Sequence[Entry], known: Sequence[Entry]) -> RewritePlan | str:
        # A branch that was read whole begins at a root, or behind an entry that is missing.
        missing = parent_of(known[0]) if known else self._log.faults.missing_ancestor
        return plan_rewrite(
            path,
            self._replacements,
            new_id=self._log.new_id,
            allowed=self._allowed,
            missing=missing,
        )

    def _flush_change(self, id_map: Mapping[str, str]) -> Sequence[Entry]:
        """Records the new id of what the flush saw last, so that a compaction still knows what it saw (design 7)."""
        seen = id_map.get(self._log.entry.flushed_entry_id or "")
        if seen is None:
            return ()
        change = {"key": self._log.key, "flushedEntryId": seen}
        return (self._log.new_entry("custom", customType=ENTRY_CHANGE, data=change),)

    async def _known_branch(self) -> Sequence[Entry]:
        """The branch with what the last compaction hides, where a replacement may stand there."""
        path = self._log.path
        shown = {entry["id"] for entry in path}
        is_whole = not path or parent_of(path[0]) is None
        if is_whole or all(one["entry_id"] in shown for one in self._replacements):
            return ()
        return (await self._log.read_all()).branch()


def _joined(known: Sequence[Entry], path: Sequence[Entry]) -> Sequence[Entry] | None:
    """``path`` with what stands before it in ``known``; ``None`` if they have nothing to do with each other."""
    if not known or not path:
        return path
    start = next((i for i, entry in enumerate(known) if entry["id"] == path[0]["id"]), None)
    return None if start is None else (*known[:start], *path)
