"""What the thresholds of single memories mean, measured with the embeddings that come along (pitfall 44)."""

from __future__ import annotations

import pytest

from hermitcrab.memory.longterm import LongTermSettings
from hermitcrab.memory.longterm.remembering import DUPLICATE_MIN_SCORE, says_the_same
from hermitcrab.memory.longterm.tools import (
    FORGET_MIN_SCORE,
    FORGET_SURE_SCORE,
    RECALL_MIN_SCORE,
)

SAME = [
    ("I prefer dark roast coffee in the morning.", "I prefer dark roast coffee in the morning"),
    ("My name is Ada Brennick.", "my name is Ada Brennick"),
    ("Remember that the database listens on 5433.", "Remember: the database listens on 5433"),
    ("I really like green tea.", "I like green tea."),
    ("We decided to use PostgreSQL for billing.", "We decided that billing uses PostgreSQL."),
    ("我喜欢喝绿茶。", "我很喜欢喝绿茶"),
    ("緑茶が好きです。", "私は緑茶が好きです"),
]
DIFFERENT = [
    ("The staging port is 8080.", "The staging port is 8081."),
    ("I like coffee with milk.", "I don't like coffee with milk."),
    ("I prefer green tea in the afternoon.", "I prefer black tea in the afternoon."),
    ("My sister lives in Lisbon.", "My sister lives in Porto."),
    ("We decided to deploy on Fridays.", "We decided never to deploy on Fridays."),
    ("My birthday is on 4 May.", "My birthday is on 5 May."),
    ("我喜欢喝绿茶。", "我不喜欢喝绿茶。"),
    ("我的猫叫小白。", "我的狗叫小黑。"),
    ("我住在北京。", "我住在上海。"),
]
ANSWERS = [
    ("Which port does the staging database use?", "The staging database listens on port 5433."),
    ("Who leads billing?", "Ana leads the billing team."),
    ("What is my pet called?", "My cat is called Miso."),
    ("where does my sister live", "My sister Vera moved to Lisbon."),
    ("我该喝什么?", "我喜欢喝绿茶。"),
    ("我的宠物叫什么名字?", "我的猫叫小白。"),
    ("数据库迁移是什么时候?", "数据库迁移定在周五晚上。"),
]
NO_ANSWERS = [
    ("Which port does the staging database use?", "I prefer dark roast coffee in the morning."),
    ("Please translate this sentence to German.", "My sister Vera moved to Lisbon."),
    ("What is the weather tomorrow?", "Ana leads the billing team."),
    ("Fix the failing unit test in parser.py", "I'm allergic to peanuts."),
    ("Write a haiku about autumn", "The staging database listens on port 5433."),
    ("How do I sort a list in Python?", "My cat is called Miso."),
    ("我该喝什么?", "数据库迁移定在周五晚上。"),
    ("帮我写一首诗", "我的猫叫小白。"),
]


@pytest.fixture
def cosine():
    local = pytest.importorskip("hermitcrab_embeddings_local.provider", reason="not installed")
    provider = local.LocalEmbeddings()

    async def of(query, text, *, as_query=True):
        (vector,) = await provider.embed_documents([text])
        other = (
            await provider.embed_query(query)
            if as_query
            else (await provider.embed_documents([query]))[0]
        )
        return sum(a * b for a, b in zip(vector, other, strict=True))

    return of


async def test_duplicates_are_those_that_say_the_same(cosine):
    """Vectors alone would take port 8081 for port 8080 (cosine 0.974)."""
    threshold = LongTermSettings().duplicate_min_score
    assert threshold == DUPLICATE_MIN_SCORE

    async def is_duplicate(one, other):
        near = await cosine(one, other, as_query=False) >= threshold
        return near and says_the_same(one, other)

    assert [pair for pair in SAME if not await is_duplicate(*pair)] == []
    assert [pair for pair in DIFFERENT if await is_duplicate(*pair)] == []


async def test_recall_finds_answers_and_leaves_out_what_is_beside_the_point(cosine):
    assert LongTermSettings().recall_min_score == RECALL_MIN_SCORE
    assert [pair for pair in ANSWERS if await cosine(*pair) < RECALL_MIN_SCORE] == []
    assert [pair for pair in NO_ANSWERS if await cosine(*pair) >= RECALL_MIN_SCORE] == []


async def test_only_a_clear_match_is_forgotten_without_asking(cosine):
    assert await cosine("cat called Miso", "My cat is called Miso.") >= FORGET_SURE_SCORE
    for query, text in (
        ("my phone number", "My phone number is +49 151 23456789."),
        ("sister lives in Lisbon", "My sister Vera moved to Lisbon."),
        ("我的猫", "我的猫叫小白。"),
    ):
        assert FORGET_MIN_SCORE <= await cosine(query, text) < FORGET_SURE_SCORE
