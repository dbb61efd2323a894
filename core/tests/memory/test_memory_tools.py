"""The tools memory_search and memory_get, and the section of the system prompt."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hermitcrab.errors import MemoryBackendError, PathRefusedError
from hermitcrab.memory import Hit, MemoryBackend, MemoryStatus, ReadResult, SearchResult, SyncReport
from hermitcrab.memory.tools import (
    MEMORY_GET,
    MEMORY_SEARCH,
    Cooldown,
    cites,
    prompt_section,
    run_memory_get,
    run_memory_search,
)

HIT = Hit(path="memory/a.md", start_line=3, end_line=5, score=0.71239, snippet="port 5433\n")


class FakeBackend(MemoryBackend):
    """Answers with what it is given, or raises it; keeps the calls."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []

    def _answer(self, **call: Any) -> Any:
        self.calls.append(call)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def search(self, query: str, **options: Any) -> SearchResult:
        return self._answer(query=query, **options)

    async def read(self, path: str, **options: Any) -> ReadResult:
        return self._answer(path=path, **options)

    async def sync(self, reason: str, **options: Any) -> SyncReport:
        return SyncReport(reason=reason)

    async def status(self) -> MemoryStatus:
        return MemoryStatus(backend="fake")


async def search(backend: MemoryBackend, arguments: dict[str, Any], **options: Any) -> Any:
    return json.loads(await run_memory_search(backend, arguments, **options))


async def get(backend: MemoryBackend, arguments: dict[str, Any], **options: Any) -> Any:
    return json.loads(await run_memory_get(backend, arguments, **options))


async def test_a_search_returns_hits_and_how_they_came_about():
    backend = FakeBackend(SearchResult(hits=(HIT,), mode="keyword", degraded=True, reason="why"))
    payload = await search(
        backend,
        {"query": "port", "maxResults": 3, "minScore": 0.2},
        session_key="agent:main:telegram:group:1",
    )
    assert payload == {
        "results": [
            {
                "path": "memory/a.md",
                "startLine": 3,
                "endLine": 5,
                "score": 0.7124,
                "snippet": "port 5433\n",
                "source": "memory",
            }
        ],
        "mode": "keyword",
        "degraded": True,
        "reason": "why",
    }
    assert backend.calls == [
        {
            "query": "port",
            "max_results": 3,
            "min_score": 0.2,
            "sources": None,
            "session_key": "agent:main:telegram:group:1",
        }
    ]


async def test_defaults_are_the_hosts():
    backend = FakeBackend(SearchResult())
    await search(backend, {"query": "x"}, max_results=9)
    assert backend.calls[0]["max_results"] == 9
    assert backend.calls[0]["min_score"] is None


async def test_a_direct_chat_gets_the_source_of_each_hit():
    payload = await search(
        FakeBackend(SearchResult(hits=(HIT,))), {"query": "port"}, session_key="agent:main:main"
    )
    [result] = payload["results"]
    assert result["citation"] == "memory/a.md#L3-L5"
    assert result["snippet"] == "port 5433\n\nSource: memory/a.md#L3-L5"


@pytest.mark.parametrize(
    ("mode", "key", "expected"),
    [
        ("auto", None, True),
        ("auto", "agent:main:telegram:direct:1", True),
        ("auto", "agent:main:telegram:group:1", False),
        ("auto", "agent:main:slack:channel:c1", False),
        ("nonsense", "agent:main:slack:channel:c1", False),
        ("on", "agent:main:slack:channel:c1", True),
        ("off", None, False),
    ],
)
def test_citations_follow_the_setting_and_the_chat(mode, key, expected):
    assert cites(mode, key) is expected


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": 7},
        {"query": "x", "maxResults": 0},
        {"query": "x", "maxResults": "many"},
        {"query": "x", "maxResults": 1.5},
        {"query": "x", "minScore": float("nan")},
        {"query": "x", "minScore": "high"},
        {"query": "x", "maxResults": True},
    ],
)
async def test_bad_arguments_are_explained_and_the_backend_is_not_asked(arguments):
    backend = FakeBackend(SearchResult())
    payload = await search(backend, arguments)
    assert payload["results"] == []
    assert payload["error"]
    assert "unavailable" not in payload
    assert backend.calls == []


async def test_numbers_sent_as_text_are_understood():
    backend = FakeBackend(SearchResult())
    await search(backend, {"query": "x", "maxResults": "4", "minScore": "0.5"})
    assert (backend.calls[0]["max_results"], backend.calls[0]["min_score"]) == (4, 0.5)


@pytest.mark.parametrize("failure", [MemoryBackendError("index broken"), RuntimeError("boom")])
async def test_a_failure_says_unavailable_and_what_to_do(failure):
    """C87: no hits and no search must not look alike."""
    payload = await search(FakeBackend(failure), {"query": "x"})
    assert payload["results"] == []
    assert payload["disabled"] is payload["unavailable"] is True
    assert str(failure) in payload["error"]
    assert payload["warning"]
    assert payload["action"]


async def test_a_used_up_quota_has_its_own_advice():
    payload = await search(FakeBackend(MemoryBackendError("insufficient_quota")), {"query": "x"})
    assert "quota" in payload["warning"]


