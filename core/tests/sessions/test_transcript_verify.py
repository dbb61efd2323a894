"""What is wrong with a transcript is found and named, and mending it loses nothing (design 5)."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.errors import SessionLockedError, TranscriptError
from hermitcrab.messages.build import user
from hermitcrab.sessions.context import context_items
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.reading import read_branch, read_transcript
from hermitcrab.sessions.repair.mending import (
    STEPS,
    Verification,
    mend_transcript,
    verify_transcript,
)
from hermitcrab.sessions.repair.survey import Survey, survey_file
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import Position

REAL_SESSION = Path(__file__).resolve().parents[3] / "../shared/data/coding-session-v1.jsonl"


def kinds(found: Verification) -> list[str]:
    return [finding.kind for finding in found.findings]


def errors(found: Verification) -> list[str]:
    return [finding.kind for finding in found.findings if finding.is_error]


def texts(path: Path) -> list[str]:
    """The messages that the active branch shows."""
    return [json.dumps(item.message) for item in context_items(read_branch(path).entries)]


def entries(path: Path) -> list[Any]:
    """The values of all lines but the first."""
    return [json.loads(line) for line in path.read_bytes().splitlines()[1:]]


def mended(path: Path, **options: Any) -> Verification:
    """Mend a file, and see that it is clean and that the backup is what stood there."""
    before = path.read_bytes()
    done = mend_transcript(path, session_id="s1", **options)
    assert done.fixed
    assert done.unmended == ()
    assert done.backup is not None
    assert done.backup.read_bytes() == before
    assert errors(verify_transcript(path, session_id="s1")) == []
    return done


def surveyed(path: Path) -> Survey:
    with path.open("rb") as file:
        return survey_file(file, path)


def files_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


class TestFindings:
    def test_a_sound_transcript_has_none(self, files: Any) -> None:
        found = verify_transcript(files.write(*files.chain("a", "b")), session_id="s1")
        assert found.findings == ()
        assert (found.session_id, found.entries, found.messages) == ("s1", 2, 2)

    def test_bad_lines_are_named_with_line_and_offset_and_why(self, files: Any) -> None:
        """C2: malformed lines were skipped with no trace."""
        first, second, third = files.chain("a", "b", "c")
        path = files.write(first, b"garbage\n", second, b"[1,2]\n", b'{"id":"x"}\n', third)
        data = path.read_bytes()
        found = verify_transcript(path, session_id="s1")
        assert [(each.line, each.offset) for each in found.findings] == [
            (3, data.index(b"garbage")),
            (5, data.index(b"[1,2]")),
            (6, data.index(b'{"id":"x"}')),
        ]
        assert set(kinds(found)) == {"bad-line"}
        reasons = [each.message.partition(":")[0] for each in found.findings]
        assert reasons == ["no JSON", "no JSON object", "an object without a type"]

    @pytest.mark.parametrize(
        ("header", "kind"),
        [
            (None, "missing-header"),
            (b'{"type":"session","id"\n', "damaged-header"),
            (b'{"type":"session"}\n', "damaged-header"),
            (b"\n", "damaged-header"),
            ({"type": "session", "version": "three", "id": "s1"}, "unreadable-version"),
            ({"type": "session", "version": 0, "id": "s1"}, "unreadable-version"),
            ({"type": "session", "version": 3, "id": "other"}, "header-id"),
        ],
    )
    def test_a_wrong_header_is_found_and_mended(self, files: Any, header: Any, kind: str) -> None:
        """C1: one damaged header line made resume start over."""
        path = files.write(*files.chain("a", "b"), header=header)
        shown = texts(path)
        assert errors(verify_transcript(path, session_id="s1")) == [kind]
        mended(path)
        assert texts(path) == shown
        header = json.loads(path.read_bytes().splitlines()[0])
        assert (header["type"], header["id"], header["version"]) == ("session", "s1", 3)
        assert header["timestamp"]

    def test_a_rebuilt_header_keeps_what_the_damaged_one_says(self, files: Any) -> None:
        path = files.write(*files.chain("a"), header={"type": "session", "cwd": "/w", "version": 3})
        mended(path)
        assert json.loads(path.read_bytes().splitlines()[0])["cwd"] == "/w"
        path = files.write(files.header | {"cwd": "/x"}, *files.chain("a"), header=b"\n")
        mended(path)
        assert json.loads(path.read_bytes().splitlines()[0])["cwd"] == "/x"

    def test_a_file_with_another_name_outside_of_a_home_is_no_fault(self, files: Any) -> None:
        path = files.write(*files.chain("a"), session_id="copy")
        found = verify_transcript(path)
        assert (kinds(found), errors(found)) == (["header-id"], [])

    @pytest.mark.parametrize("name", ["s1-topic-5", "2026-01-01T00-00-00_s1"])
    def test_topics_and_forks_are_called_after_their_session(self, files: Any, name: str) -> None:
        """Sessions 2.1."""
        path = files.write(*files.chain("a"), b"garbage\n", session_id=name)
        assert kinds(verify_transcript(path, session_id=name)) == ["bad-line"]
        mend_transcript(path, session_id=name)
        assert json.loads(path.read_bytes().splitlines()[0])["id"] == "s1"

    def test_a_second_header_is_found(self, files: Any) -> None:
        first, second = files.chain("a", "b")
        path = files.write(first, files.header, second)
        assert kinds(verify_transcript(path, session_id="s1")) == ["second-header"]
        mended(path)
        assert [each["id"] for each in entries(path)] == ["a", "b"]

    def test_a_newer_format_is_left_alone(self, files: Any) -> None:
        path = files.write(b"garbage\n", header={**files.header, "version": 4})
        before = files_in(files.folder)
        done = mend_transcript(path, session_id="s1")
        assert (errors(done), done.fixed, len(done.unmended)) == (["newer-format"], False, 1)
        assert files_in(files.folder) == before

    def test_a_file_that_is_no_transcript_is_left_alone(self, files: Any) -> None:
        path = files.write(b"shopping list\n", b"milk\n", header=None)
        done = mend_transcript(path, session_id="s1")
        assert (errors(done), done.fixed) == (["no-transcript"], False)

    @pytest.mark.parametrize("torn", [b"", b"\n", b'{"type":"session","ver'])
    def test_a_session_that_crashed_while_it_was_created_is_mended(
        self, files: Any, torn: bytes
    ) -> None:
        path = files.write(torn, header=None)
        assert len(errors(verify_transcript(path, session_id="s1"))) == 1
        mended(path)
        assert read_transcript(path).entries == ()

    def test_a_torn_tail_is_found(self, files: Any) -> None:
        """C3, #100644: a half-written last line kept the repair from doing anything."""
        path = files.write(*files.chain("a"), b'{"type":"mess')
        found = verify_transcript(path, session_id="s1")
        assert errors(found) == ["torn-tail"]
        assert found.findings[0].offset == path.read_bytes().index(b'{"type":"mess')
        mended(path)
        assert path.read_bytes().endswith(b"}\n")

    def test_what_harms_nobody_is_information(self, files: Any) -> None:
        """C5 and C57: what the view repairs is no reason to change a file."""
        call = {"type": "toolCall", "id": "t1", "name": "ls", "arguments": {}}
        chain = files.chain("a", "b", "c", "d")
        chain[0]["message"] = {"role": "toolResult", "toolCallId": "x", "content": []}
        chain[1]["message"] = {"role": "assistant", "content": [call]}
        chain[2]["message"]["content"] = "half \ud83d"
        chain[2]["timestamp"] = "2026-03-01T12:00:05Z"
        chain[3]["timestamp"] = "2026-03-01T12:00:01Z"
        label = {"type": "label", "id": "e", "parentId": "d", "targetId": "no", "label": "x"}
        path = files.write(*chain, label)
        before = files_in(files.folder)
        found = mend_transcript(path, session_id="s1")
        assert set(kinds(found)) == {
            "orphan-results",
            "missing-results",
            "lone-surrogate",
            "time-goes-back",
            "label-target",
        }
        assert (errors(found), found.fixed) == ([], False)
        assert files_in(files.folder) == before

    def test_verifying_never_writes(self, files: Any) -> None:
        path = files.write(b"garbage\n", *files.chain("a"), b"torn")
        before = files_in(files.folder)
        assert len(errors(verify_transcript(path, session_id="s1"))) == 2
        assert files_in(files.folder) == before

    def test_a_missing_file_is_a_typed_error(self, files: Any) -> None:
        with pytest.raises(TranscriptError, match="no such transcript"):
            verify_transcript(files.folder / "s1.jsonl")


