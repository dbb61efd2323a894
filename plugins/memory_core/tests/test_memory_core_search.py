"""Searching Markdown notes through memory-core."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.errors import PathRefusedError
from hermitcrab.memory import MemoryContext
from hermitcrab_memory_core.backend import MemoryCore

Notes = Callable[..., Any]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryCore]:
    (tmp_path / "workspace").mkdir()
    backend = MemoryCore(
        MemoryContext(
            agent_id="main",
            workspace=tmp_path / "workspace",
            home=tmp_path / "home",
            index_path=tmp_path / "home" / "agents" / "main" / "memory.sqlite",
            logger=logging.getLogger("test"),
        ),
        clock=lambda: datetime(2026, 3, 31, tzinfo=UTC),
    )
    yield backend
    await backend.close()


@pytest.fixture
def note(tmp_path: Path) -> Notes:
    def write(path: str, text: str) -> None:
        target = tmp_path / "workspace" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    return write


async def test_a_passage_with_both_words_comes_before_many_with_one(memory, note):
    themes = "\n".join(f"- theme number {number} looks nice" for number in range(120))
    selectors = "\n".join(f"- selector {number} of the parser" for number in range(40))
    note("memory/themes.md", f"# Themes\n\n{themes}\n- The theme selector sits in the footer\n")
    note("memory/parser.md", selectors)
    result = await memory.search("theme selector")
    assert "The theme selector sits in the footer" in result.hits[0].snippet
    assert result.hits[0].path == "memory/themes.md"
    assert (result.mode, result.degraded, result.reason) == ("keyword", False, None)


async def test_words_some_lines_apart_still_count_together(memory, note):
    filler = "\n".join(f"- remark {number}" for number in range(4))
    note("memory/a.md", f"- theme colours\n{filler}\n- selector component\n")
    for number in range(10):
        note(f"memory/theme-{number}.md", "- theme colours\n")
    assert (await memory.search("theme selector")).hits[0].path == "memory/a.md"


async def test_a_question_in_natural_language_finds_its_answer(memory, note):
    note(
        "MEMORY.md",
        "# Decisions\n\n- We chose port 5433 for the staging database.\n- Tea, not coffee.\n",
    )
    note("memory/2026-03-01.md", "- Which of the databases do we drop? Did not choose yet.\n")
    note("memory/2026-03-02.md", "- Talked about the port of Hamburg for the holidays.\n")
    result = await memory.search("Which port did we choose for the staging database?")
    assert "5433" in result.hits[0].snippet


async def test_stems_match_other_forms_of_an_english_word(memory, note):
    note("MEMORY.md", "- Deployments are approved by Ana.\n")
    assert (await memory.search("who approves a deployment")).hits


async def test_headings_and_file_names_help_to_find(memory, note):
    note("memory/topics/kubernetes.md", "## Limits\n\n- 512 MiB for each worker\n")
    note("memory/topics/printer.md", "## Limits\n\n- 90 pages for each day\n")
    assert "512" in (await memory.search("kubernetes limits")).hits[0].snippet


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("一起玩成语接龙吧", "成语接龙"),
        ("一緒にしりとりをしよう", "しりとり"),
        ("같이 끝말잇기 하자", "끝말잇기"),
    ],
)
async def test_cjk_runs_are_found_by_any_part(memory, note, text, run):
    """C59, C60: queries of one to four characters."""
    note("memory/games.md", f"# Games\n\n- {text}\n")
    note("memory/other.md", "- 今天天气很好\n")
    for length in (1, 2, 3, 4):
        result = await memory.search(run[:length])
        assert result.hits, run[:length]
        assert run in result.hits[0].snippet


async def test_every_message_with_a_two_character_word_is_found(memory, note):
    """C61: keyword search found none of eight."""
    note("memory/a.md", "".join(f"- 第{number}次设为静默模式\n\n" for number in range(8)))
    hits = (await memory.search("静默", max_results=20)).hits
    assert sum(hit.snippet.count("静默") for hit in hits) == 8


@pytest.mark.parametrize(
    "query",
    [
        "pre-edit",
        "don't",
        "foo:bar",
        '"',
        "*",
        "a AND",
        "",
        "   ",
        "NEAR(a b)",
        "words : port",
        "{port}",
        "-port",
        "port*",
        "^port",
        "(",
        "OR",
        "NOT port",
        "a\x00b",
        "\ud83d",
        "%_",
        "'; DROP TABLE chunks; --",
    ],
)
async def test_syntax_in_a_query_is_only_text(memory, note, query):
    """C62: user text once broke MATCH."""
    note("MEMORY.md", "- the pre-edit hook of foo:bar uses a port; don't touch it\n")
    result = await memory.search(query)
    if query in ("pre-edit", "don't", "foo:bar", "port*", "-port", "^port", "{port}"):
        assert "pre-edit" in result.hits[0].snippet


async def test_a_blank_query_touches_nothing(memory, note, tmp_path):
    note("MEMORY.md", "- x\n")
    for query in ("", " \n", "?!"):
        assert (await memory.search(query)).hits == ()
    assert not (tmp_path / "home").exists()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80
)
@given(query=st.one_of(st.text(max_size=40), st.text('ab "*:-^(){}AND中', max_size=40)))
async def test_any_text_is_a_query(tmp_path_factory, query: str):
    base = tmp_path_factory.getbasetemp() / "any-query"
    (base / "workspace").mkdir(parents=True, exist_ok=True)
    (base / "workspace" / "MEMORY.md").write_text("a b AND 中文 ab", encoding="utf-8")
    backend = MemoryCore(
        MemoryContext(
            agent_id="main",
            workspace=base / "workspace",
            home=base,
            index_path=base / "memory.sqlite",
            logger=logging.getLogger("test"),
        )
    )
    try:
        result = await backend.search(query)
    finally:
        await backend.close()
    assert all(0 < hit.score <= 1 for hit in result.hits)


async def test_a_very_long_query_is_answered(memory, note):
    note("MEMORY.md", "- port 5433\n")
    words = " ".join(f"word{number}" for number in range(5000))
    assert (await memory.search(f"port {words}")).hits


async def test_an_exact_hit_in_a_tiny_collection_has_a_fair_score(memory, note):
    """BM25 gives words that every note has next to nothing (memory 4.2)."""
    note("MEMORY.md", "- port\n")
    [hit] = (await memory.search("port")).hits
    assert 0.4 < hit.score < 1


async def test_keyword_hits_are_cut_by_score_only_on_request(memory, note):
    note("MEMORY.md", "- port 5433\n")
    assert (await memory.search("port of the unknown harbour")).hits
    assert (await memory.search("port", min_score=0.999)).hits == ()


async def test_results_are_limited_and_do_not_repeat_lines(memory, note):
    note("MEMORY.md", "".join(f"- port {number}\n" for number in range(30)))
    hits = (await memory.search("port", max_results=4)).hits
    assert len(hits) == 4
    first_lines = [hit.snippet for hit in hits]
    assert len(set(first_lines)) == 4
    assert (await memory.search("port", max_results=0)).hits == ()


async def test_lines_and_snippet_agree(memory, note):
    text = "# Title\n\nintro\n\n- alpha port 1\n- beta\n\n## Next\n- gamma\n"
    note("memory/a.md", text)
    [hit, *_] = (await memory.search("alpha")).hits
    assert hit.snippet in text
    assert "\n".join(text.split("\n")[hit.start_line - 1 : hit.end_line]) == hit.snippet


async def test_snippets_are_short_and_show_what_matched(memory, note):
    filler = "Nothing of interest happens in this sentence at all. " * 60
    note("memory/long.md", f"{filler}The vault code is kept by Ana. {filler}\n")
    [hit, *_] = (await memory.search("vault code")).hits
    assert len(hit.snippet) <= 700
    assert "vault code is kept by Ana" in hit.snippet


async def test_only_known_sources_are_searched(memory, note):
    note("MEMORY.md", "- port\n")
    assert (await memory.search("port", sources=["memory"])).hits
    assert (await memory.search("port", sources=["sessions"])).hits == ()


async def test_of_two_equal_daily_notes_the_newer_comes_first(memory, note):
    for day in ("2026-01-05", "2026-03-30", "2025-06-01"):
        note(f"memory/{day}.md", "- the printer is broken\n")
    hits = (await memory.search("printer broken")).hits
    assert [hit.path for hit in hits] == [
        "memory/2026-03-30.md",
        "memory/2026-01-05.md",
        "memory/2025-06-01.md",
    ]


async def test_an_old_note_that_matches_better_is_not_buried(memory, note):
    note("memory/2019-01-01.md", "- the wifi password hint is the name of the first cat\n")
    for day in range(10, 30):
        note(f"memory/2026-03-{day}.md", "- talked about the wifi in the office\n")
    assert (await memory.search("wifi password hint")).hits[0].path == "memory/2019-01-01.md"


async def test_reading_goes_through_the_same_walls(memory, note):
    note("memory/a.md", "one\ntwo\nthree\n")
    result = await memory.read("memory/a.md", start=2, lines=1)
    assert (result.text, result.next_start) == ("two", 3)
    assert (await memory.read("memory/none.md")).status == "not_found"
    with pytest.raises(PathRefusedError):
        await memory.read("../home/config.yaml")


async def test_the_prompt_section_is_the_shared_one(memory):
    assert memory.prompt_section(["memory_search"]).startswith("## Memory Recall")
