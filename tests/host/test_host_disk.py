"""Disks that are full, slow or not there: nothing that was written is lost, and errors have a type (design 5)."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import pytest

from hermitcrab import Host
from hermitcrab.errors import HermitcrabError, TranscriptError
from hermitcrab.sessions import transcript

MAIN = "agent:main:main"


class FullDisk:
    """Stands in for ``os`` in the module of transcripts: ``room`` bytes are written, then the disk is full."""

    def __init__(self) -> None:
        self.room: int | None = None

    def write(self, descriptor, data):
        if self.room is None:
            return os.write(descriptor, data)
        written = os.write(descriptor, bytes(data)[: self.room]) if self.room else 0
        self.room -= written
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    def __getattr__(self, name):
        return getattr(os, name)


@pytest.fixture
def disk(monkeypatch):
    full = FullDisk()
    monkeypatch.setattr(transcript, "os", full)
    return full


@pytest.mark.parametrize("room", [0, 1, 40, 150])
async def test_a_write_that_fails_half_way_loses_nothing_of_before(open_host, crab, disk, room):
    model = crab.ScriptedModel("one", "two", "three")
    async with open_host(model) as host:
        await host.send(MAIN, "first")
        file = (await host.session(MAIN)).file
        before = file.read_bytes()
        disk.room = room
        with pytest.raises(TranscriptError, match=r"cannot be written.*No space left") as caught:
            await host.send(MAIN, "second")
        assert caught.value.where == str(file)
        assert file.read_bytes()[: len(before)] == before
        disk.room = None
        reply = await host.send(MAIN, "third")
    assert reply.text == "two"
    assert file.read_bytes()[: len(before)] == before
    async with open_host(model) as host:
        assert (await host.send(MAIN, "fourth")).text == "three"
        texts = [message["content"][0]["text"] for message in (await host.session(MAIN)).messages]
    assert texts == ["first", "one", "third", "two", "fourth", "three"]


async def test_a_disk_that_is_full_when_the_answer_comes_keeps_the_question(open_host, crab, disk):
    def fill(request):
        disk.room = 30
        return "an answer that does not fit"

    async with open_host(crab.ScriptedModel(fill, "Here.")) as host:
        with pytest.raises(TranscriptError):
            await host.send(MAIN, "first")
        disk.room = None
        assert (await host.send(MAIN, "again")).text == "Here."
        texts = [message["content"][0]["text"] for message in (await host.session(MAIN)).messages]
    assert texts == ["first", "again", "Here."]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB, where the test may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small file system")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=False)
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def _fill(file):
    while True:
        file.write(b"x" * 512)


async def test_a_real_full_disk_is_a_typed_error_and_room_repairs_it(small_disk, crab):
    home = small_disk / "home"
    model = crab.ScriptedModel("one", "two", "three")
    async with Host.open(home=home, model=model, environ={}) as host:
        await host.send(MAIN, "first")
        file = (await host.session(MAIN)).file
        before = file.read_bytes()
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as filling, pytest.raises(OSError, match="No space"):
            _fill(filling)
        with pytest.raises(HermitcrabError):
            await host.send(MAIN, "second " * 2_000)
        ballast.unlink()
        reply = await host.send(MAIN, "third")
    assert file.read_bytes()[: len(before)] == before
    assert reply.text in {"one", "two", "three"}


@pytest.mark.parametrize("way", ["/new", "/reset", "the method"])
async def test_a_transcript_that_is_gone_is_a_typed_error_and_can_be_left_behind(
    open_host, crab, way
):
    """C10"""
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "hello")
        file = (await host.session(MAIN)).file
    file.unlink()
    async with open_host(crab.ScriptedModel()) as host:
        with pytest.raises(TranscriptError, match=r"agent:main:main.*/new"):
            await host.send(MAIN, "hello?")
        if way == "the method":
            await host.reset(MAIN)
        else:
            await host.send(MAIN, way)
        assert (await host.send(MAIN, "hello!")).text == "ok"
    assert not file.exists()


async def test_a_home_that_is_a_file_is_a_typed_error(tmp_path, crab):
    (tmp_path / "home").write_text("not a folder")
    with pytest.raises(HermitcrabError, match="home"):
        async with Host.open(home=tmp_path / "home", model=crab.ScriptedModel(), environ={}):
            pass


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
async def test_a_home_that_cannot_be_written_is_a_typed_error(tmp_path, crab):
    (tmp_path / "home").mkdir(mode=0o500)
    with pytest.raises(HermitcrabError, match="home"):
        async with Host.open(
            home=tmp_path / "home", model=crab.ScriptedModel(), environ={}
        ) as host:
            await host.send(MAIN, "hello")


async def test_everything_in_the_home_belongs_to_its_owner_alone(open_host, crab, home):
    async with open_host(
        crab.ScriptedModel(crab.calling("write", path="a.md", content="x"))
    ) as host:
        await host.send(MAIN, "hello")
        own = [home / "config.yaml", home / "workspace" / "a.md"]
        open_to_others = [
            path
            for path in home.rglob("*")
            if path not in own and path.stat().st_mode & 0o077 and not path.is_symlink()
        ]
    assert open_to_others == []


@pytest.mark.parametrize(
    ("durability", "expected"), [("turn", "one"), ("message", "every"), ("os", "none")]
)
async def test_durability_decides_when_the_disk_is_waited_for(
    open_host, crab, monkeypatch, durability, expected
):
    synced = []

    class Watched(FullDisk):
        def fsync(self, descriptor):
            synced.append(descriptor)
            os.fsync(descriptor)

    monkeypatch.setattr(transcript, "os", Watched())
    model = crab.ScriptedModel(crab.calling("read", path="a.md"), "Done.", "Done.")
    async with open_host(model, config={"session": {"durability": durability}}) as host:
        await host.send(MAIN, "open the session")
        synced.clear()
        reply = await host.send(MAIN, "hello")
    messages = len(reply.messages)
    assert {
        "one": len(synced) == 1,
        "every": len(synced) >= messages,
        "none": synced == [],
    }[expected]