class TestMending:
    def test_lines_that_are_sound_stay_as_they_are_byte_by_byte(self, files: Any) -> None:
        odd = b'{ "type":"custom","id":"b", "parentId":"a","data":{"n":1.0e2,"t":"\\ud83d"} }\r\n'
        path = files.write(*files.chain("a"), b"garbage\n", odd)
        before = path.read_bytes()
        mended(path)
        assert path.read_bytes() == before.replace(b"garbage\n", b"")

    def test_entries_without_an_id_get_the_one_that_readers_gave_them(self, files: Any) -> None:
        first, second = files.message(17, None), files.message("b", None)
        del second["parentId"]
        path = files.write(first, second)
        known = [entry["id"] for entry in read_transcript(path).entries]
        assert errors(verify_transcript(path, session_id="s1")) == ["missing-id"]
        shown = texts(path)
        mended(path)
        assert [entry["id"] for entry in entries(path)] == known
        assert texts(path) == shown

    def test_a_missing_ancestor_is_joined_to_what_stands_before(self, files: Any) -> None:
        """C6: the head of a file vanished silently."""
        lost = [*files.chain("a", "b"), files.message("d", "c"), files.message("e", "d")]
        path = files.write(*lost)
        (finding,) = verify_transcript(path, session_id="s1").findings
        assert (finding.kind, finding.line, finding.changes_branch) == ("missing-ancestor", 4, True)
        assert "'c' is nowhere" in finding.message
        assert "follow entry b" in finding.message
        assert len(texts(path)) == 2
        mended(path)
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b", "d", "e"]

    def test_the_first_entry_without_its_ancestor_becomes_a_root(self, files: Any) -> None:
        """C6."""
        path = files.write(files.message("b", "gone"), files.message("c", "b"))
        shown = texts(path)
        mended(path)
        assert entries(path)[0]["parentId"] is None
        assert texts(path) == shown

    def test_a_cycle_is_cut_where_readers_stop(self, files: Any) -> None:
        path = files.write(files.message("a", "b"), files.message("b", "a"))
        shown = texts(path)
        assert errors(verify_transcript(path, session_id="s1")) == ["cycle"]
        mended(path)
        assert texts(path) == shown
        assert [each["parentId"] for each in entries(path)] == [None, "a"]

    def test_joining_never_makes_a_cycle(self, files: Any) -> None:
        path = files.write(files.message("a", "b"), files.message("b", "gone"))
        mended(path)
        assert [each["parentId"] for each in entries(path)] == ["b", None]

    def test_a_turn_that_was_written_twice_stands_there_once(self, files: Any) -> None:
        """C12."""
        turn = files.chain("a", "b")
        path = files.write(*turn, *turn, files.message("c", "b"))
        shown = texts(path)
        assert errors(verify_transcript(path, session_id="s1")) == ["duplicate-id"] * 2
        mended(path)
        assert [each["id"] for each in entries(path)] == ["a", "b", "c"]
        assert texts(path) == shown

    def test_a_repeat_at_the_end_does_not_move_the_leaf(self, files: Any) -> None:
        """C12."""
        first, second = files.chain("a", "b")
        path = files.write(first, second, first)
        shown = texts(path)
        mended(path)
        assert texts(path) == shown
        assert [each["type"] for each in entries(path)] == ["message", "message", "leaf"]

    def test_a_repeat_without_its_ancestor_is_a_repeat(self, files: Any) -> None:
        """C6 and C12 together."""
        lost = files.message("b", "gone")
        path = files.write(*files.chain("a"), lost, lost, files.message("c", "b"))
        mended(path)
        assert [(each["id"], each["parentId"]) for each in entries(path)] == [
            ("a", None),
            ("b", "a"),
            ("c", "b"),
        ]

    def test_two_entries_with_one_id_both_stay(self, files: Any) -> None:
        other = files.message("b", "a", "another")
        path = files.write(*files.chain("a", "b"), other, files.message("c", "b"))
        shown = texts(path)
        (finding,) = verify_transcript(path, session_id="s1").findings
        assert (finding.kind, finding.line) == ("duplicate-id", 4)
        mended(path)
        first, second, third, last = entries(path)
        assert (first["id"], second["id"], last["id"]) == ("a", "b", "c")
        assert last["parentId"] == third["id"] != "b"
        assert texts(path) == shown

    def test_of_two_compactions_with_one_id_the_last_counts_again(self, files: Any) -> None:
        """A reader takes the second for a repeat of the first; the finding says what becomes of that."""
        first = {"type": "compaction", "id": "x", "parentId": "a", "firstKeptEntryId": "x"}
        second = {**first, "parentId": "b", "firstKeptEntryId": "a", "summary": "second"}
        path = files.write(*files.chain("a"), first, files.message("b", "x"), second)
        (finding,) = verify_transcript(path, session_id="s1").findings
        assert "as the last compaction it decides what is kept" in finding.message
        mended(path)
        assert "second" in texts(path)[0]
        assert len(texts(path)) == 3

    def test_a_repeat_of_an_entry_that_gets_a_new_id_means_that_entry(self, files: Any) -> None:
        other = files.message("b", None, "another")
        keeps_b = {"type": "compaction", "id": "x", "parentId": "b", "firstKeptEntryId": "b"}
        path = files.write(files.message("b", None), other, other, keeps_b)
        shown = texts(path)
        mended(path)
        _, renamed, compaction = entries(path)
        assert compaction["firstKeptEntryId"] == compaction["parentId"] == renamed["id"] != "b"
        assert texts(path) == shown

    def test_a_compaction_behind_a_repeat_without_its_ancestor_is_mended(self, files: Any) -> None:
        lost = files.message("a", "gone")
        keeps_b = {"type": "compaction", "id": "x", "parentId": "a", "firstKeptEntryId": "b"}
        path = files.write(lost, files.message("b", "a"), lost, keeps_b)
        mended(path)
        assert [(each["id"], each["parentId"]) for each in entries(path)] == [
            ("a", None),
            ("b", "a"),
            ("x", "a"),
        ]
        assert entries(path)[2]["firstKeptEntryId"] == "x"

    def test_a_compaction_that_keeps_what_is_not_there_says_so_itself(self, files: Any) -> None:
        """Context 9.3, C8: then nothing before it is kept."""
        compaction = {
            "type": "compaction",
            "id": "x",
            "parentId": "b",
            "summary": "s",
            "firstKeptEntryId": "gone",
        }
        path = files.write(*files.chain("a", "b"), compaction, files.message("c", "x"))
        shown = texts(path)
        (finding,) = verify_transcript(path, session_id="s1").findings
        assert (finding.kind, finding.line) == ("compaction", 4)
        mended(path)
        assert entries(path)[2]["firstKeptEntryId"] == "x"
        assert texts(path) == shown

    def test_a_compaction_whose_way_was_broken_keeps_again_what_it_kept(self, files: Any) -> None:
        """C6 and context 9.3 together: the broken way is mended first."""
        compaction = {"type": "compaction", "id": "x", "parentId": "d", "firstKeptEntryId": "b"}
        path = files.write(*files.chain("a", "b"), files.message("d", "c"), compaction)
        assert set(errors(verify_transcript(path, session_id="s1"))) == {
            "missing-ancestor",
            "compaction",
        }
        mended(path)
        assert [entry["id"] for entry in read_branch(path).entries] == ["b", "d", "x"]

    def test_a_leaf_that_is_nowhere_goes_to_the_entry_before(self, files: Any) -> None:
        leaf = {"type": "leaf", "id": "l", "parentId": "b", "targetId": "gone"}
        path = files.write(*files.chain("a", "b"), leaf)
        assert texts(path) == []
        assert errors(verify_transcript(path, session_id="s1")) == ["leaf-target"]
        mended(path)
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b"]

    def test_an_older_format_becomes_format_3_when_it_is_mended(self, files: Any) -> None:
        """Design 7: the ids stay those that were derived."""
        message = {"type": "message", "message": {"role": "hookMessage", "content": "hi"}}
        compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2}
        header = {"type": "session", "id": "s1", "timestamp": "2025-01-01T00:00:00Z"}
        path = files.write(message, message, b"garbage\n", compaction, message, header=header)
        before, shown = read_transcript(path), texts(path)
        assert errors(verify_transcript(path, session_id="s1")) == ["bad-line"]
        mended(path)
        after = read_transcript(path)
        assert after.version == 3
        assert [entry["id"] for entry in after.entries] == [entry["id"] for entry in before.entries]
        assert texts(path) == shown

    def test_a_mended_file_keeps_its_permissions_and_the_backup_is_private(
        self, files: Any
    ) -> None:
        path = files.write(*files.chain("a"), b"garbage\n")
        path.chmod(0o640)
        done = mended(path)
        assert path.stat().st_mode & 0o777 == 0o640
        assert done.backup is not None
        assert done.backup.stat().st_mode & 0o777 == 0o600
        assert done.backup.name.startswith("s1.jsonl.bak-20")
        lock = "s1.jsonl.lock"
        assert set(files_in(files.folder)) == {"s1.jsonl", done.backup.name, lock}

    async def test_a_session_that_is_open_elsewhere_goes_on_in_the_mended_file(
        self, files: Any, open_sessions: Callable[[], Sessions]
    ) -> None:
        """Its place in the old file means nothing in the new one, which is longer here."""
        path = files.write(*files.chain("a", "b"), files.message("b", "b", "another"))
        sessions = open_sessions()
        await sessions.open("agent:main:main")
        table = SessionEntries(files.folder / "sessions.sqlite")
        table.put(
            SessionEntry(key="agent:main:m", session_id="s1", updated_at=1, session_started_at=1)
        )
        table.close()
        log = await sessions.open("agent:main:m")
        size = path.stat().st_size
        mended(path)
        assert path.stat().st_size > size
        await log.append_messages([user("and now?")])
        found = verify_transcript(path, session_id="s1")
        assert (errors(found), found.messages, len(texts(path))) == ([], 4, 4)
        assert [json.dumps(item.message) for item in log.items()] == texts(path)

    @pytest.mark.skipif(not REAL_SESSION.exists(), reason="the recorded session is not here")
    def test_a_recorded_session_with_damage_keeps_its_messages(self, tmp_path: Path) -> None:
        lines = REAL_SESSION.read_bytes().splitlines(keepends=True)
        path = tmp_path / "s1.jsonl"
        path.write_bytes(b"".join([*lines[:9], b"garbage\n", *lines[9:], b'{"type":']))
        shown = texts(path)
        mended(path)
        assert texts(path) == shown
        assert len(shown) > 100


