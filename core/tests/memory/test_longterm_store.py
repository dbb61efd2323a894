"""The values of the contract: filters, orders, settings, and memories as lines of JSON (memory 7.6, 9.4)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import ConfigError, MemoryBackendError
from hermitcrab.memory import MemoryBackend
from hermitcrab.memory.longterm import (
    LongTermSettings,
    Memory,
    MemoryFilter,
    MemoryOrder,
    category_of,
    checked_scope,
    is_memory_id,
    new_memory_id,
    source_of,
)
from hermitcrab.memory.longterm.remembering import says_the_same
from hermitcrab.memory.longterm.transfer import all_memories, memory_data, read_memories, take_in
from hermitcrab.plugins.plugin_config import read_plugin_config
from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore

ONE = Memory(
    id="0b9f6a52-6f0e-4f6c-9d59-7b7a3c1c2d10",
    text="it's 50% walnut",
    category="fact",
    importance=0.5,
    created_at_ms=1000,
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("category = 'fact'", True),
        ('category="fact"', True),
        ("category != 'fact'", False),
        ("category <> 'other'", True),
        ("importance >= 0.5", True),
        ("importance > 0.5", False),
        ("importance < 1", True),
        ("createdAt <= 1000", True),
        ("createdat = 1000", True),
        ("text = 'it''s 50% walnut'", True),
        ("text LIKE '%walnut'", True),
        ("text like 'it_s%'", True),
        ("text LIKE '%WALNUT'", False),
        ("text LIKE 'walnut'", False),
        ("id > '0a'", True),
    ],
)
def test_a_filter_is_one_comparison(text, holds):
    assert MemoryFilter.parse(text).matches(ONE) is holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "category",
        "category = fact",
        "category = 'fact",
        "category = 'a' OR 1 = 1",
        "category = 'a' AND importance > 0",
        "text = 'a'; DROP TABLE memories",
        "importance = 'high'",
        "importance = 1e9",
        "importance LIKE '%'",
        "vector = 1",
        "agentId = 'main'",
        "1 = 1",
        "text ~ 'a'",
        f"text = '{'a' * 200}'",
    ],
)
def test_what_is_not_exactly_one_comparison_is_refused(text):
    with pytest.raises(MemoryBackendError):
        MemoryFilter.parse(text)


@given(st.text(max_size=60))
def test_any_text_in_quotes_compares_with_itself(text):
    quoted = text.replace("'", "''")
    found = MemoryFilter.parse(f"text = '{quoted}'")
    assert found.value == text
    assert found.matches(Memory(id=new_memory_id(), text=text, created_at_ms=0))


@given(st.text(max_size=220))
def test_any_filter_is_read_or_refused(text):
    try:
        found = MemoryFilter.parse(text)
    except MemoryBackendError:
        return
    assert found.matches(ONE) in (True, False)


def test_an_order_is_a_column_and_a_direction():
    rows = [Memory(id=f"{n}", text="x", created_at_ms=n % 2) for n in range(4)]
    newest = MemoryOrder()
    assert [row.id for row in newest.apply(rows)] == ["1", "3", "0", "2"]
    assert [row.id for row in MemoryOrder.parse("createdAt").apply(rows)] == ["0", "2", "1", "3"]
    assert MemoryOrder.parse("importance:desc") == MemoryOrder("importance", descending=True)
    for wrong in ("vector", "id:up", ""):
        with pytest.raises(MemoryBackendError):
            MemoryOrder.parse(wrong)


def test_ids_and_scopes_have_their_shapes():
    assert is_memory_id(new_memory_id())
    assert not any(is_memory_id(each) for each in ("", "0b9f6a52", f"{ONE.id} ", None, 5))
    assert checked_scope("work-1_a") == "work-1_a"
    for wrong in ("a b", "a'", "a" * 65, "é", "a\n"):
        with pytest.raises(MemoryBackendError):
            checked_scope(wrong)
    assert (category_of("fact"), category_of("dessert"), category_of(None)) == (
        "fact",
        "other",
        "other",
    )
    assert (source_of("tool"), source_of("gossip")) == ("tool", "import")


def test_settings_are_read_from_yaml_and_have_limits():
    given_keys = {
        "autoRecall": False,
        "autoCapture": True,
        "captureMaxChars": 100,
        "customTriggers": ["NB", "merke"],
        "recallMinScore": 0.5,
    }
    settings = read_plugin_config("memory-x", given_keys, LongTermSettings)
    assert settings == LongTermSettings(
        auto_recall=False,
        auto_capture=True,
        capture_max_chars=100,
        custom_triggers=("NB", "merke"),
        recall_min_score=0.5,
    )
    assert (LongTermSettings().auto_recall, LongTermSettings().auto_capture) == (True, False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("captureMaxChars", 99),
        ("captureMaxChars", 10_001),
        ("recallMaxChars", 5),
        ("recallMinScore", 1.1),
        ("recallResultCap", 0),
        ("recallResultCap", 51),
        ("autoRecallOverfetch", 201),
        ("customTriggers", ["x"] * 51),
        ("customTriggers", ["x" * 101]),
        ("customTriggers", [" "]),
        ("dreaming", {}),
    ],
)
def test_values_out_of_range_and_unknown_keys_are_refused(key, value):
    with pytest.raises(ConfigError, match=key):
        read_plugin_config("memory-x", {key: value}, LongTermSettings)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("I like tea.", "I like tea", True),
        ("The port is 8080.", "The port is 8081.", False),
        ("I eat meat.", "I don't eat meat.", False),
        ("我喜欢绿茶", "我不喜欢绿茶", False),
        ("緑茶が好きです", "緑茶が嫌いです", False),
        ("On 4 May, at 5", "At 5, on 4 May", True),
    ],
)
def test_numbers_and_denials_tell_texts_apart_that_vectors_do_not(one, other, same):
    assert says_the_same(one, other) is same


@pytest.fixture
def store(tmp_path):
    return JsonLongTermStore(tmp_path / "a.json", HashedEmbeddings())


@pytest.fixture
def other_store(tmp_path):
    return JsonLongTermStore(tmp_path / "b.json", HashedEmbeddings())


async def test_memories_move_from_store_to_store_whole(store, other_store):
    for number in range(4):
        await store.add(f"m {number}")
    await store.add("in a scope", scope="work", category="fact", importance=0.1, source="tool")
    lines = [json.dumps(memory_data(each)) async for each in all_memories(store)]
    read = read_memories(lines, now_ms=7)
    assert read.problems == ()
    seen = []
    report = await take_in(
        other_store, read.memories, progress=lambda done, total, label: seen.append((done, total))
    )
    assert (report.added, report.replaced, report.unchanged) == (5, 0, 0)
    assert seen[-1] == (5, 5)
    assert await other_store.listed(limit=99) == await store.listed(limit=99)


async def test_taking_in_again_changes_nothing_and_goes_on_where_it_broke_off(store, other_store):
    for name in ("walnut", "cherry", "quince"):
        await store.add(name)
    memories = [each async for each in all_memories(store)]
    await take_in(other_store, memories[:2])
    report = await take_in(other_store, memories)
    assert (report.added, report.unchanged, report.total) == (1, 2, 3)
    changed = [Memory(id=memories[0].id, text="medlar", created_at_ms=5)]
    assert (await take_in(other_store, changed)).replaced == 1
    assert await other_store.count() == 3


def test_lines_that_hold_no_memory_are_named():
    lines = [
        '{"text": "tea"}',
        "",
        "{broken",
        "[]",
        '{"text": " "}',
        '{"text": "a", "scope": "b c"}',
        '{"text": "x", "id": "old-id", "importance": 7, "createdAt": "?", "category": "?"}',
    ]
    read = read_memories(lines, now_ms=7)
    assert [each.text for each in read.memories] == ["tea", "x"]
    assert [problem.split(":")[0] for problem in read.problems] == [
        "line 3",
        "line 4",
        "line 5",
        "line 6",
    ]
    last = read.memories[-1]
    assert (last.importance, last.created_at_ms, last.category) == (1.0, 7, "other")
    assert (last.source, is_memory_id(last.id)) == ("import", True)
    assert read_memories(lines, now_ms=9).memories[-1].id == last.id


async def test_pages_see_each_memory_once(tmp_path):
    class Paged(JsonLongTermStore):
        async def listed(self, *, limit, offset=0, order_by=None, where=None):
            rows = [Memory(id=f"{n:04}", text="x", created_at_ms=0) for n in range(1000)]
            return tuple(rows[offset : offset + limit])

    store = Paged(tmp_path / "x.json", HashedEmbeddings())
    ids = [each.id async for each in all_memories(store)]
    assert ids == sorted(set(ids))
    assert len(ids) == 1000


class Backend(MemoryBackend):
    async def search(self, query, **how):
        raise NotImplementedError

    async def read(self, path, **how):
        raise NotImplementedError

    async def sync(self, reason, **how):
        raise NotImplementedError

    async def status(self):
        raise NotImplementedError


async def test_a_backend_stores_and_forgets_in_its_long_term_store(store):
    backend = Backend()
    with pytest.raises(MemoryBackendError, match="does not store"):
        await backend.store("tea")
    with pytest.raises(MemoryBackendError, match="does not forget"):
        await backend.forget(ONE.id)
    backend.long_term = store
    memory_id = await backend.store("tea", category="preference", importance=0.9)
    memory = await store.get(memory_id)
    assert (memory.text, memory.category, memory.source) == ("tea", "preference", "tool")
    assert await backend.forget(memory_id)
    assert not await backend.forget(memory_id)