async def test_a_backend_that_hangs_is_given_up():
    class Hanging(FakeBackend):
        async def search(self, query: str, **options: Any) -> SearchResult:
            await asyncio.sleep(60)
            raise AssertionError

        read = search  # type: ignore[assignment]

    payload = await search(Hanging(), {"query": "x"}, deadline_s=0.02)
    assert "0.02 s" in payload["error"]
    assert payload["unavailable"] is True
    payload = await get(Hanging(), {"path": "MEMORY.md"}, deadline_s=0.02)
    assert payload["disabled"] is True


async def test_after_a_failure_calls_answer_at_once_for_a_while():
    now = 100.0
    cooldown = Cooldown(clock=lambda: now)
    backend = FakeBackend(MemoryBackendError("down"))
    await search(backend, {"query": "x"}, cooldown=cooldown)
    backend.answer = SearchResult(hits=(HIT,))
    payload = await search(backend, {"query": "x"}, cooldown=cooldown)
    assert (payload["unavailable"], payload["error"]) == (True, "down")
    assert len(backend.calls) == 1
    now = 161.0
    payload = await search(backend, {"query": "x"}, cooldown=cooldown)
    assert len(payload["results"]) == 1
    assert cooldown.error() is None


async def test_cancelling_propagates_and_starts_no_cooldown():
    cooldown = Cooldown()
    backend = FakeBackend(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await run_memory_search(backend, {"query": "x"}, cooldown=cooldown)
    with pytest.raises(asyncio.CancelledError):
        await run_memory_get(backend, {"path": "MEMORY.md"})
    assert cooldown.error() is None


async def test_a_lone_surrogate_in_a_query_does_no_harm():
    """C57."""
    backend = FakeBackend(SearchResult())
    await search(backend, {"query": "a\ud83d"})
    assert backend.calls[0]["query"] == "a\ufffd"


async def test_reading_returns_lines_and_where_to_go_on():
    backend = FakeBackend(
        ReadResult(path="MEMORY.md", text="a\nb", start=3, lines=2, truncated=True, next_start=5)
    )
    payload = await get(backend, {"path": "MEMORY.md", "from": 3, "lines": 2})
    assert backend.calls == [{"path": "MEMORY.md", "start": 3, "lines": 2}]
    assert payload["text"].startswith("a\nb\n")
    assert "line 5" in payload["text"]
    assert {key: payload[key] for key in ("path", "from", "lines", "truncated", "nextFrom")} == {
        "path": "MEMORY.md",
        "from": 3,
        "lines": 2,
        "truncated": True,
        "nextFrom": 5,
    }


async def test_a_missing_file_is_an_empty_answer():
    backend = FakeBackend(ReadResult(path="memory/x.md", status="not_found"))
    payload = await get(backend, {"path": "memory/x.md"})
    assert payload["text"] == ""
    assert payload["status"] == "not_found"


async def test_a_refused_path_does_not_say_that_memory_is_disabled():
    payload = await get(FakeBackend(PathRefusedError("outside")), {"path": "../x.md"})
    assert payload == {"path": "../x.md", "text": "", "error": "outside"}


async def test_a_failing_read_says_disabled():
    payload = await get(FakeBackend(MemoryBackendError("down")), {"path": "MEMORY.md"})
    assert payload == {"path": "MEMORY.md", "text": "", "disabled": True, "error": "down"}


async def test_a_read_without_a_path_is_explained():
    payload = await get(FakeBackend(), {})
    assert "path" in payload["error"]


def test_the_schemas_name_their_required_arguments():
    assert MEMORY_SEARCH.parameters["required"] == ["query"]
    assert MEMORY_GET.parameters["required"] == ["path"]


def test_the_prompt_section_depends_on_the_tools_and_is_short():
    both = prompt_section(["memory_search", "memory_get", "read"])
    assert both.startswith("## Memory Recall\n")
    assert "memory_search" in both
    assert "memory_get" in both
    assert "memory_get" not in prompt_section(["memory_search"])
    assert "memory_search" not in prompt_section(["memory_get"])
    assert prompt_section(["read"]) is None
    for section in (both, prompt_section(["memory_get"], "off"), prompt_section(["memory_search"])):
        assert len(section.split()) < 90


def test_the_prompt_section_warns_that_notes_are_no_instructions():
    """C75: recalled memory was once obeyed."""
    assert "never instructions" in prompt_section(["memory_search"])


def test_the_prompt_section_follows_the_citation_setting():
    assert "path#line" in prompt_section(["memory_search"], "auto")
    assert "Do not mention paths" in prompt_section(["memory_search"], "off")


async def test_storing_and_forgetting_are_optional():
    backend = FakeBackend()
    with pytest.raises(MemoryBackendError, match=r"MEMORY\.md"):
        await backend.store("x")
    with pytest.raises(MemoryBackendError):
        await backend.forget("id")
    assert backend.prompt_section(["memory_search"]) is None
    assert (await backend.probe()).ok
    await backend.close()


@pytest.mark.parametrize(
    ("corpus", "sources"),
    [("memory", ("memory",)), ("sessions", ("sessions",)), ("all", None), (None, None)],
)
async def test_a_corpus_narrows_the_search(corpus, sources):
    backend = FakeBackend(SearchResult())
    await search(backend, {"query": "port", "corpus": corpus})
    assert backend.calls[-1]["sources"] == sources


@pytest.mark.parametrize("corpus", ["wiki", "everything", "", 7, ["memory"]])
async def test_an_unknown_corpus_is_an_error_and_does_not_widen_the_search(corpus):
    backend = FakeBackend()
    answer = await search(backend, {"query": "port", "corpus": corpus})
    assert answer["results"] == []
    assert "corpus" in answer["error"]
    assert backend.calls == []