class TestNothingIsLostOnTheWay:
    @pytest.mark.parametrize("step", STEPS)
    def test_a_process_that_is_killed_leaves_the_old_or_the_new_file(
        self, files: Any, step: str
    ) -> None:
        """#127222: a repair wrote over the live file, and an interruption left it empty."""
        path = files.write(*files.chain("a", "b"), b"garbage\n", files.message("c", "b"))
        old = path.read_bytes()
        new = old.replace(b"garbage\n", b"")
        script = """
            import os, signal, sys
            from pathlib import Path
            from hermitcrab.sessions.repair.mending import mend_transcript

            def die(step):
                if step == sys.argv[2]:
                    os.kill(os.getpid(), signal.SIGKILL)

            mend_transcript(Path(sys.argv[1]), session_id="s1", on_step=die)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), str(path), step],
            timeout=60,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        in_place = STEPS.index(step) >= STEPS.index("mended file in place")
        assert path.read_bytes() == (new if in_place else old)
        backups = list(files.folder.glob("*.bak-*"))
        assert len(backups) == (STEPS.index(step) >= STEPS.index("backup in place"))
        assert all(backup.read_bytes() == old for backup in backups)
        if not in_place:
            mended(path)
        assert path.read_bytes() == new
        assert list(files.folder.glob("*.mending*")) == []

    @pytest.mark.parametrize("step", ["backup opened", "mended file opened"])
    def test_a_full_disk_changes_nothing(
        self, files: Any, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """#127222: a repair that had failed was not told."""
        path = files.write(*files.chain("a"), b"garbage\n")
        before = path.read_bytes()
        write = os.write

        def fail(reached: str) -> None:
            def full(descriptor: int, data: Any) -> int:
                if len(data) > 10:
                    return write(descriptor, data[:10])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            if reached == step:
                monkeypatch.setattr(os, "write", full)

        with pytest.raises(TranscriptError, match="No space left on device"):
            mend_transcript(path, session_id="s1", on_step=fail)
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert {one.name for one in files.folder.iterdir()} == {"s1.jsonl", "s1.jsonl.lock"}

    @pytest.mark.parametrize("step", STEPS[1:6])
    def test_a_file_that_changes_meanwhile_is_left_as_it_is_then(
        self, files: Any, step: str
    ) -> None:
        path = files.write(*files.chain("a"), b"garbage\n")
        line = files.line(files.message("b", "a"))

        def write_without_the_lock(reached: str) -> None:
            if reached == step:
                with path.open("ab") as file:
                    file.write(line)

        with pytest.raises(TranscriptError, match="changed while it was being mended"):
            mend_transcript(path, session_id="s1", on_step=write_without_the_lock)
        assert path.read_bytes().endswith(line)
        assert {one.name for one in files.folder.iterdir()} == {"s1.jsonl", "s1.jsonl.lock"}

    def test_what_others_append_between_mendings_is_all_there(self, files: Any) -> None:
        """Mending is one more writer under the lock: whoever comes after it continues the mended file."""
        path = files.write(*files.chain("a"))
        lock = path.with_name("s1.jsonl.lock")
        made = [f"id{number}" for number in range(60)]

        def write_all() -> None:
            branch = files.store.read_branch("s1")
            position = Position(
                end=branch.end, leaf_id=branch.leaf_id, header_id="s1", inode=branch.inode
            )
            for entry_id in made:
                entry = {"type": "custom", "id": entry_id}
                position = files.store.append(
                    "s1", position, lambda _, __, entry=entry: [entry], purpose="t", flush=False
                ).position

        with ThreadPoolExecutor() as pool:
            writing = pool.submit(write_all)
            for _ in range(5):
                with exclusive(lock, purpose="damage", timeout_ms=10_000), path.open("ab") as file:
                    file.write(b"garbage\n")
                assert mend_transcript(path, session_id="s1").fixed
            writing.result(timeout=60)
        assert errors(verify_transcript(path, session_id="s1")) == []
        branch = read_branch(path)
        assert [entry["id"] for entry in branch.entries] == ["a", *made]
        assert not branch.faults.any

    def test_mending_waits_for_the_lock_and_names_its_holder(self, files: Any) -> None:
        """C23."""
        path = files.write(*files.chain("a"), b"garbage\n")
        before = path.read_bytes()
        lock = path.with_name("s1.jsonl.lock")
        with (
            exclusive(lock, purpose="a test", timeout_ms=1000),
            pytest.raises(SessionLockedError, match="a test"),
        ):
            mend_transcript(path, session_id="s1", lock_timeout_ms=20)
        assert path.read_bytes() == before


