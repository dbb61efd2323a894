"""Joining keywords, vectors, dates and age."""

from __future__ import annotations

import math
from datetime import date

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.ranking.dates import named_dates
from hermitcrab.memory.ranking.fusion import Fused, FusionSettings, Unit, fuse
from hermitcrab.memory.ranking.places import Place

TODAY = date(2026, 3, 31)
SETTINGS = FusionSettings(vector_weight=0.5, text_weight=0.5)


def unit(number: int, keyword: float = 0.0, vector: float | None = None, **more: date) -> Unit:
    place = Place(number, "MEMORY.md", number, number)
    return Unit(place=place, keyword=keyword, vector=vector, day=more.get("day"))


def order(fused: list[Fused]) -> list[int]:
    return [item.place.id for item in fused]


units = st.lists(
    st.tuples(st.floats(0, 1000), st.none() | st.floats(-1, 1)), min_size=1, max_size=20
).map(lambda pairs: [unit(number, *pair) for number, pair in enumerate(pairs)])


@given(units, st.floats(0, 1), st.floats(0, 1), st.none() | st.floats(0, 1))
def test_scores_lie_between_zero_and_one_and_fall(
    candidates: list[Unit], text: float, vector: float, floor: float | None
):
    settings = FusionSettings(vector_weight=vector, text_weight=text, min_score=floor)
    scores = [item.score for item in fuse(candidates, settings, today=TODAY)]
    assert all(0 <= score <= 1 and math.isfinite(score) for score in scores)
    assert scores == sorted(scores, reverse=True)


@given(units, st.floats(0, 1))
def test_a_unit_with_a_term_of_the_query_never_falls_under_a_threshold(
    candidates: list[Unit], floor: float
):
    """Memory pitfall 1: 0.3 times a perfect keyword hit is below 0.35."""
    kept = fuse(candidates, evolve(SETTINGS, min_score=floor), today=TODAY)
    top = max(each.keyword for each in candidates)
    exact = {each.place.id for each in candidates if top and each.keyword / top > 0}
    assert exact <= set(order(kept))


def test_a_unit_without_a_term_has_to_reach_the_threshold():
    candidates = [unit(1, vector=0.9), unit(2, vector=0.1)]
    assert order(fuse(candidates, evolve(SETTINGS, min_score=0.5), today=TODAY)) == [1]


def test_both_sides_together_beat_either_alone():
    candidates = [unit(1, keyword=9.0, vector=0.1), unit(2, vector=0.8), unit(3, 8.0, 0.7)]
    assert order(fuse(candidates, SETTINGS, today=TODAY))[0] == 3


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        (FusionSettings(vector_weight=0.0), 1),
        (FusionSettings(text_weight=0.0), 2),
        (FusionSettings(vector_weight=1.0, text_weight=0.0), 2),
    ],
)
def test_a_weight_of_zero_leaves_the_order_to_the_other_side(settings: FusionSettings, first: int):
    candidates = [unit(1, keyword=9.0, vector=0.1), unit(2, keyword=1.0, vector=0.8)]
    assert order(fuse(candidates, settings, today=TODAY))[0] == first


def test_without_vectors_the_order_is_that_of_keywords():
    candidates = [unit(1, 1.0), unit(2, 3.0), unit(3, 2.0)]
    result = fuse(candidates, SETTINGS, today=TODAY)
    assert order(result) == [2, 3, 1]
    assert result[0].score == pytest.approx(0.75)


def test_vectors_weigh_more_where_the_query_is_cjk_unless_weights_are_set():
    default = FusionSettings()
    assert default.suited("宠物叫什么名字").shares[1] > default.suited("the pet's name").shares[1]
    assert SETTINGS.suited("宠物叫什么名字") == SETTINGS


def test_the_pool_is_a_matter_of_the_multiplier_alone():
    """#134604: with few results asked for, another one came first."""
    assert FusionSettings().pool == 200
    assert FusionSettings(candidate_multiplier=20).pool == 1000


def test_a_named_date_lifts_notes_of_that_date():
    candidates = [unit(1, 10.0, day=date(2023, 5, 1)), unit(2, 9.0, day=date(2023, 5, 8))]
    assert order(fuse(candidates, SETTINGS, today=TODAY)) == [1, 2]
    named = named_dates("What happened on 8 May 2023?")
    assert order(fuse(candidates, SETTINGS, today=TODAY, named=named)) == [2, 1]


def test_decay_can_be_turned_off():
    candidates = [unit(1, 10.0, day=date(2000, 1, 1)), unit(2, 9.9, day=TODAY)]
    assert order(fuse(candidates, SETTINGS, today=TODAY)) == [2, 1]
    still = evolve(SETTINGS, decay_enabled=False)
    assert order(fuse(candidates, still, today=TODAY)) == [1, 2]


def test_diversity_puts_what_repeats_further_down():
    texts = {1: "the port is 8443", 2: "the port is 8443", 3: "the staging key"}
    candidates = [unit(1, 10.0), unit(2, 9.5), unit(3, 9.0)]
    diverse = evolve(SETTINGS, mmr_enabled=True, mmr_lambda=0.5)
    result = fuse(candidates, diverse, today=TODAY, texts=lambda ids: texts)
    assert order(result) == [1, 3, 2]
    assert order(fuse(candidates, SETTINGS, today=TODAY, texts=lambda ids: texts)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "day", "covered"),
    [
        ("What did we do on 8 May 2023?", date(2023, 5, 8), True),
        ("What did we do on 8 May 2023?", date(2023, 5, 9), False),
        ("on May 8th", date(2021, 5, 8), True),
        ("on May 8, 2023", date(2022, 5, 8), False),
        ("the plan of September 2023", date(2023, 9, 30), True),
        ("the plan of September 2023", date(2022, 9, 30), False),
        ("in January", date(2020, 1, 3), True),
        ("the note of 2023-05-08", date(2023, 5, 8), True),
        ("2023年5月8日说了什么", date(2023, 5, 8), True),
        ("5月8日说了什么", date(2024, 5, 8), True),
        ("2023년 5월에", date(2023, 5, 20), True),
        ("２０２３年５月", date(2023, 5, 20), True),
    ],
)
def test_dates_are_read_as_they_are_written(query: str, day: date, covered: bool):
    named = named_dates(query)
    assert named is not None
    assert named(day) is covered


@pytest.mark.parametrize(
    "query", ["may I go", "you may march", "version 1.2.3", "13月", "port 8443"]
)
def test_what_is_no_date_is_not_taken_for_one(query: str):
    assert named_dates(query) is None
