"""Full disks, read-only folders and folders that vanish: typed errors, and nothing that was written is lost."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import pytest

from hermitcrab.errors import SessionError, TranscriptError
from hermitcrab.messages import user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.blobs.files import blob_folder
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
DISK_BYTES = 1024 * 1024


class SmallDisk:
    """A file system of a megabyte, with a folder of sessions on it."""

    def __init__(self, root):
        self.root = root
        self.folder = root / "sessions"
        self._ballast = root / "ballast"

    def fill(self):
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 512):
                pass
        assert shutil.disk_usage(self.root).free == 0

    def free(self):
        self._ballast.unlink()

    @contextmanager
    def read_only(self):
        self._remount("ro")
        yield
        self._remount("rw")

    def _remount(self, mode):
        subprocess.run(["mount", "-o", f"remount,{mode}", self.root], check=True)


@pytest.fixture
def disk(tmp_path):
    root = tmp_path / "disk"
    root.mkdir()
    if shutil.which("mount") is None or sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small file system")
    options = f"size={DISK_BYTES}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", root], check=False)
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield SmallDisk(root)
    subprocess.run(["umount", "--lazy", root], check=True)


@pytest.fixture
def open_sessions():
    """Makes a view of a folder, as another process would have it."""
    tables = []

    def make(folder, **options):
        table = SessionEntries(folder / "sessions.sqlite")
        tables.append(table)
        store = JsonlTranscriptStore(folder)
        return Sessions(
            store=store, entries=table, clock=lambda: datetime.now(UTC), cwd="/work", **options
        )

    yield make
    for table in tables:
        table.close()


def texts(log):
    return [text_of(item.message) for item in log.items()]


def stored(log):
    """The texts of the messages on disk, read whole by a reader of its own."""
    contents = JsonlTranscriptStore(log.file.parent).read_all(log.session_id)
    return [text_of(entry["message"]) for entry in contents.branch() if entry["type"] == "message"]


def compaction(log):
    return log.new_entry("compaction", summary="s" * 8_192, firstKeptEntryId=log.path[-1]["id"])


class TestFullDisk:
    async def test_appends_fail_with_a_type_and_go_on_once_there_is_room(self, disk, open_sessions):
        log = await open_sessions(disk.folder).open(KEY)
        await log.append_messages([user("one")])
        before = log.file.read_bytes()
        disk.fill()
        with pytest.raises(TranscriptError, match="No space left") as caught:
            await log.append_messages([user("lost " * 2_000)])
        assert str(log.file) in caught.value.where
        assert log.file.read_bytes().startswith(before)
        await log.refresh()
        assert texts(log) == stored(log) == ["one"]
        disk.free()
        await log.append_messages([user("two")])
        assert log.file.read_bytes().startswith(before)
        assert texts(log) == stored(log) == ["one", "two"]
        assert texts(await open_sessions(disk.folder).open(KEY)) == ["one", "two"]

    async def test_reading_goes_on_and_so_does_what_fits(self, disk, open_sessions):
        log = await open_sessions(disk.folder).open(KEY)
        await log.append_messages([user("one")])
        disk.fill()
        other = await open_sessions(disk.folder).open(KEY)
        await other.refresh()
        assert texts(other) == ["one"]
        room = -log.file.stat().st_size % 4_096  # the rest of the last block is still free
        assert room > 1_000
        await other.append_messages([user("fits")])
        await log.refresh()
        assert texts(log) == texts(other) == stored(log) == ["one", "fits"]

    async def test_a_compaction_that_does_not_fit_leaves_the_history(self, disk, open_sessions):
        log = await open_sessions(disk.folder).open(KEY)
        await log.append_messages([user("one"), user("two")])
        disk.fill()
        with pytest.raises(TranscriptError, match="No space left"):
            await log.append_compaction(compaction(log))
        await log.refresh()
        assert texts(log) == stored(log) == ["one", "two"]
        disk.free()
        assert await log.append_compaction(compaction(log))
        assert [item.is_summary for item in log.items()] == [True, False]
        assert texts(await open_sessions(disk.folder).open(KEY)) == texts(log)

    async def test_an_image_that_does_not_fit_leaves_neither_a_line_nor_a_file(
        self, disk, open_sessions
    ):
        """Design 5: its file is written before its entry."""
        data = base64.b64encode(bytes(range(256)) * 64).decode()
        image = user([{"type": "image", "mimeType": "image/png", "data": data}], timestamp=1)
        log = await open_sessions(disk.folder).open(KEY)
        await log.append_messages([user("one")])
        before = log.file.read_bytes()
        disk.fill()
        with pytest.raises(TranscriptError, match="No space left") as caught:
            await log.append_messages([image])
        assert str(blob_folder(log.file)) in caught.value.where
        assert log.file.read_bytes() == before
        disk.free()
        assert not any(blob_folder(log.file).glob("*"))
        await log.append_messages([image])
        assert await log.restored(log.items()[-1].message) == image

    @pytest.mark.parametrize("record", [True, False])
    async def test_an_entry_that_cannot_be_updated_keeps_what_it_says(
        self, disk, open_sessions, record
    ):
        log = await open_sessions(disk.folder).open(KEY)
        await log.update_entry(label="before")
        disk.fill()
        # Long enough for neither table nor transcript to have room.
        with pytest.raises(SessionError, match=r"No space left|disk is full|disk I/O"):
            await log.update_entry(record=record, label="during", flush_error="x" * 100_000)
        assert log.entry.label == "before"
        other = await open_sessions(disk.folder).open(KEY)
        assert other.entry.label == "before"
        disk.free()
        await log.update_entry(record=record, label="after")
        assert log.entry.label == "after"
        assert (await open_sessions(disk.folder).open(KEY)).entry.label == "after"

    async def test_a_new_session_is_begun_once_there_is_room(self, disk, open_sessions):
        sessions = open_sessions(disk.folder)
        await sessions.open(KEY)
        disk.fill()
        with pytest.raises(SessionError):
            await sessions.open("agent:main:other")
        assert (await sessions.open(KEY)).key == KEY
        disk.free()
        log = await sessions.open("agent:main:other")
        await log.append_messages([user("hello")])
        assert stored(log) == ["hello"]
        assert {entry.key for entry in await sessions.list()} == {KEY, "agent:main:other"}


class TestReadOnlyFolder:
    async def test_writing_fails_with_a_type_and_reading_goes_on(self, disk, open_sessions):
        sessions = open_sessions(disk.folder)
        log = await sessions.open(KEY)
        await log.append_messages([user("one")])
        await log.update_entry(label="before")
        await sessions.close()  # an open database would keep the disk from becoming read-only
        with disk.read_only():
            with pytest.raises(TranscriptError, match="Read-only file system"):
                await log.append_messages([user("lost")])
            with pytest.raises(TranscriptError, match="Read-only file system"):
                await log.append_compaction(compaction(log))
            with pytest.raises(SessionError):
                await log.update_entry(record=False, label="during")
            await log.refresh()
            assert texts(log) == stored(log) == ["one"]
            assert log.entry.label == "before"
        await log.append_messages([user("two")])
        await log.update_entry(label="after")
        assert texts(log) == stored(log) == ["one", "two"]
        assert (await open_sessions(disk.folder).open(KEY)).entry.label == "after"

    @pytest.mark.parametrize("crashed", [False, True])
    async def test_a_program_that_starts_there_can_read(self, disk, open_sessions, crashed):
        """Also what stands in SQLite's log only, because the last writer was killed."""
        sessions = open_sessions(disk.folder)
        log = await sessions.open(KEY)
        await log.append_messages([user("one")])
        await log.update_entry(label="before")
        left = {path: path.read_bytes() for path in disk.folder.iterdir()}
        await sessions.close()
        if crashed:
            for path, content in left.items():
                path.write_bytes(content)
        other = open_sessions(disk.folder)
        with disk.read_only():
            read = await other.open(KEY, create=False)
            await read.refresh()
            assert texts(read) == ["one"]
            assert [(entry.key, entry.label) for entry in await other.list()] == [(KEY, "before")]
            with pytest.raises(TranscriptError, match="Read-only file system"):
                await read.append_messages([user("lost")])
            with pytest.raises(SessionError, match=r"readonly|read-only"):
                await read.update_entry(record=False, label="during")
            with pytest.raises(TranscriptError, match="Read-only file system"):
                await other.open("agent:main:new")
        await read.append_messages([user("two")])
        await read.update_entry(label="after")
        assert texts(read) == stored(read) == ["one", "two"]
        assert (await open_sessions(disk.folder).open(KEY)).entry.label == "after"


class TestVanishedFolder:
    async def test_writing_fails_with_a_type_and_makes_no_new_folder(self, tmp_path, open_sessions):
        folder, aside = tmp_path / "sessions", tmp_path / "aside"
        log = await open_sessions(folder).open(KEY)
        await log.append_messages([user("one")])
        await log.update_entry(label="before")
        folder.rename(aside)
        with pytest.raises(TranscriptError) as caught:
            await log.append_messages([user("lost")])
        assert str(log.file) in caught.value.where
        assert not folder.exists()
        with pytest.raises(TranscriptError):
            await log.append_compaction(compaction(log))
        with pytest.raises(TranscriptError):
            await log.refresh()
        with pytest.raises(SessionError):
            await log.update_entry(record=False, label="during")
        assert not folder.exists()
        assert texts(log) == ["one"]
        aside.rename(folder)
        await log.append_messages([user("two")])
        await log.update_entry(label="after")
        assert texts(log) == stored(log) == ["one", "two"]
        assert (await open_sessions(folder).open(KEY)).entry.label == "after"