ids = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def damaged(draw: st.DrawFn) -> list[Any]:
    """Lines of a transcript to which everything may have happened."""
    found: list[Any] = []
    for index in range(draw(st.integers(0, 9))):
        kind = draw(
            st.sampled_from(["message"] * 5 + ["custom", "leaf", "compaction", "junk", "again"])
        )
        if kind == "again" and found:
            found.append(draw(st.sampled_from(found)))
            continue
        if kind in {"junk", "again"}:
            header = {"type": "session", "version": 3, "id": draw(ids)}
            found.append(draw(st.sampled_from([b"garbage\n", b"\n", b'{"id": "a"}\n', header])))
            continue
        fields: Any = {
            "type": kind,
            "id": draw(ids) if not draw(st.integers(0, 2)) else f"i{index}",
        }
        known = [one["id"] for one in found if isinstance(one, dict) and one.get("id")]
        if draw(st.integers(0, 3)) > 0 and known:
            fields["parentId"] = known[-1]
        elif draw(st.booleans()):
            fields["parentId"] = draw(st.one_of(st.none(), ids))
        if not draw(st.integers(0, 7)):
            del fields["id"]
        if kind == "leaf":
            fields["targetId"] = draw(st.one_of(st.none(), ids, st.sampled_from(known or ["a"])))
        if kind == "compaction":
            kept = st.one_of(ids, st.sampled_from(known or ["a"]), st.just(7))
            fields |= {"summary": f"s{index}", "firstKeptEntryId": draw(kept)}
        if kind == "message":
            fields["message"] = {"role": "user", "content": f"text {index}"}
        found.append(fields)
    return found


