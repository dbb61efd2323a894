"""Archived generations are found under the key that they belong to, whoever left them (sessions 2.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.format import ENTRY_CHANGE, parse_time
from hermitcrab.sessions.maintenance.archives import ArchivedSession, archives_in
from hermitcrab.sessions.maintenance.file_names import FileName, archive_name, parse_name

KEY = "agent:main:main"


def entry(session_id: str = "s1", *previous: str, key: str = KEY) -> SessionEntry:
    return SessionEntry(
        key=key,
        session_id=session_id,
        updated_at=1,
        session_started_at=1,
        previous_session_ids=previous,
    )


def archives(files: Any, *entries: SessionEntry, **options: Any) -> list[ArchivedSession]:
    return archives_in(files.folder, entries, **options)


class TestListing:
    def test_the_transcripts_of_earlier_session_ids_and_not_the_current_one(
        self, files: Any
    ) -> None:
        """#116712: the old transcript could not be reached any more."""
        files.write(*files.chain("a", "b"), session_id="s0")
        files.write(*files.chain("c"))
        [found] = archives(files, entry("s1", "s0"))
        assert (found.key, found.session_id, found.reason) == (KEY, "s0", "reset")
        assert (found.messages, found.problem) == (2, None)
        assert found.bytes == found.file.stat().st_size

    def test_an_older_format_that_was_copied(self, files: Any) -> None:
        files.write(
            *files.chain("a"), header={**files.header, "id": "s0", "version": 2}, session_id="s0"
        )
        files.write(*files.chain("a"), header={**files.header, "parentSession": "/x/s0.jsonl"})
        [found] = archives(files, entry("s1", "s0"))
        assert (found.session_id, found.reason) == ("s0", "copied")

    @pytest.mark.parametrize("child", ["s1", "fork_9"])
    def test_a_fork_and_what_it_was_forked_from_that_no_entry_names(
        self, files: Any, child: str
    ) -> None:
        parent = "s0" if child == "s1" else "s1"
        files.write(*files.chain("a"), session_id=parent)
        header = {**files.header, "id": child, "parentSession": rf"C:\home\{parent}.jsonl"}
        files.write(*files.chain("a"), header=header, session_id=child)
        [found] = archives(files, entry("s1"))
        assert found.key == KEY
        assert found.reason == "related"
        assert found.session_id == ("s0" if child == "s1" else "fork_9")

    def test_a_fork_that_has_a_key_of_its_own_is_no_archive(self, files: Any) -> None:
        files.write(*files.chain("a"))
        header = {**files.header, "id": "s2", "parentSession": "s1.jsonl"}
        files.write(*files.chain("a"), header=header, session_id="s2")
        assert archives(files, entry("s1"), entry("s2", key="agent:main:other")) == []

    @pytest.mark.parametrize("reason", ["reset", "deleted", "bak"])
    def test_archive_files_of_the_reference_beside_the_transcripts(
        self, files: Any, reason: str
    ) -> None:
        path = files.write(*files.chain("a", "b", "c"))
        path.rename(path.with_name(f"s1.jsonl.{reason}.2026-03-02T04-00-00Z"))
        [found] = archives(files, entry("s1"))
        assert (found.key, found.session_id, found.reason) == (KEY, "s1", reason)
        assert found.messages == 3

    def test_a_deleted_session_is_found_under_the_key_that_it_tells(self, files: Any) -> None:
        record = {"key": "agent:main:gone", "sessionId": "s1"}
        change = {"type": "custom", "id": "x", "customType": ENTRY_CHANGE, "data": record}
        path = files.write(change, *files.chain("a"))
        path.rename(path.with_name("s1.jsonl.deleted.2026-03-02T04-00-00.123Z"))
        [found] = archives(files)
        assert (found.key, found.messages) == ("agent:main:gone", 1)

    def test_what_is_compressed_is_listed_and_says_why_it_cannot_be_read(self, files: Any) -> None:
        files.folder.mkdir(parents=True)
        (files.folder / "s1.jsonl.deleted.2026-03-02T04-00-00.000Z.zst").write_bytes(b"zstd")
        [found] = archives(files)
        assert (found.session_id, found.messages) == ("s1", None)
        assert found.problem == "it is compressed"

    def test_c10_what_an_entry_names_and_is_not_there_is_missing(self, files: Any) -> None:
        """C10: a deleted file was still referenced."""
        files.write(*files.chain("a"))
        [found] = archives(files, entry("s1", "s0"))
        assert (found.session_id, found.problem) == ("s0", "it is missing")

    def test_only_those_of_one_key(self, files: Any) -> None:
        for session_id in ("a0", "a1", "b0", "b1"):
            files.write(*files.chain("x"), session_id=session_id)
        both = (entry("a1", "a0"), entry("b1", "b0", key="agent:main:other"))
        assert [each.session_id for each in archives(files, *both)] == ["a0", "b0"]
        assert [each.session_id for each in archives(files, *both, key=KEY)] == ["a0"]

    def test_orphans_are_nobodys_archive(self, files: Any) -> None:
        files.write(*files.chain("a"), session_id="lonely")
        assert archives(files, entry("s1")) == []

    def test_a_folder_that_is_not_there_has_none(self, files: Any) -> None:
        assert archives(files) == []


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kind", "stem"),
        [
            ("s1.jsonl", "transcript", "s1"),
            ("2026-01-01T00-00-00-000Z_0b-1.jsonl", "transcript", "2026-01-01T00-00-00-000Z_0b-1"),
            ("s1.jsonl.lock", "lock", "s1"),
            ("s1.jsonl.mending", "temporary", "s1"),
            ("s1.jsonl.mending-backup", "temporary", "s1"),
            ("s1.jsonl.bak-20260301T120000.000000Z", "backup", "s1"),
            ("s1.jsonl.reset.2026-03-01T12-00-00Z", "archive", "s1"),
            ("s1.jsonl.reset.2026-13-01T12-00-00Z", "other", None),
            ("s1.jsonl.reset", "other", None),
            ("sessions.json.1a2b.tmp", "temporary", None),
            ("sessions.json.bak.1700000000000", "backup", None),
            ("sessions.json", "other", None),
            ("sessions.sqlite", "table", None),
            ("sessions.sqlite-wal", "table", None),
            ("sessions.sqlite.lock", "table", None),
            ("sessions.sqlite.corrupt-2026-03-01T12-00-00.000000Z", "backup", None),
            ("notes.txt", "other", None),
            (".jsonl", "other", None),
        ],
    )
    def test_a_name_tells_what_a_file_is(self, name: str, kind: str, stem: str | None) -> None:
        parsed = parse_name(name)
        assert (parsed.kind, parsed.stem) == (kind, stem)

    def test_folders_hold_blobs_or_are_nobodys_business(self) -> None:
        assert parse_name("s1.blobs", is_folder=True) == FileName(kind="blobs", stem="s1")
        assert parse_name("s1.jsonl", is_folder=True) == FileName(kind="other")

    def test_the_name_of_an_archive_is_read_back(self) -> None:
        moment = parse_time("2026-03-01T13:00:00.123456+01:00")
        assert moment is not None
        name = archive_name("s1.jsonl", "deleted", moment)
        assert name == "s1.jsonl.deleted.2026-03-01T12-00-00.123Z"
        parsed = parse_name(name)
        assert parsed.moment == int(moment.timestamp() * 1000)
        assert Path(name).suffix != ".jsonl"
