"""What is to be imported, under which keys and session ids (sessions 1.7, 2.1, 2.10). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from hermitcrab.errors import SessionError
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.importing.names import safe_session_id, session_file
from hermitcrab.sessions.importing.rows import entry_of_row, session_ids_before, updated_at
from hermitcrab.sessions.importing.sources import LeftOut, SourceFolder, Sources, SourceTranscript
from hermitcrab.sessions.importing.values import ImportPlan, PlanOptions, WantedSession
from hermitcrab.sessions.keys import is_session_id
from hermitcrab.sessions.repair.rebuilding import assemble_entries

_UNKNOWN_ARCHIVE = "it is an archive, and nothing tells of which key; name the file to import it"


def plan_import(sources: Sources, options: PlanOptions) -> ImportPlan:
    """Find a key and a session id for every transcript.

    :raises SessionError: if a key was given, and there is not just one session.
    """
    planner = _Planner(sources, options)
    planner.read_rows()
    planner.read_records()
    planner.find_generations()
    planner.name_the_rest()
    return planner.plan()


@frozen(kw_only=True)
class _Claim:
    """A key that names a transcript, by a row or by what the transcript records."""

    key: str
    row: Mapping[str, Any] | None = None
    recorded: SessionEntry | None = None
    generations: tuple[str, ...] = ()


@define
class _Planner:
    sources: Sources
    options: PlanOptions
    claims: dict[str, tuple[_Claim, SourceTranscript]] = field(factory=dict)
    owners: dict[Path, str] = field(factory=dict)
    left_out: list[LeftOut] = field(factory=list)
    notes: list[str] = field(factory=list)

    def read_rows(self) -> None:
        """Which keys the rows of ``sessions.json`` give; of several for one key, the one that is newest."""
        index = {each.path: each for folder in self.sources.folders for each in folder.transcripts}
        for folder in self.sources.folders:
            for key, row in folder.rows.items():
                found = self._claim_of_row(key, row, folder, index)
                if found is None:
                    continue
                claim, transcript = found
                standing = self.claims.get(claim.key)
                if standing is not None and updated_at(standing[0].row or {}) >= updated_at(row):
                    self.owners.setdefault(transcript.path, claim.key)
                    continue
                if standing is not None:
                    self.owners.setdefault(standing[1].path, claim.key)
                self.claims[claim.key] = found

    def _claim_of_row(
        self, key: str, row: Any, folder: SourceFolder, index: Mapping[Path, SourceTranscript]
    ) -> tuple[_Claim, SourceTranscript] | None:
        session_id = row.get("sessionId") if isinstance(row, dict) else None
        transcript = None
        if isinstance(session_id, str):
            transcript = _located(row, session_id, folder, index)
        if transcript is None and self.sources.is_one_file:
            return None
        if not isinstance(session_id, str) or not is_session_id(session_id):
            self._refuse(folder, key, f"its session id {session_id!r} is not safe as a file name")
            return None
        if transcript is None:
            self._refuse(folder, key, f"the transcript of session {session_id} is not there")
            return None
        try:
            stored = self.options.stored_key(key, self._agent_of(folder))
        except SessionError as error:
            self.notes.append(f"{folder.path}: {error.message}; its conversation gets another key")
            return None
        return _Claim(key=stored, row=row, generations=tuple(session_ids_before(row))), transcript

    def _refuse(self, folder: SourceFolder, key: str, reason: str) -> None:
        self.left_out.append(LeftOut(folder.path / "sessions.json", f"{key}: {reason}"))

    def read_records(self) -> None:
        """Which keys transcripts record themselves, as those that were exported from here do."""
        for folder in self.sources.folders:
            known = {each.session_id: each for each in reversed(self._unclaimed(folder))}
            facts = {session_id: each.facts for session_id, each in known.items()}
            named = {naming.key for fact in facts.values() for naming in fact.namings}
            for entry in assemble_entries(facts, self._agent_of(folder)):
                if entry.key in named:
                    self._take_recorded(entry, known[entry.session_id], folder)

    def _take_recorded(
        self, entry: SessionEntry, transcript: SourceTranscript, folder: SourceFolder
    ) -> None:
        try:
            key = self.options.stored_key(entry.key, self._agent_of(folder))
        except SessionError as error:
            self.notes.append(f"{transcript.path}: {error.message}; it gets another key")
            return
        previous = tuple(filter(is_session_id, entry.previous_session_ids))
        entry = evolve(entry, previous_session_ids=previous)
        if key in self.claims:
            self.owners.setdefault(transcript.path, key)
        else:
            self.claims[key] = (_Claim(key=key, recorded=entry, generations=previous), transcript)

    def find_generations(self) -> None:
        """Which transcripts are earlier sessions of a key."""
        by_place = {
            (transcript.path.parent, session_id): claim.key
            for claim, transcript in self.claims.values()
            for session_id in claim.generations
        }
        for folder in self.sources.folders:
            for each in self._unclaimed(folder, archives=True):
                owner = by_place.get((folder.path, each.session_id)) or self._told(each, folder)
                if owner is not None:
                    self.owners.setdefault(each.path, owner)

    def _told(self, archive: SourceTranscript, folder: SourceFolder) -> str | None:
        """The key that an archive records, if it comes along."""
        if archive.name.archived is None or not archive.facts.namings:
            return None
        try:
            key = self.options.stored_key(archive.facts.namings[-1].key, self._agent_of(folder))
        except SessionError:
            return None
        return key if key in self.claims else None

    def name_the_rest(self) -> None:
        """Transcripts that nothing names get keys of their own; archives of which nothing is known are left out."""
        for folder in self.sources.folders:
            for each in self._unclaimed(folder, archives=True):
                if each.path in self.owners:
                    continue
                if each.name.archived:
                    self.left_out.append(LeftOut(each.path, _UNKNOWN_ARCHIVE))
                    continue
                key = self._free_key(each, self._agent_of(folder))
                self.claims[key] = (_Claim(key=key), each)

    def _free_key(self, transcript: SourceTranscript, agent_id: str) -> str:
        session_id = safe_session_id(transcript.session_id)
        topic = f":topic:{transcript.name.topic}" if transcript.name.topic else ""
        number, suffix = 1, ""
        while True:
            key = self.options.stored_key(f"import:{session_id}{suffix}{topic}", agent_id)
            if key not in self.claims:
                return key
            number += 1
            suffix = f"-{number}"

    def plan(self) -> ImportPlan:
        """The sessions to import, each with a session id of its own within its agent."""
        if self.options.key is not None:
            self._rename(self.options.key)
        taken: dict[tuple[str, str], Path] = {}
        present = [
            wanted
            for agent_id, transcript, claims in self._by_transcript()
            if (wanted := self._wanted(agent_id, transcript, claims, taken))
        ]
        earlier = list(self._earlier(taken))
        return ImportPlan(
            wanted=(*earlier, *_knowing_their_past(present, earlier)),
            left_out=(*self.sources.left_out, *self.left_out),
            notes=(*self.sources.notes, *self.notes),
        )

    def _rename(self, key: str) -> None:
        paths = {transcript.path for _, transcript in self.claims.values()}
        if len(paths) != 1:
            raise SessionError(
                f"there are {len(paths):,} sessions to import, and one key for them",
                hint="Name the transcript that is to have the key.",
            )
        [*_, (claim, transcript)] = sorted(
            self.claims.values(), key=lambda each: updated_at(each[0].row or {})
        )
        self.claims = {key: (evolve(claim, key=key), transcript)}
        self.owners = dict.fromkeys(self.owners, key)

    def _by_transcript(self) -> Iterator[tuple[str, SourceTranscript, list[_Claim]]]:
        """The claims on each transcript, by agent; whoever has the best right to its session id first."""
        grouped: dict[tuple[str, Path], tuple[SourceTranscript, list[_Claim]]] = {}
        for key, (claim, transcript) in sorted(self.claims.items()):
            place = (self.options.owner_of(key), transcript.path)
            grouped.setdefault(place, (transcript, []))[1].append(claim)
        ordered = sorted(grouped.items(), key=lambda item: (_rank(*item[1]), item[0]))
        for (agent_id, _), (transcript, claims) in ordered:
            yield agent_id, transcript, claims

    def _wanted(
        self,
        agent_id: str,
        transcript: SourceTranscript,
        claims: list[_Claim],
        taken: dict[tuple[str, str], Path],
    ) -> WantedSession | None:
        stated = next((claim.row["sessionId"] for claim in claims if claim.row), None)
        session_id = stated or transcript.session_id
        if not is_session_id(session_id):
            reason = f"its session id {session_id!r} is not safe as a file name"
            self.left_out.append(LeftOut(transcript.path, reason))
            return None
        if (agent_id, session_id) in taken:
            session_id = safe_session_id(transcript.path.name.partition(".jsonl")[0])
        if (agent_id, session_id) in taken:
            self._leave_out_copy(transcript, session_id, taken[agent_id, session_id])
            return None
        taken[agent_id, session_id] = transcript.path
        entries = tuple(self._entry(claim, transcript, session_id) for claim in claims)
        known = [claim.recorded for claim in claims]
        return WantedSession(
            source=transcript,
            agent_id=agent_id,
            session_id=session_id,
            entries=entries,
            is_recorded=list(entries) == known,
        )

    def _entry(self, claim: _Claim, transcript: SourceTranscript, session_id: str) -> SessionEntry:
        if claim.recorded is not None:
            return evolve(claim.recorded, key=claim.key, session_id=session_id)
        known = evolve(transcript.facts.entry_for(claim.key), session_id=session_id)
        if claim.row is None:
            return known
        agent_id = self.options.owner_of(claim.key)
        entry, notes = entry_of_row(
            claim.row,
            known,
            now=self.options.now,
            stored_key=lambda key: self.options.stored_key(key, agent_id),
        )
        self.notes += notes
        return entry

    def _earlier(self, taken: dict[tuple[str, str], Path]) -> Iterator[WantedSession]:
        claimed = {transcript.path for _, transcript in self.claims.values()}
        found = [
            each
            for folder in self.sources.folders
            for each in folder.transcripts
            if each.path in self.owners and each.path not in claimed
        ]
        for each in sorted(found, key=lambda each: (each.name.archived is not None, each.path)):
            owner, session_id = self.owners[each.path], each.session_id
            agent_id = self.options.owner_of(owner)
            if not is_session_id(session_id):
                reason = f"its session id {session_id!r} is not safe as a file name"
                self.left_out.append(LeftOut(each.path, reason))
            elif (agent_id, session_id) in taken:
                self._leave_out_copy(each, session_id, taken[agent_id, session_id])
            else:
                taken[agent_id, session_id] = each.path
                yield WantedSession(
                    source=each, agent_id=agent_id, session_id=session_id, owner=owner
                )

    def _leave_out_copy(self, transcript: SourceTranscript, session_id: str, other: Path) -> None:
        reason = f"session {session_id} is taken from {other.name}"
        self.left_out.append(LeftOut(transcript.path, reason))

    def _agent_of(self, folder: SourceFolder) -> str:
        return self.options.agent_id or folder.agent_id or self.options.default_agent

    def _unclaimed(self, folder: SourceFolder, *, archives: bool = False) -> list[SourceTranscript]:
        claimed = {transcript.path for _, transcript in self.claims.values()}
        return sorted(
            (
                each
                for each in folder.transcripts
                if each.path not in claimed and (archives or each.name.archived is None)
            ),
            key=lambda each: (not each.name.is_plain, each.path),
        )


def _located(
    row: Mapping[str, Any],
    session_id: str,
    folder: SourceFolder,
    index: Mapping[Path, SourceTranscript],
) -> SourceTranscript | None:
    """The transcript that a row names: by its file, by the usual name, or by the id in it (sessions 2.1)."""
    stated = row.get("sessionFile")
    named = session_file(stated, folder.path) if isinstance(stated, str) else None
    found = index.get(named) if named is not None else None
    found = found or index.get(folder.path / f"{session_id}.jsonl")
    if found is not None:
        return found
    return next(
        (
            each
            for each in folder.transcripts
            if each.session_id == session_id and each.name.archived is None
        ),
        None,
    )


def _rank(transcript: SourceTranscript, claims: Iterable[_Claim]) -> tuple[bool, bool]:
    is_named = any(claim.row or claim.recorded for claim in claims)
    return not is_named, not transcript.name.is_plain


def _knowing_their_past(
    present: Iterable[WantedSession], earlier: Iterable[WantedSession]
) -> Iterator[WantedSession]:
    """Sessions whose entries name the earlier sessions of their keys, the oldest first."""
    by_owner: dict[str | None, list[WantedSession]] = {}
    for each in sorted(earlier, key=lambda each: each.source.facts.entry.session_started_at):
        by_owner.setdefault(each.owner, []).append(each)
    for wanted in present:
        entries = []
        for entry in wanted.entries:
            found = [each.session_id for each in by_owner.get(entry.key, ())]
            known = entry.previous_session_ids
            missing = [each for each in found if each not in known]
            entries.append(evolve(entry, previous_session_ids=(*missing, *known)))
        is_recorded = wanted.is_recorded and tuple(entries) == wanted.entries
        yield evolve(wanted, entries=tuple(entries), is_recorded=is_recorded)
