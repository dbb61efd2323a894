"""Memory is brought up to date as sessions begin, as files change, and every so often (memory 3.10, 3.11)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.agent.memory_triggers import MemoryTriggers
from hermitcrab.config import agent_settings, config_from
from hermitcrab.memory.watching import changes, watched_folders

MAIN, OTHER = "agent:main:main", "agent:main:telegram:direct:5"


class Noting:
    """A memory that notes why it is synced."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def sync(self, reason: str) -> None:
        self.reasons.append(reason)


def agent_with(workspace: Path, **sync: Any) -> Any:
    document = {"agents": {"defaults": {"memorySearch": {"sync": sync}}}}
    settings = agent_settings(config_from(document), "main")
    return SimpleNamespace(agent_id="main", workspace=workspace, settings=settings, memory=Noting())


async def until(found: Any, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not found():  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.02)


async def test_each_session_syncs_once_when_it_is_opened(tmp_path):
    agent = agent_with(tmp_path, watch=False)
    sync = MemorySync()
    triggers = MemoryTriggers(sync)
    for key in (MAIN, MAIN, OTHER, MAIN):
        triggers.session_opened(agent, key)
    await sync.close()
    await triggers.close()
    assert agent.memory.reasons == ["session-start", "session-start"]


async def test_a_session_does_not_sync_where_that_is_switched_off(tmp_path):
    agent = agent_with(tmp_path, watch=False, onSessionStart=False)
    triggers = MemoryTriggers(MemorySync())
    triggers.session_opened(agent, MAIN)
    await triggers.close()
    assert agent.memory.reasons == []


async def test_an_interval_syncs_again_and_again_until_the_host_closes(tmp_path):
    agent = agent_with(tmp_path, watch=False, onSessionStart=False, intervalMinutes=0.0005)
    triggers = MemoryTriggers(MemorySync())
    triggers.session_opened(agent, MAIN)
    await until(lambda: len(agent.memory.reasons) > 2)
    await triggers.close()
    seen = len(agent.memory.reasons)
    await asyncio.sleep(0.1)
    assert len(agent.memory.reasons) == seen
    assert set(agent.memory.reasons) == {"interval"}


async def test_a_changed_note_is_indexed_and_a_new_folder_is_watched(tmp_path):
    pytest.importorskip("watchfiles")
    (tmp_path / "memory").mkdir()
    agent = agent_with(tmp_path, onSessionStart=False, watchDebounceMs=50)
    triggers = MemoryTriggers(MemorySync(), settled_s=0)
    triggers.session_opened(agent, MAIN)
    reasons = agent.memory.reasons
    number = 0

    async def write_until_heard(name: str) -> None:
        # A watch takes a moment to stand, and what happens before it stands is not heard.
        nonlocal number
        heard = len(reasons)
        file = tmp_path / name
        async with asyncio.timeout(20):
            while len(reasons) == heard:
                number += 1
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"note {number}", encoding="utf-8")
                await asyncio.sleep(0.2)

    for name in ("memory/2026-03-01.md", "MEMORY.md", "memory/topics/new.md"):
        await write_until_heard(name)
    await triggers.close()
    assert set(reasons) == {"watch"}


async def test_without_watchfiles_nothing_is_watched_and_nothing_fails(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    heard = [each async for each in changes(tmp_path, debounce_ms=10)]
    assert heard == []


async def test_where_the_system_has_no_more_watches_one_warning_says_so(
    tmp_path, monkeypatch, caplog
):
    """Pitfall 27: ENOSPC and EMFILE took the program down, or filled the log."""
    watchfiles = pytest.importorskip("watchfiles")

    async def exhausted(*paths: Any, **options: Any) -> Any:
        raise OSError(28, "no space left on device")
        yield

    monkeypatch.setattr(watchfiles, "awatch", exhausted)
    heard = [each async for each in changes(tmp_path, debounce_ms=10)]
    assert heard == []
    assert caplog.text.count("are not watched any more") == 1


def test_only_folders_of_notes_are_watched_and_few_enough(tmp_path, monkeypatch):
    """#5827, #10148: a watcher ate 24,000 descriptors."""
    workspace = tmp_path / "work"
    (workspace / "memory" / "deep").mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "code" / "node_modules").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "notes")
    (tmp_path / "one.md").write_text("x", encoding="utf-8")
    extra = [tmp_path / name for name in ("notes", "code", "linked", "one.md", "missing")]
    watched = watched_folders(workspace, extra)
    assert watched.flat == (workspace, tmp_path)
    assert watched.deep == (workspace / "memory", tmp_path / "notes")
    assert len(watched.left_out) == 1
    assert "code" in watched.left_out[0]
    monkeypatch.setattr("hermitcrab.memory.watching.MOST_FOLDERS", 1)
    (tmp_path / "notes" / "a" / "b").mkdir(parents=True)
    assert watched_folders(workspace, extra).deep == (workspace / "memory",)


async def test_a_host_that_closes_leaves_no_task_behind(open_host, home, crab):
    (home / "workspace" / "memory").mkdir(parents=True)
    before = asyncio.all_tasks()
    async with open_host(crab.ScriptedModel("hi")) as host:
        await host.send(MAIN, "hello")
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert left == []
