"""When the selected memory backend fails, keywords over the same files answer, and everybody is told."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from hermitcrab import hookimpl
from hermitcrab.agent.memory_fallback import COOLDOWN_S, FallbackMemory
from hermitcrab.errors import MemoryBackendError, PathRefusedError
from hermitcrab.memory import Hit, MemoryBackend, MemoryStatus, ReadResult, SearchResult, SyncReport
from hermitcrab.memory.tools import run_memory_search

MAIN = "agent:main:main"
NOTE = "The staging database listens on port 6543.\n"


class Brittle(MemoryBackend):
    """A backend that raises ``error`` in whatever it is asked, while there is one."""

    def __init__(self, name: str = "brittle", error: Exception | None = None) -> None:
        self.name = name
        self.error = error
        self.asked = 0
        self.closed = 0

    def _ask(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    async def search(self, query: str, **options: Any) -> SearchResult:
        self._ask()
        hit = Hit(path="MEMORY.md", start_line=1, end_line=1, score=1.0, snippet=self.name)
        return SearchResult(hits=(hit,))

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        self._ask()
        return ReadResult(path=path, text=self.name)

    async def sync(self, reason: str, **options: Any) -> SyncReport:
        self._ask()
        return SyncReport(reason=reason)

    async def status(self) -> MemoryStatus:
        return MemoryStatus(backend=self.name)

    async def close(self) -> None:
        self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Made:
    """A fallback over two brittle backends, with how often each was made."""

    def __init__(self) -> None:
        self.selected = Brittle("selected")
        self.spare = Brittle("spare")
        self.start_error: Exception | None = None
        self.counts = {"selected": 0, "spare": 0}
        self.clock = Clock()
        self.memory = FallbackMemory(
            "brittle", self._make, self._spare, monotonic=self.clock, patience_s=0.2
        )

    async def _make(self) -> MemoryBackend:
        self.counts["selected"] += 1
        await asyncio.sleep(0)
        if self.start_error is not None:
            raise self.start_error
        return self.selected

    async def _spare(self) -> MemoryBackend:
        self.counts["spare"] += 1
        await asyncio.sleep(0)
        return self.spare


@pytest.fixture
def made() -> Made:
    return Made()


def brittle_plugin(crab: Any, backend: Brittle | None) -> tuple[str, Any]:
    def create(context: Any) -> MemoryBackend:
        if backend is None:
            raise MemoryBackendError("the server is away")
        return backend

    @hookimpl
    def register_memory_backends(registry: Any) -> None:
        registry.register("brittle", create)

    return "brittle", crab.plugin(register_memory_backends)


def write_note(home: Any) -> None:
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "MEMORY.md").write_text(NOTE, encoding="utf-8")


SLOT = {"plugins": {"slots": {"memory": "brittle"}}}


async def test_a_backend_that_works_is_all_that_is_ever_made(made):
    await made.memory.start()
    result = await made.memory.search("port")
    assert (result.hits[0].snippet, result.degraded) == ("selected", False)
    assert made.counts == {"selected": 1, "spare": 0}


@pytest.mark.parametrize("backend", ["fails to start", "fails to search"])
async def test_a_failed_backend_is_answered_for_by_keywords_over_the_same_files(
    open_host, crab, home, backend
):
    """Pitfall 24 (#36685, #90336, #47884): neither an outage nor silence."""
    write_note(home)
    fault = MemoryBackendError("the server is away")
    plugin = brittle_plugin(
        crab, None if backend == "fails to start" else Brittle("brittle", fault)
    )
    async with open_host(config=SLOT, plugins=[plugin]) as host:
        result = await host.memory.search("staging database")
        assert ["6543" in hit.snippet for hit in result.hits] == [True]
        assert result.degraded
        assert "the server is away" in result.reason
        reply = await host.send(MAIN, "Hello")
        assert any("the server is away" in text for text in reply.degraded)
        status = await (await host.agent()).memory.status()
        assert status.details["fallback"]["from"] == "brittle"
        assert "the server is away" in status.details["fallback"]["reason"]


async def test_a_backend_whose_plugin_does_not_load_is_answered_for(open_host, crab, home):
    @hookimpl
    def register_memory_backends(registry: Any) -> None:
        raise ImportError("no module named 'lost'")

    write_note(home)
    plugin = ("brittle", crab.plugin(register_memory_backends))
    async with open_host(config=SLOT, plugins=[plugin]) as host:
        result = await host.memory.search("staging database")
    assert result.hits
    assert "no module named 'lost'" in result.reason


async def test_a_slot_that_names_nothing_installed_is_a_mistake_and_no_failure(open_host):
    async with open_host(config={"plugins": {"slots": {"memory": "memory-cor"}}}) as host:
        agent = await host.agent()
    assert agent.memory is None
    assert "'memory-cor' is not registered" in agent.memory_failure


async def test_a_denied_memory_core_takes_no_place(open_host, crab, home):
    config = {"plugins": {"slots": {"memory": "brittle"}, "deny": ["memory-core"]}}
    async with open_host(config=config, plugins=[brittle_plugin(crab, None)]) as host:
        agent = await host.agent()
        assert agent.memory is None
        assert "the server is away" in agent.memory_failure


async def test_an_empty_slot_has_no_fallback(open_host, home):
    async with open_host(config={"plugins": {"slots": {"memory": "none"}}}) as host:
        assert (await host.agent()).memory is None


def test_memory_core_is_not_imported_before_it_is_needed(tmp_path):
    (tmp_path / "config.yaml").write_text("plugins: {slots: {memory: brittle}}\n")
    code = (
        "import asyncio, sys\n"
        "from types import SimpleNamespace\n"
        "from pathlib import Path\n"
        "from hermitcrab import Host, hookimpl\n"
        "from hermitcrab.memory import MemoryBackend\n"
        "class Quiet(MemoryBackend):\n"
        "    search = read = sync = status = None\n"
        "@hookimpl\n"
        "def register_memory_backends(registry):\n"
        "    registry.register('brittle', lambda context: Quiet())\n"
        "plugin = SimpleNamespace(register_memory_backends=register_memory_backends)\n"
        "async def main():\n"
        "    async with Host.open(home=Path(sys.argv[1]), plugins=[('brittle', plugin)]) as host:\n"
        "        assert (await host.agent()).memory is not None\n"
        "    print('hermitcrab_memory_core' in sys.modules)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == "False", done.stderr


async def test_a_backend_that_comes_back_is_used_again_without_a_restart(made):
    await made.memory.start()
    made.selected.error = ConnectionError("refused")
    assert (await made.memory.search("port")).degraded
    made.selected.error = None
    assert (await made.memory.search("port")).hits[0].snippet == "spare"
    made.clock.now += COOLDOWN_S
    result = await made.memory.search("port")
    assert (result.hits[0].snippet, result.degraded) == ("selected", False)
    assert made.memory.problem is None


async def test_a_backend_that_could_not_be_made_is_made_later(made):
    made.start_error = MemoryBackendError("no server")
    await made.memory.start()
    assert "failed to start: no server" in made.memory.problem
    assert (await made.memory.search("port")).hits[0].snippet == "spare"
    made.start_error = None
    made.clock.now += COOLDOWN_S
    assert (await made.memory.search("port")).hits[0].snippet == "selected"


async def test_a_failing_backend_is_left_alone_until_its_cooldown_is_over(made):
    await made.memory.start()
    made.selected.error = ConnectionError("refused")
    for _ in range(5):
        await made.memory.search("port")
    assert made.selected.asked == 1


async def test_a_refused_path_is_no_failure_of_the_backend(made):
    await made.memory.start()
    made.selected.error = PathRefusedError("it leads out")
    with pytest.raises(PathRefusedError):
        await made.memory.read("../secret")
    assert (made.memory.problem, made.counts["spare"]) == (None, 0)


async def test_read_and_sync_fall_back_as_well_and_the_report_says_why(made):
    await made.memory.start()
    made.selected.error = ConnectionError("refused")
    assert (await made.memory.read("MEMORY.md")).text == "spare"
    assert "refused" in (await made.memory.sync("cli")).problem


async def test_callers_that_race_share_one_backend_of_each_kind(made):
    made.selected.error = ConnectionError("refused")
    await asyncio.gather(*(made.memory.search("port") for _ in range(5)))
    assert made.counts == {"selected": 1, "spare": 1}


async def test_closing_closes_both_and_nothing_is_made_afterwards(made):
    await made.memory.start()
    made.selected.error = ConnectionError("refused")
    await made.memory.search("port")
    await made.memory.close()
    assert (made.selected.closed, made.spare.closed) == (1, 1)
    with pytest.raises(MemoryBackendError, match="closed"):
        await made.memory.search("port")


async def test_a_backend_that_hangs_is_answered_for_within_the_deadline(made):
    """Pitfall 24, provider slow: a search that never ends is no search."""

    async def hang(query: str, **options: Any) -> SearchResult:
        await asyncio.Event().wait()
        return SearchResult()

    made.selected.search = hang
    answer = json.loads(await run_memory_search(made.memory, {"query": "port"}, deadline_s=5))
    assert [each["snippet"].splitlines()[0] for each in answer["results"]] == ["spare"]
    assert answer["degraded"] is True
    assert "did not answer in 0.2 s" in answer["reason"]
    assert "did not answer" in made.memory.problem


async def test_where_both_fail_both_are_named(made):
    made.selected.error = MemoryBackendError("the server is away")
    made.spare.error = MemoryBackendError("the disk is full")
    with pytest.raises(MemoryBackendError, match=r"server is away.*disk is full"):
        await made.memory.search("port")


async def test_the_model_is_told_of_memory_though_its_backend_did_not_start(made):
    made.start_error = OSError("no such host")
    await made.memory.start()
    assert "memory_search" in made.memory.prompt_section(["memory_search"])
