"""Making a lost table of session entries again from the transcripts beside it (design 5).

What a transcript does not record is not made again: ``rejected_summaries``, ``last_compaction`` and ``total_tokens``.
``updated_at`` and ``last_interaction_at`` become the times of the last line and of the last user message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from attrs import define, evolve, field, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.entry import SessionEntry, merge, milliseconds
from hermitcrab.sessions.format import (
    ENTRY_CHANGE,
    FORMAT_VERSION,
    REPLACES_RECORDS,
    decode_line,
    format_version,
    parse_time,
    reference,
)
from hermitcrab.sessions.keys import is_session_id, to_store_key
from hermitcrab.sessions.lines import open_transcript, read_header
from hermitcrab.sessions.patching import parse_record

logger = logging.getLogger("hermitcrab.sessions")


@frozen
class RebuiltEntries:
    """The entries that transcripts tell, and what is to be told of the rebuilding."""

    entries: tuple[SessionEntry, ...]
    notes: tuple[str, ...]


@frozen(kw_only=True)
class Naming:
    """A transcript says at ``moment`` (milliseconds) that a key names a session id.

    ``stated`` is false where it only records changes of the key. ``unused`` says that the session holds no message and
    follows no other one.
    """

    key: str
    session_id: str
    moment: int
    record_id: str
    stated: bool
    previous: tuple[str, ...] = ()
    unused: bool = False


@define(kw_only=True)
class TranscriptFacts:
    """What one transcript tells of session entries; gathered line by line, so that its size does not matter.

    ``entry`` has what counts under every key, ``by_key`` what was recorded for one.
    """

    session_id: str
    version: int
    parent: str | None
    entry: SessionEntry
    last_moment: int
    last_user_moment: int = 0
    messages: int = 0
    by_key: dict[str, SessionEntry] = field(factory=dict)
    namings: list[Naming] = field(factory=list)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take in one line behind the header."""
        moment = _moment_of(line.get("timestamp")) or 0
        self.last_moment = max(self.last_moment, moment)
        if reference(line.get("rewriteOf")) is not None:
            return
        kind = line["type"]
        if kind == "message":
            self.messages += 1
            message = line.get("message")
            if _is_interaction(message):
                self.last_user_moment = max(self.last_user_moment, moment)
        elif kind == "compaction":
            self._count_compaction(line)
        elif line.get("customType") == ENTRY_CHANGE and isinstance(line.get("data"), dict):
            self._take_record(str(line.get("id", "")), moment, line["data"])

    def _count_compaction(self, line: Mapping[str, Any]) -> None:
        """A compaction begins a new cycle under every key of its transcript."""
        tokens = line.get("tokensAfter")
        begun: dict[str, Any] = {"flush_failures": 0}
        if type(tokens) is int:
            begun["context_tokens"] = tokens
        self.entry = _with_compactions(evolve(self.entry, **begun), 1)
        for key, entry in self.by_key.items():
            self.by_key[key] = _with_compactions(evolve(entry, **begun), 1)

    def _take_record(self, record_id: str, moment: int, data: Mapping[str, Any]) -> None:
        key = reference(data.get("key"))
        if key is None:
            return
        named = reference(data.get("sessionId"))
        changes = parse_record(data)
        if data.get(REPLACES_RECORDS) is True:
            self.namings.clear()
            self.by_key.clear()
        if named in {None, self.session_id}:
            added = data.get("addCompactions")
            entry = merge(self.by_key.get(key) or evolve(self.entry, key=key), changes)
            self.by_key[key] = _with_compactions(entry, added if type(added) is int else 0)
        self.namings.append(
            Naming(
                key=key,
                session_id=named or self.session_id,
                moment=moment,
                record_id=record_id,
                stated=named is not None,
                previous=changes.get("previous_session_ids", ()),
            )
        )

    def entry_for(self, key: str) -> SessionEntry:
        """The entry of a key that names this transcript."""
        entry = self.by_key.get(key) or self.entry
        interaction = max(entry.last_interaction_at or 0, self.last_user_moment)
        return evolve(
            entry,
            key=key,
            updated_at=min(self.last_moment, int(time.time() * 1000)),
            message_count=self.messages,
            last_interaction_at=interaction or None,
        )


def _is_interaction(message: object) -> bool:
    """Whether a user said this to the agent; what a group said to others is no interaction."""
    return (
        isinstance(message, dict)
        and message.get("role") == "user"
        and "groupContext" not in message
    )


def _with_compactions(entry: SessionEntry, count: int) -> SessionEntry:
    return evolve(entry, compaction_count=entry.compaction_count + count)


def _moment_of(value: object) -> int | None:
    moment = parse_time(value)
    return None if moment is None else milliseconds(moment)


