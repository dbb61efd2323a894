"""When the disk is waited for (``session.durability``, design 5)."""

from __future__ import annotations

import os
import stat

import pytest

MAIN = "agent:main:main"


@pytest.fixture
def synced(monkeypatch):
    """The files whose ``fsync`` was asked for, by inode."""
    real, asked = os.fsync, []

    def count(descriptor):
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            asked.append(status.st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", count)
    return asked


@pytest.mark.parametrize("durability", ["message", "turn", "os"])
async def test_the_transcript_is_synced_as_often_as_durability_says(
    open_host, crab, synced, durability
):
    """``message`` at each append, ``turn`` once at the end of a turn, ``os`` never."""
    model = crab.ScriptedModel(crab.calling("read", path="a.md"), "Done.", "Done again.")
    async with open_host(model, config={"session": {"durability": durability}}) as host:
        session = await host.session(MAIN)
        transcript = session.file.stat().st_ino
        for text, messages in (("Read it.", 4), ("Once more.", 2)):
            before = len(crab.entries_of(session.file))
            synced.clear()
            reply = await host.send(MAIN, text)
            assert len(reply.messages) == messages
            appended = len(crab.entries_of(session.file)) - before
            assert appended >= messages
            expected = {"message": appended, "turn": 1, "os": 0}[durability]
            assert synced.count(transcript) == expected


@pytest.mark.parametrize("durability", ["message", "turn", "os"])
async def test_a_loop_of_ones_own_gets_the_same(open_host, crab, synced, durability):
    """The second way to use the library: append, append, end the turn."""
    async with open_host(
        crab.ScriptedModel(), config={"session": {"durability": durability}}
    ) as host:
        session = await host.session(MAIN)
        transcript = session.file.stat().st_ino
        synced.clear()
        for number in range(3):
            await session.append({"role": "user", "content": str(number)})
        assert synced.count(transcript) == (3 if durability == "message" else 0)
        await session.end_turn()
        assert synced.count(transcript) == {"message": 3, "turn": 1, "os": 0}[durability]
