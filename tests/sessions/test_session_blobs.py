"""Media and large results when a process dies or a disk is full: never an entry without its file (design 5)."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from hermitcrab.messages import tool_result, user
from hermitcrab.sessions.blobs.files import blob_folder
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.repair.mending import verify_transcript
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
IMAGE = {
    "type": "image",
    "mimeType": "image/png",
    "data": base64.b64encode(b"a picture" * 1_000).decode(),
}
PROGRAM = """
import asyncio, json, os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from hermitcrab.messages import user
from hermitcrab.sessions import transcript
from hermitcrab.sessions.blobs import files as blob_files
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions

def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)

async def main(folder, step, image):
    store = transcript.JsonlTranscriptStore(folder)
    entries = SessionEntries(folder / "sessions.sqlite")
    log = await Sessions(
        store=store, entries=entries, clock=lambda: datetime.now(UTC), cwd="/work"
    ).open("agent:main:main")
    await log.append_messages([user("before")])
    if step == "writing the file":
        blob_files.shutil.copyfileobj = die
    elif step == "naming the file":
        blob_files.os.replace = die
    elif step == "writing the entry":
        transcript.encode_entry = die
    await log.append_messages([user([image])])
    die()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
"""


def write_and_die(folder, step):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, step, json.dumps(IMAGE)], check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL


@pytest.fixture
def open_sessions(tmp_path):
    tables = []

    def make():
        table = SessionEntries(tmp_path / "sessions.sqlite")
        tables.append(table)
        store = JsonlTranscriptStore(tmp_path)
        return Sessions(store=store, entries=table, clock=lambda: datetime.now(UTC), cwd="/work")

    yield make
    for table in tables:
        table.close()


@pytest.mark.parametrize(
    ("step", "named", "kept"),
    [
        ("writing the file", 0, 0),
        ("naming the file", 0, 0),
        ("writing the entry", 0, 1),
        ("done", 1, 1),
    ],
)
async def test_a_process_that_dies_leaves_no_entry_without_its_file(
    open_sessions, tmp_path, step, named, kept
):
    write_and_die(tmp_path, step)
    log = await open_sessions().open(KEY)
    folder = blob_folder(log.file)
    assert len([name for name in folder.iterdir() if len(name.name) == 64]) == kept
    assert len(log.items()) == 1 + named
    assert not any(finding.is_error for finding in verify_transcript(log.file).findings)
    await log.append_messages([user([IMAGE], timestamp=1)])
    assert await log.restored(log.items()[-1].message) == user([IMAGE], timestamp=1)


async def test_two_writers_of_one_image_keep_it_once(open_sessions):
    first, second = await open_sessions().open(KEY), await open_sessions().open(KEY)
    for log in (first, second, first, second):
        await log.append_messages([user([IMAGE], timestamp=1)])
    await first.refresh()
    assert len(list(blob_folder(first.file).iterdir())) == 1
    assert [await first.restored(each.message) for each in first.items()] == [
        user([IMAGE], timestamp=1)
    ] * 4


async def test_a_new_session_under_the_key_has_files_of_its_own(open_sessions):
    sessions = open_sessions()
    old = await sessions.open(KEY)
    await old.append_messages([tool_result("call_1", "run", "x" * 2_000_000)])
    new = await sessions.start_new(KEY)
    assert blob_folder(new.file) != blob_folder(old.file)
    assert not blob_folder(new.file).exists()
