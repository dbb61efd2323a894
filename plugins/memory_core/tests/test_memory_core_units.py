"""What is embedded for a passage, and which passages beside the best are ranked with them."""

from __future__ import annotations

from hermitcrab.memory.files import Passage
from hermitcrab.memory.ranking.places import Place, StoredPassage
from hermitcrab.memory.ranking.snippets import MAX_CHARACTERS, snippet
from hermitcrab.memory.ranking.units import embedding_texts
from hermitcrab_memory_core.ranking import Matches, beside, keyword_scores


def test_short_passages_are_embedded_with_the_lines_beside_them():
    passages = [Passage(1, 1, "one"), Passage(2, 2, "two"), Passage(4, 4, "four")]
    assert embedding_texts(passages) == ["one\ntwo", "one\ntwo", "four"]


def test_a_long_passage_is_embedded_by_itself():
    long = "x" * 301
    passages = [Passage(1, 1, "one"), Passage(2, 2, long), Passage(3, 3, "three")]
    assert embedding_texts(passages) == ["one", long, "three"]
    assert embedding_texts([]) == []


def test_a_passage_without_a_word_is_ranked_between_two_that_have_one():
    places = {number: Place(number, "a.md", number, number) for number in (1, 2, 3)}
    matches = [Matches(100, 2, {1: 3.0, 3: 3.0})]
    assert beside({each: places[each] for each in (1, 3)}, matches) == {0, 2, 4}
    assert keyword_scores(places, matches, {}, []).keys() == {1, 2, 3}


def test_less_is_lent_beyond_a_blank_line():
    near = {1: Place(1, "a.md", 1, 1), 2: Place(2, "a.md", 2, 2)}
    far = {1: Place(1, "a.md", 1, 1), 2: Place(2, "a.md", 3, 3)}
    matches = [Matches(100, 1, {1: 3.0})]
    assert 0 < keyword_scores(far, matches, {}, [])[2] < keyword_scores(near, matches, {}, [])[2]


def test_a_snippet_stays_within_a_paragraph_unless_it_would_say_little():
    long = "a sentence that is long enough to say something by itself"
    parted = [StoredPassage(n, "a.md", 2 * n, 2 * n, f"{long} {n}") for n in (1, 2, 3)]
    assert snippet(2, parted).text == f"{long} 2"
    heading = StoredPassage(1, "a.md", 2, 2, "# Port")
    part = snippet(1, [heading, *parted[1:]])
    assert part.text == f"# Port\n\n{long} 2"
    assert (part.start_line, part.end_line) == (2, 4)


def test_a_snippet_never_has_more_than_700_characters():
    around = [StoredPassage(n, "a.md", n, n, "x" * 390) for n in (1, 2, 3, 4)]
    assert len(snippet(2, around).text) <= MAX_CHARACTERS
