"""What a search returns, however many results are asked for and whatever the notes look like."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.memory import MemoryContext
from hermitcrab.memory.ranking.fusion import Fused
from hermitcrab.memory.ranking.places import Place, StoredPassage
from hermitcrab.memory.ranking.snippets import choose, snippet
from hermitcrab_memory_core.backend import MemoryCore

WORDS = ("kiln", "glaze", "clay", "wheel", "Mara", "shelf", "茶碗", "窯")
QUERIES = ("kiln", "clay on the wheel", "Mara's shelf?", "茶碗", "glaze kiln clay wheel shelf")

sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
lines = st.one_of(
    st.just(""),
    sentences,
    sentences.map("- {}".format),
    sentences.map("## {}".format),
    sentences.map("Mara: {}?".format),
    sentences.map(lambda text: text * 30),
)
notes = st.lists(lines, min_size=1, max_size=40).map("\n".join)


def opened(folder: Path, texts: list[str]) -> MemoryCore:
    workspace = folder / "workspace"
    (workspace / "memory").mkdir(parents=True)
    for number, text in enumerate(texts):
        (workspace / "memory" / f"{number}.md").write_text(text, encoding="utf-8")
    return MemoryCore(
        MemoryContext(
            agent_id="main",
            workspace=workspace,
            home=folder / "home",
            index_path=folder / "home" / "memory.sqlite",
            logger=logging.getLogger("test"),
        )
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(texts=st.lists(notes, min_size=1, max_size=3), query=st.sampled_from(QUERIES))
async def test_every_hit_is_the_text_of_its_lines_and_fewer_results_are_the_first_of_more(
    tmp_path_factory, texts: list[str], query: str
):
    """#134604: with few results asked for, another one came first."""
    folder = tmp_path_factory.mktemp("hits")
    memory = opened(folder, texts)
    try:
        most = (await memory.search(query, max_results=50)).hits
        for count in (1, 3, 6):
            assert (await memory.search(query, max_results=count)).hits == most[:count]
    finally:
        await memory.close()
    shown: list[tuple[str, int]] = []
    for hit in most:
        text = (folder / "workspace" / hit.path).read_text(encoding="utf-8").split("\n")
        assert _squeezed(hit.snippet) in _squeezed(
            "\n".join(text[hit.start_line - 1 : hit.end_line])
        )
        assert len(hit.snippet) <= 700
        first, last = hit.snippet.split("\n")[0], hit.snippet.split("\n")[-1]
        assert first in text[hit.start_line - 1]
        assert last in text[hit.end_line - 1]
        numbers = range(hit.start_line, hit.end_line + 1)
        shown += [(hit.path, number) for number in numbers if 0 < len(text[number - 1]) <= 400]
    # Pieces of a longer line are hits of their own.
    assert len(shown) == len(set(shown))


def _squeezed(text: str) -> str:
    """Several blank lines are shown as one."""
    return "\n".join(line for line in text.split("\n") if line.strip())


def ranked(ids: list[int]) -> list[Fused]:
    return [Fused(place=Place(number, "a.md", number, number), score=1 / number) for number in ids]


def passages(number: int) -> list[StoredPassage]:
    return [
        StoredPassage(each, "a.md", each, each, f"line {each}")
        for each in range(number - 1, number + 3)
    ]


def test_the_first_three_hits_show_what_stands_beside_them_and_later_ones_themselves():
    hits = choose(ranked([10, 20, 30, 40, 50]), passages, 5)
    assert [hit.end_line - hit.start_line + 1 for hit in hits] == [4, 4, 4, 1, 1]
    assert hits[3].snippet == "line 40"


@pytest.mark.parametrize(
    "asked", ["Where is it?", "去哪里？", "Where (and when)?)", 'He said "why?"']
)
def test_a_question_is_shown_with_what_answers_it(asked: str):
    around = [
        StoredPassage(1, "a.md", 1, 1, "before"),
        StoredPassage(2, "a.md", 2, 2, asked),
        StoredPassage(3, "a.md", 3, 3, "In the shed."),
        StoredPassage(4, "a.md", 4, 4, "after"),
    ]
    assert snippet(2, around, with_context=False).text == f"{asked}\nIn the shed."
    assert snippet(3, around, with_context=False).text == "In the shed."
