"""The files beside a transcript: written before their entry, checked when read, and taken along (design 5)."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.build import tool_result, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.blobs import files as blob_files
from hermitcrab.sessions.blobs.blobs import BlobReference
from hermitcrab.sessions.blobs.files import (
    blob_folder,
    copy_blobs,
    entry_references,
    read_blob,
    restore_entry,
    store_entry,
    write_blob,
)
from hermitcrab.sessions.reading import read_transcript
from hermitcrab.sessions.repair.inventory import places_in
from hermitcrab.sessions.repair.mending import mend_transcript, verify_transcript
from hermitcrab.sessions.rewrite import rewrite_transcript_entries

KEY = "agent:main:main"
RAW = bytes(range(256)) * 40
IMAGE: Any = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(RAW).decode()}
SHA256 = hashlib.sha256(RAW).hexdigest()
LARGE = "".join(f"line {number}\n" for number in range(120_000))


def blobs_of(file: Path) -> list[Path]:
    folder = blob_folder(file)
    return sorted(folder.iterdir()) if folder.exists() else []


def reference(**changes: Any) -> BlobReference:
    values: Any = {"sha256": SHA256, "bytes": len(RAW), "encoding": "base64", "field": "data"}
    return BlobReference(**{**values, **changes})


def messages_of(log: Any) -> list[Any]:
    return [item.message for item in log.items()]


def described(file: Path) -> list[tuple[str, str]]:
    found = verify_transcript(file).findings
    return [(each.kind, each.level) for each in found if "blob" in each.kind]


class TestFiles:
    def test_a_blob_is_private_named_by_its_hash_and_written_once(self, tmp_path: Path) -> None:
        folder = tmp_path / "s1.blobs"
        write_blob(folder, SHA256, RAW, flush=True)
        [file] = folder.iterdir()
        assert file.name == SHA256
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        inode = file.stat().st_ino
        write_blob(folder, SHA256, RAW, flush=False)
        assert [each.stat().st_ino for each in folder.iterdir()] == [inode]
        assert read_blob(folder, reference()) == RAW

    def test_a_damaged_blob_is_written_anew(self, tmp_path: Path) -> None:
        write_blob(tmp_path, SHA256, RAW, flush=False)
        (tmp_path / SHA256).write_bytes(RAW[:-1] + b"?")
        write_blob(tmp_path, SHA256, RAW, flush=False)
        assert read_blob(tmp_path, reference()) == RAW

    @pytest.mark.parametrize(
        ("content", "changes", "fault"),
        [
            (None, {}, "missing"),
            (RAW[:-1], {}, "damaged"),
            (RAW[:-1] + b"?", {}, "damaged"),
            (RAW, {"bytes": 3}, "damaged"),
        ],
        ids=["missing", "cut", "other bytes", "wrong size"],
    )
    def test_what_is_not_what_its_name_says_is_not_given_out(
        self, tmp_path: Path, content: bytes | None, changes: Any, fault: str
    ) -> None:
        if content is not None:
            (tmp_path / SHA256).write_bytes(content)
        with pytest.raises(TranscriptError, match=f"its file is {fault}"):
            read_blob(tmp_path, reference(**changes))

    def test_links_and_pipes_in_the_folder_are_not_read(self, tmp_path: Path) -> None:
        """A link could lead out of the folder, and a pipe would never end."""
        outside, folder = tmp_path / "secret", tmp_path / "s1.blobs"
        outside.write_bytes(RAW)
        folder.mkdir()
        (folder / SHA256).symlink_to(outside)
        with pytest.raises(TranscriptError, match="cannot be read"):
            read_blob(folder, reference())
        (folder / SHA256).unlink()
        os.mkfifo(folder / SHA256)
        with pytest.raises(TranscriptError, match="damaged"):
            read_blob(folder, reference())
        assert copy_blobs(tmp_path / "s1.jsonl", tmp_path / "s2.jsonl") == 0

    @pytest.mark.parametrize("failing", ["write", "replace", "mkdir"])
    def test_a_disk_that_says_no_raises_a_typed_error_and_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        def full(*args: Any, **options: Any) -> Any:
            raise OSError(errno.ENOSPC, "No space left on device")

        folder = tmp_path / "s1.blobs"
        if failing == "write":
            monkeypatch.setattr(blob_files.shutil, "copyfileobj", full)
        elif failing == "replace":
            monkeypatch.setattr(blob_files.os, "replace", full)
        else:
            monkeypatch.setattr(Path, "mkdir", full)
        with pytest.raises(TranscriptError, match="No space left on device") as caught:
            write_blob(folder, SHA256, RAW, flush=True)
        assert caught.value.where == str(folder / SHA256)
        monkeypatch.undo()
        assert not folder.exists() or [*folder.iterdir()] == []

    def test_copying_takes_blobs_along_and_nothing_else(self, tmp_path: Path) -> None:
        source, target = tmp_path / "a.jsonl", tmp_path / "other" / "b.jsonl"
        target.parent.mkdir()
        assert copy_blobs(source, target) == 0
        assert not blob_folder(target).exists()
        write_blob(blob_folder(source), SHA256, RAW, flush=False)
        (blob_folder(source) / "notes.txt").write_text("mine")
        assert copy_blobs(source, target) == 1
        assert copy_blobs(source, target) == 0
        assert [each.name for each in blobs_of(target)] == [SHA256]
        assert read_blob(blob_folder(target), reference()) == RAW


class TestEntries:
    def test_an_entry_comes_back_as_it_was(self, tmp_path: Path) -> None:
        file = tmp_path / "s1.jsonl"
        entries: list[Any] = [
            {"type": "message", "id": "a", "message": user([IMAGE]), "later": 1},
            {"type": "custom_message", "id": "b", "customType": "x", "content": [IMAGE]},
            {"type": "message", "id": "c", "message": tool_result("1", "run", LARGE)},
        ]
        for entry in entries:
            stored = store_entry(entry, file, flush=False)
            assert len(json.dumps(stored)) < 12_000
            assert [*entry_references(stored)]
            assert restore_entry(stored, blob_folder(file)) == entry

    @pytest.mark.parametrize(
        "entry",
        [
            {"type": "message", "id": "a"},
            {"type": "message", "id": "a", "message": "text"},
            {"type": "custom", "id": "a", "data": {"blob": {"literal": 1}}},
            {"type": "custom_message", "id": "a", "content": None},
        ],
        ids=["no message", "a text", "data", "no content"],
    )
    def test_entries_without_content_are_left_alone(self, tmp_path: Path, entry: Any) -> None:
        assert store_entry(entry, tmp_path / "s1.jsonl", flush=False) is entry
        assert restore_entry(entry, tmp_path) is entry

    def test_what_leads_out_of_the_folder_is_no_reference(self, tmp_path: Path) -> None:
        """A foreign transcript names files of this machine: the model gets none of them."""
        (tmp_path / "secret").write_bytes(RAW)
        blob = {"sha256": "../secret", "bytes": len(RAW), "encoding": "base64", "field": "data"}
        entry: Any = {"type": "message", "message": user([{"type": "image", "blob": blob}])}
        assert restore_entry(entry, tmp_path / "s1.blobs") is entry

    def test_a_missing_blob_is_logged_and_said(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "s1.jsonl"
        entry: Any = {"type": "message", "message": user([IMAGE])}
        stored = store_entry(entry, file, flush=False)
        (blob_folder(file) / SHA256).unlink()
        restored = restore_entry(stored, blob_folder(file))
        assert "image, 10 KB: it stood here and cannot be read" in text_of(restored["message"])
        assert SHA256 in caplog.text


class TestSessions:
    async def test_the_transcript_stays_small_and_nothing_is_lost(self, open_sessions: Any) -> None:
        """C93: one result of a megabyte and more, and an image."""
        log = await open_sessions().open(KEY)
        appended = [tool_result("call_1", "run", LARGE), user([IMAGE])]
        await log.append_messages(appended)
        assert log.file.stat().st_size < 15_000
        again = await open_sessions().open(KEY)
        assert messages_of(again) == messages_of(log)
        for session in (log, again):
            assert [await session.restored(each) for each in messages_of(session)] == appended

    async def test_an_old_session_without_media_has_no_folder(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user("hello")])
        assert not blob_folder(log.file).exists()

    async def test_lone_surrogates_are_replaced_once_and_everywhere(
        self, open_sessions: Any
    ) -> None:
        """C57"""
        log = await open_sessions().open(KEY)
        await log.append_messages([{**tool_result("1", "run", ""), "content": "\ud83d" + LARGE}])
        assert (await log.restored(messages_of(log)[0]))["content"] == "\ufffd" + LARGE

    async def test_a_failing_disk_loses_nothing_and_the_session_goes_on(
        self, open_sessions: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user("before")])

        def full(*args: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(blob_files.shutil, "copyfileobj", full)
            with pytest.raises(TranscriptError, match="media or a large result cannot be written"):
                await log.append_messages([user([IMAGE])])
        await log.append_messages([user("after")])
        assert [text_of(each) for each in messages_of(log)] == ["before", "after"]
        await log.append_messages([user([IMAGE], timestamp=1)])
        assert await log.restored(messages_of(log)[-1]) == user([IMAGE], timestamp=1)

    @pytest.mark.parametrize(
        ("durability", "is_flushed"), [("os", False), ("turn", True), ("message", True)]
    )
    async def test_the_disk_has_a_blob_before_the_entry_that_names_it(
        self,
        open_sessions: Any,
        monkeypatch: pytest.MonkeyPatch,
        durability: str,
        is_flushed: bool,
    ) -> None:
        log = await open_sessions(durability=durability).open(KEY)
        lines: list[int] = []
        sync = os.fsync

        def look(descriptor: int) -> None:
            lines.append(len(log.file.read_bytes().splitlines()))
            sync(descriptor)

        before = len(log.file.read_bytes().splitlines())
        monkeypatch.setattr(blob_files.os, "fsync", look)
        await log.append_messages([user([IMAGE])])
        assert lines[:1] == ([before] if is_flushed else [])

    async def test_a_message_that_says_it_has_a_blob_has_none(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        blob = {"sha256": "a" * 64, "bytes": 1, "encoding": "base64", "field": "data"}
        message = user([{"type": "image", "blob": blob}])  # type: ignore[list-item]
        await log.append_messages([message])
        assert await log.restored(messages_of(log)[0]) == message
        assert described(log.file) == []

    async def test_a_stored_message_is_appended_again_as_it_is(self, open_sessions: Any) -> None:
        """As engines do that got it from the context."""
        log = await open_sessions().open(KEY)
        await log.append_messages([user([IMAGE], timestamp=1)])
        await log.append_messages(messages_of(log))
        first, second = messages_of(log)
        assert first == second
        assert await log.restored(second) == user([IMAGE], timestamp=1)

    async def test_a_rewritten_branch_keeps_its_media(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        entries = await log.append_messages(
            [user("one"), user([IMAGE], timestamp=1), tool_result("1", "run", "short")]
        )
        result = await rewrite_transcript_entries(
            log,
            [
                {"entry_id": entries[0]["id"], "message": user("1")},
                {"entry_id": entries[2]["id"], "message": tool_result("1", "run", LARGE)},
            ],
        )
        assert result.changed
        assert log.file.stat().st_size < 20_000
        restored = [await log.restored(each) for each in messages_of(log)]
        assert restored[1] == user([IMAGE], timestamp=1)
        assert text_of(restored[2]) == LARGE

    async def test_a_rewritten_branch_still_names_what_is_lost(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        entries = await log.append_messages([user("one"), user([IMAGE])])
        blobs_of(log.file)[0].unlink()
        await rewrite_transcript_entries(
            log, [{"entry_id": entries[0]["id"], "message": user("1")}]
        )
        assert "cannot be read" in text_of(await log.restored(messages_of(log)[1]))

    async def test_transcripts_with_inline_media_open_as_they_are(
        self, files: Any, open_sessions: Any
    ) -> None:
        """As the reference writes them."""
        path = files.write(files.message("a", None) | {"message": user([IMAGE], timestamp=1)})
        [entry] = read_transcript(path).entries
        assert restore_entry(entry, blob_folder(path)) is entry
        assert entry["message"] == user([IMAGE], timestamp=1)
        assert described(path) == []


async def test_the_folder_is_no_session_to_anybody(files: Any, open_sessions: Any) -> None:
    """Neither for the list of transcripts, nor for what is verified, nor for a table that is made again."""
    log = await open_sessions().open(KEY)
    await log.append_messages([user([IMAGE], timestamp=1)])
    assert files.store.list() == [log.session_id]
    assert [place.path for place in places_in(files.folder)] == [log.file]
    for table in files.folder.glob("sessions.sqlite*"):
        table.write_bytes(b"not a table" * 100)
    sessions = open_sessions()
    assert [entry.session_id for entry in await sessions.list()] == [log.session_id]
    again = await sessions.open(KEY)
    assert await again.restored(messages_of(again)[0]) == user([IMAGE], timestamp=1)


class TestCopyToFormat3:
    async def test_a_copy_keeps_media_beside_itself(self, files: Any, open_sessions: Any) -> None:
        sessions = open_sessions()
        log = await sessions.open(KEY)
        # What an older program left: a file of version 2, with one image inline and one kept beside it.
        write_blob(blob_folder(log.file), SHA256, RAW, flush=False)
        other = base64.b64encode(b"other" * 100).decode()
        kept = {k: v for k, v in IMAGE.items() if k != "data"} | {
            "blob": {"sha256": SHA256, "bytes": len(RAW), "encoding": "base64", "field": "data"}
        }
        header = json.loads(log.file.read_bytes().splitlines()[0]) | {"version": 2}
        old = [
            files.message("a", None) | {"message": user([kept], timestamp=1)},
            files.message("b", "a") | {"message": user([{**IMAGE, "data": other}], timestamp=2)},
        ]
        log.file.write_bytes(b"".join(map(files.line, (header, *old))))
        again = await open_sessions().open(KEY)
        before, old_file = log.file.read_bytes(), again.file
        await again.append_messages([user("three", timestamp=3)])
        assert again.file != old_file
        assert old_file.read_bytes() == before
        assert len(blobs_of(again.file)) == 2
        restored = [await again.restored(each) for each in messages_of(again)]
        assert restored[0] == user([IMAGE], timestamp=1)
        assert restored[1] == user([{**IMAGE, "data": other}], timestamp=2)


class TestVerify:
    async def test_missing_and_damaged_blobs_are_errors_with_their_lines(
        self, open_sessions: Any
    ) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user([IMAGE]), tool_result("1", "run", LARGE), user([IMAGE])])
        assert described(log.file) == []
        (blob_folder(log.file) / SHA256).unlink()
        [large] = blobs_of(log.file)
        large.write_bytes(b"x" * large.stat().st_size)
        found = [each for each in verify_transcript(log.file).findings if each.kind == "blob"]
        assert [each.line for each in found] == [3, 4, 5]
        assert all(each.is_error and not each.fixable for each in found)
        assert f"{SHA256}: its file is missing" in found[0].message
        assert "its file is damaged" in found[1].message

    async def test_files_that_no_entry_names_are_told_of_and_stay(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user([IMAGE])])
        orphan = blob_folder(log.file) / ("b" * 64)
        orphan.write_bytes(b"1234")
        assert described(log.file) == [("orphan-blobs", "information")]
        mend_transcript(log.file)
        assert orphan.exists()

    async def test_mending_keeps_blobs_and_what_was_said_of_them(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user([IMAGE], timestamp=1)])
        with log.file.open("ab") as file:
            file.write(b"garbage\n")
        mended = mend_transcript(log.file, session_id=log.session_id)
        assert mended.fixed
        again = await open_sessions().open(KEY)
        assert await again.restored(messages_of(again)[0]) == user([IMAGE], timestamp=1)
        blobs_of(log.file)[0].unlink()
        with log.file.open("ab") as file:
            file.write(b"garbage\n")
        mended = mend_transcript(log.file, session_id=log.session_id)
        assert [each.kind for each in mended.unmended] == ["blob"]