def scan_transcript(path: Path, session_id: str | None = None) -> TranscriptFacts:
    """Read a transcript once, one line at a time.

    :param session_id: its session id, by default what the file is called after.
    :raises TranscriptError: if it cannot be read.
    """
    session_id = session_id or path.name.removesuffix(".jsonl")
    with open_transcript(path) as file:
        header, _ = read_header(file, path)
        started = _moment_of(header.get("timestamp")) or int(path.stat().st_mtime * 1000)
        facts = TranscriptFacts(
            session_id=session_id,
            version=format_version(header),
            parent=reference(header.get("parentSession")),
            entry=SessionEntry(
                key="", session_id=session_id, updated_at=started, session_started_at=started
            ),
            last_moment=started,
        )
        file.seek(0)
        for line in file:
            value = decode_line(line)
            if value is not None and value["type"] != "session":
                facts.take(value)
    return facts


def rebuild_entries(folder: Path, agent_id: str, cause: str) -> RebuiltEntries | None:
    """The session entries that the transcripts of a folder tell; ``None`` if there are no transcripts.

    :param cause: what became of the table, for the note and the log.
    """
    started = time.monotonic()
    facts: dict[str, TranscriptFacts] = {}
    notes: list[str] = []
    for path in transcripts_in(folder):
        try:
            found = scan_transcript(path)
        except (TranscriptError, OSError) as error:
            notes.append(f"{path.name} could not be read and has no session entry: {error}")
            continue
        facts[found.session_id] = found
    entries = _unique_labels(assemble_entries(facts, agent_id), notes)
    if not facts and not notes:
        return None
    notes.insert(
        0, f"{cause}; {len(entries)} sessions were made again from {len(facts)} transcripts"
    )
    for note in notes:
        logger.warning("%s: %s", folder, note)
    logger.info("rebuilding took %.1f s", time.monotonic() - started)
    return RebuiltEntries(tuple(entries), tuple(notes))


def transcripts_in(folder: Path) -> Iterator[Path]:
    """The files of a folder that hold a session's transcript, by name."""
    for path in sorted(folder.glob("*.jsonl")):
        if is_session_id(path.name.removesuffix(".jsonl")) and path.is_file():
            yield path


def assemble_entries(facts: Mapping[str, TranscriptFacts], agent_id: str) -> list[SessionEntry]:
    """One entry a key: of all records that say which session id a key names, the latest wins.

    Transcripts that no key names, such as foreign ones, are found under a key of their own.
    """
    by_key: dict[str, list[Naming]] = {}
    for fact in facts.values():
        for naming in fact.namings:
            if naming.session_id in facts:
                unused = not facts[naming.session_id].messages and not naming.previous
                by_key.setdefault(naming.key, []).append(evolve(naming, unused=unused))
    entries = [_entry_of(key, namings, facts) for key, namings in by_key.items()]
    known = {entry.session_id for entry in entries}
    known.update(previous for entry in entries for previous in entry.previous_session_ids)
    taken = {entry.key for entry in entries}
    for session_id, fact in facts.items():
        if session_id not in known and (fact.messages or not fact.namings):
            key = _free_key(agent_id, session_id, taken)
            taken.add(key)
            entries.append(fact.entry_for(key))
    return sorted(entries, key=lambda entry: entry.key)


def _entry_of(
    key: str, namings: Iterable[Naming], facts: Mapping[str, TranscriptFacts]
) -> SessionEntry:
    """The entry of a key. A session that was begun beside another one and never used does not displace it."""
    ordered = sorted(
        namings,
        key=lambda one: (
            one.stated,
            not one.unused,
            one.moment,
            len(one.previous),
            one.record_id,
        ),
    )
    session_id = ordered[-1].session_id
    entry = facts[session_id].entry_for(key)
    others = [one.session_id for one in ordered if one.session_id != session_id and not one.unused]
    previous = entry.previous_session_ids
    left_out = [one for one in dict.fromkeys(others) if one not in previous]
    previous = (*left_out, *previous) or _copied_from(facts[session_id], facts)
    return evolve(entry, previous_session_ids=previous)


def _copied_from(fact: TranscriptFacts, facts: Mapping[str, TranscriptFacts]) -> tuple[str, ...]:
    """The transcript of an older format that this one continues (design 7)."""
    if fact.parent is None:
        return ()
    parent = PureWindowsPath(fact.parent).name.removesuffix(".jsonl")
    is_older = parent in facts and facts[parent].version < FORMAT_VERSION
    return (parent,) if is_older else ()


def _free_key(agent_id: str, session_id: str, taken: Iterable[str]) -> str:
    key = to_store_key(f"agent:{agent_id}:recovered:{session_id}")
    number = 1
    while key in taken:  # ids that differ in upper and lower case only
        number += 1
        key = to_store_key(f"agent:{agent_id}:recovered:{session_id}-{number}")
    return key


def _unique_labels(entries: Iterable[SessionEntry], notes: list[str]) -> list[SessionEntry]:
    """Entries with each label once: the session that is older keeps it."""
    holders: dict[str, str] = {}
    kept: dict[str, SessionEntry] = {}
    for entry in sorted(entries, key=lambda one: (one.session_started_at, one.key)):
        if entry.label is not None:
            holder = holders.setdefault(entry.label, entry.key)
            if holder != entry.key:
                notes.append(f"{entry.key} lost its label {entry.label!r}, which {holder} has")
                entry = evolve(entry, label=None)
        kept[entry.key] = entry
    return list(kept.values())
