"""The draft of a plan: what is left of a snapshot while maintenance decides, step by step, what goes."""

from __future__ import annotations

from collections import Counter

from attrs import evolve

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.maintenance.file_names import FileKind, base_stem
from hermitcrab.sessions.maintenance.folder import Belonging, Ownership, Snapshot, StoredFile
from hermitcrab.sessions.maintenance.plan import FileRemoval, Removal, Rule, SessionRemoval
from hermitcrab.sessions.maintenance.protection import Protection


class Draft:
    """What is left of a folder, and what was decided of it so far. Times are milliseconds."""

    def __init__(self, snapshot: Snapshot, protection: Protection, *, now: int) -> None:
        self.now = now
        self.entries = {entry.key: entry for entry in snapshot.entries}
        self.bytes = sum(file.bytes for file in snapshot.files)
        self._files = {file.name: file for file in snapshot.files}
        self._ownership = Ownership(snapshot.entries, snapshot.files)
        self._transcripts = self._transcripts_by_key()
        self._known = dict(self.entries)
        self._protection = protection
        self._sessions: dict[str, SessionRemoval] = {}
        self._removals: list[FileRemoval] = []
        self._archived: dict[str, str] = {}
        self._archives = Counter(file.parsed.stem for file in self.standing("archive"))

    # -- what is there ------------------------------------------------------------------------

    def oldest_sessions(self) -> list[SessionEntry]:
        """The sessions that are left, the one that was not used for longest first."""
        return sorted(self.entries.values(), key=lambda entry: (self._last_used(entry), entry.key))

    def standing(self, kind: FileKind) -> list[StoredFile]:
        """The files of a kind that are left."""
        return [file for file in self._files.values() if file.parsed.kind == kind]

    def archived(self) -> list[StoredFile]:
        """The transcripts that this plan makes archives of."""
        return [
            file
            for removal in self._sessions.values()
            for file in removal.archived
            if file.parsed.kind == "transcript"
        ]

    def generations(self) -> list[tuple[StoredFile, int]]:
        """Earlier transcripts of sessions that are not pinned, and when each of them ended."""
        found = []
        for file in self.standing("transcript"):
            whose = self.belonging(file)
            if whose.keys and whose.relation != "current":
                owners = [self._known[key] for key in whose.keys]
                if all(entry.pinned_at is None for entry in owners):
                    ended = (self._ended_at(file, entry) for entry in owners)
                    found.append((file, max(file.modified_at, *ended)))
        return found

    def belonging(self, file: StoredFile) -> Belonging:
        """The sessions that are left which a file belongs to."""
        return self._ownership.of(file.parsed.stem).among(self.entries.keys())

    def files_of(self, entry: SessionEntry) -> list[StoredFile]:
        """The transcripts and blobs that only this session needs, the current transcript last."""
        own = [
            file
            for name in self._transcripts.get(entry.key, ())
            if (file := self._files.get(name)) and self.belonging(file).keys <= {entry.key}
        ]
        own.sort(key=lambda file: (file.parsed.stem == entry.session_id, file.name))
        stems = {file.parsed.stem for file in own}
        blobs = [self._files.get(f"{stem}.blobs") for stem in sorted(filter(None, stems))]
        return [*(file for file in blobs if file is not None), *own]

    def age(self, entry: SessionEntry) -> int:
        """How long a session was not used."""
        return self.now - self._last_used(entry)

    def protected(self, entry: SessionEntry) -> bool:
        """Whether a session is left alone."""
        last_used = self._last_used(entry)
        return self._protection.reason(entry, last_used=last_used, now=self.now) is not None

    def was_deleted(self, entry: SessionEntry) -> bool:
        """Whether the transcript that an entry names is an archive already: its deletion did not come to its end."""
        return not self.has_transcript(entry.session_id) and any(
            file.parsed.stem == entry.session_id and file.parsed.reason == "deleted"
            for file in self.standing("archive")
        )

    def has_transcript(self, stem: str | None) -> bool:
        """Whether a transcript is left."""
        return f"{stem}.jsonl" in self._files

    def needs_blobs(self, stem: str | None) -> bool:
        """Whether a transcript or an archive of it is left, so that its blobs are needed."""
        return (
            self.has_transcript(stem)
            or f"{stem}.jsonl" in self._archived
            or self._archives[stem] > 0
        )

    # -- what is decided ----------------------------------------------------------------------

    def remove_session(
        self, entry: SessionEntry, rule: Rule, why: str, *, at_once: bool = False
    ) -> None:
        """Let a session go; its transcripts become archives, or go ``at_once``."""
        files = self.files_of(entry)
        del self.entries[entry.key]
        removal = SessionRemoval(rule=rule, why=why, entry=entry)
        for file in files:
            if at_once:
                removal = evolve(removal, deleted=(*removal.deleted, file))
                self._take(file)
            elif file.parsed.kind == "transcript":
                removal = evolve(removal, archived=(*removal.archived, file))
                self._archived[file.name] = entry.key
                self._files.pop(file.name)
                self._take_lock(file)
        self._sessions[entry.key] = removal

    def remove_file(self, file: StoredFile, rule: Rule, why: str) -> None:
        """Let a file go, and its blobs if nothing else needs them; one that was to be archived is not kept then."""
        keys = self._ownership.of(file.parsed.stem).keys
        holder = self._archived.pop(file.name, None)
        if holder is not None:
            removal = self._sessions[holder]
            left = tuple(each for each in removal.archived if each.name != file.name)
            deleted = (*removal.deleted, file)
            self._sessions[holder] = evolve(removal, archived=left, deleted=deleted)
            self.bytes -= file.bytes
        else:
            self._removals.append(
                FileRemoval(rule=rule, why=why, file=file, keys=tuple(sorted(keys)))
            )
            self._take(file)
        blobs = self._files.get(f"{file.parsed.stem}.blobs")
        if blobs is not None and not self.needs_blobs(blobs.parsed.stem):
            self.remove_file(blobs, "blobs", why)

    def removals(self) -> tuple[Removal, ...]:
        """All that was decided: sessions first, so that their files are archives when it is the turn of archives."""
        return (*self._sessions.values(), *self._removals)

    def _take(self, file: StoredFile) -> None:
        del self._files[file.name]
        self.bytes -= file.bytes
        if file.parsed.kind == "archive":
            self._archives[file.parsed.stem] -= 1
        if file.parsed.kind == "transcript":
            self._take_lock(file)

    def _take_lock(self, file: StoredFile) -> None:
        """The lock of a transcript goes with it, unsaid."""
        lock = self._files.pop(f"{file.name}.lock", None)
        self.bytes -= 0 if lock is None else lock.bytes

    def _last_used(self, entry: SessionEntry) -> int:
        """When a session was last used: a turn that is under way shows in its transcript first."""
        current = self._files.get(f"{entry.session_id}.jsonl")
        return max(entry.updated_at, 0 if current is None else current.modified_at)

    def _ended_at(self, file: StoredFile, entry: SessionEntry) -> int:
        """When the session id after a given one began under a key."""
        ids = (*entry.previous_session_ids, entry.session_id)
        stem = base_stem(file.parsed.stem or "")
        if stem not in entry.previous_session_ids:
            return file.modified_at
        following = ids[ids.index(stem) + 1]
        if following == entry.session_id:
            return entry.session_started_at
        after = self._files.get(f"{following}.jsonl")
        return file.modified_at if after is None else after.started_at or after.modified_at

    def _transcripts_by_key(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for file in self.standing("transcript"):
            for key in self._ownership.of(file.parsed.stem).keys:
                found.setdefault(key, []).append(file.name)
        return found