headers = st.sampled_from(
    [
        {"type": "session", "version": 3, "id": "s1"},
        {"type": "session", "version": 3, "id": "s1"},
        {"type": "session", "version": 2, "id": "s1"},
        {"type": "session", "id": "s1"},
        {"type": "session", "version": 3, "id": "other"},
        b'{"type":"session","id"\n',
        None,
    ]
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=damaged(), header=headers, torn=st.sampled_from([b"", b'{"type":"mess']))
def test_a_mended_file_is_clean_and_shows_the_same_messages_unless_a_finding_says_otherwise(
    files: Any, lines: list[Any], header: Any, torn: bytes
) -> None:
    for old in files.folder.glob("*") if files.folder.exists() else ():
        old.unlink()
    path = files.write(*lines, torn, header=header)
    found = verify_transcript(path, session_id="s1")
    if not any(each.fixable for each in found.findings):
        return
    shown, before = texts(path), surveyed(path)
    done = mended(path)
    assert done.findings == found.findings
    after = read_transcript(path)
    after_texts = texts(path)
    if any("decides what is kept" in each.message for each in found.findings):
        pass
    elif any(each.changes_branch for each in found.findings):
        remaining = iter(after_texts)
        assert all(message in remaining for message in shown), "in their order, nothing is missing"
    else:
        assert after_texts == shown
    assert len({entry["id"] for entry in after.entries}) == len(after.entries)
    said = {json.dumps(entry.get("message")) for entry in before.entries}
    assert {json.dumps(entry.get("message")) for entry in after.entries} >= said - {"null"}


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=damaged(), header=headers, torn=st.sampled_from([b"", b'{"type":"mess']))
def test_what_is_verified_is_what_is_read(
    files: Any, lines: list[Any], header: Any, torn: bytes
) -> None:
    path = files.write({"type": "custom", "id": "root"}, *lines, torn, header=header)
    contents = read_transcript(path)
    survey = surveyed(path)
    assert survey.entries == contents.entries
    assert survey.version == contents.version
    assert tuple(line.offset for line in survey.bad_lines) == contents.faults.bad_lines
    assert (survey.torn is not None) == bool(contents.faults.unfinished_bytes)
