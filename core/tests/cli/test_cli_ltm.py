"""``hermitcrab ltm`` (memory 7.6)."""

from __future__ import annotations

import json

import pytest

from hermitcrab.memory.longterm.counting import CaptureCounts, add_counts

SOURCE = """
from hermitcrab import hookimpl
from hermitcrab.memory import MemoryBackend, MemoryStatus, ReadResult, SearchResult, SyncReport
from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore


class Shelf(MemoryBackend):
    def __init__(self, context):
        model = "words"
        if (context.home / "model").exists():
            model = (context.home / "model").read_text()
        file = context.home / "agents" / context.agent_id / "shelf.json"
        self.long_term = JsonLongTermStore(file, HashedEmbeddings(model=model))

    async def search(self, query, **how):
        return SearchResult()

    async def read(self, path, **how):
        return ReadResult(path=path, status="not_found")

    async def sync(self, reason, **how):
        return SyncReport(reason=reason)

    async def status(self):
        return MemoryStatus(backend="shelf")


@hookimpl
def register_memory_backends(registry):
    registry.register("shelf", Shelf)
"""

LINES = [
    {"text": "The user prefers walnut cake.", "category": "preference", "createdAt": 1000},
    {"text": "The staging port is 5433.", "category": "fact", "importance": 0.9, "createdAt": 3000},
    {"text": "Ana decided to drop it.", "category": "decision", "createdAt": 2000},
]


@pytest.fixture
def ltm(cli, distribution):
    """A home whose memory backend keeps single memories."""
    distribution("hermitcrab-shelf", {"hermitcrab.memory": "shelf = hermitcrab_shelf"}, SOURCE)
    cli.configure("plugins:\n  slots:\n    memory: shelf\n")
    return cli


@pytest.fixture
def filled(ltm):
    text = "\n".join(json.dumps(line) for line in LINES)
    assert ltm("ltm", "import", "-", stdin=text).stdout.startswith("3 added, 0 replaced")
    return ltm


def test_a_backend_without_single_memories_names_those_that_have_them(cli):
    for command in (["list"], ["search", "x"], ["query"], ["stats"], ["export"], ["migrate"]):
        error = cli("ltm", *command, code=1).stderr
        assert "'memory-core' keeps no single memories" in error
        assert "memory-lancedb and memory-chroma" in error


def test_list_orders_by_age_where_it_is_asked_to(filled):
    rows = filled.json("ltm", "list", "--order-by-created-at")["memories"]
    assert [row["createdAt"] for row in rows] == [3000, 2000, 1000]
    assert len(filled.json("ltm", "list", "--limit", "2")["memories"]) == 2
    assert "walnut" in filled("ltm", "list").stdout


def test_an_empty_store_says_so(ltm):
    assert "no memories" in ltm("ltm", "list").stderr
    assert ltm.json("ltm", "list") == {"memories": []}
    assert ltm.json("ltm", "stats")["count"] == 0


def test_search_shows_what_fits_best_first(filled):
    found = filled.json("ltm", "search", "which cake?")
    assert found["memories"][0]["text"] == LINES[0]["text"]
    assert found["memories"][0]["score"] > 0.3
    assert (found["mode"], found["degraded"]) == ("hybrid", False)
    assert len(filled.json("ltm", "search", "user staging Ana", "--limit", "1")["memories"]) == 1
    assert "walnut" in filled("ltm", "search", "cake").stdout
    assert "nothing found" in filled("ltm", "search", "xyzzy").stderr


def test_query_filters_orders_and_chooses_columns(filled):
    found = filled.json(
        "ltm", "query", "--filter", "importance < 0.8", "--order-by", "createdAt:desc",
        "--cols", "text,importance",
    )  # fmt: skip
    assert found["memories"] == [
        {"text": LINES[2]["text"], "importance": 0.7},
        {"text": LINES[0]["text"], "importance": 0.7},
    ]
    printed = filled("ltm", "query", "--filter", "category = 'fact'", "--cols", "text").stdout
    assert "5433" in printed
    assert "walnut" not in printed
    assert len(filled.json("ltm", "query", "--limit", "1")["memories"]) == 1


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (["--filter", "vector = 1"], "no column 'vector'", 1),
        (["--filter", "category = 'a' OR 1 = 1"], "one text in quotes", 1),
        (["--filter", f"text = '{'a' * 200}'"], "at most 200 characters", 1),
        (["--order-by", "text:up"], "'up' is not a direction", 1),
        (["--cols", "text,vector"], "no column vector", 2),
    ],
)
def test_a_wrong_query_is_refused_in_one_line(filled, options, words, code):
    error = filled("ltm", "query", *options, code=code).stderr
    assert words in error
    assert error.count("\n") == 1


def test_stats_count_by_category(filled):
    stats = filled.json("ltm", "stats")
    assert stats["count"] == 3
    assert stats["byCategory"] == {"decision": 1, "fact": 1, "preference": 1}
    assert "decision 1, fact 1, preference 1" in filled("ltm", "stats").stdout


def test_stats_tell_what_capture_has_seen_and_why_it_left_it(filled):
    """Pitfall 32: a capture that keeps nothing must not look like one that works."""
    assert "capture" not in filled.json("ltm", "stats")["details"]
    add_counts(filled.home, "main", CaptureCounts(seen=7, captured=1, rejected={"no trigger": 6}))
    capture = filled.json("ltm", "stats")["details"]["capture"]
    assert (capture["seen"], capture["captured"]) == (7, 1)
    assert capture["rejected"] == {"no trigger": 6}
    assert "seen 7, captured 1" in filled("ltm", "stats").stdout
    assert "no trigger 6" in filled("ltm", "stats").stdout


def test_what_is_exported_comes_back_whole_under_its_ids(filled, tmp_path):
    file = tmp_path / "memories.jsonl"
    assert "3 memories written" in filled("ltm", "export", "--output", str(file)).stderr
    before = file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600
    again = filled.json("ltm", "import", str(file))
    assert again == {"added": 0, "replaced": 0, "unchanged": 3, "problems": []}
    moved = filled.json("ltm", "import", str(file), "--agent", "ops")
    assert moved["added"] == 3
    assert filled("ltm", "export", "--agent", "ops").stdout == before


def test_export_keeps_a_file_that_is_there(filled, tmp_path):
    file = tmp_path / "memories.jsonl"
    file.write_text("mine", encoding="utf-8")
    assert "this file exists" in filled("ltm", "export", "--output", str(file), code=1).stderr
    assert file.read_text(encoding="utf-8") == "mine"
    filled("ltm", "export", "--output", str(file), "--force")
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3


def test_lines_that_hold_no_memory_are_left_out_and_named(ltm):
    lines = ["{}", *("?" for _ in range(20)), json.dumps(LINES[0])]
    result = ltm("ltm", "import", "-", stdin="\n".join(lines))
    assert result.stdout.startswith("1 added")
    assert "left out: line 1: 'text' is missing" in result.stderr
    assert "11 more lines" in result.stderr


def test_a_line_without_id_and_time_is_taken_in_once(ltm):
    for expected in ("1 added, 0 replaced, 0 unchanged", "0 added, 0 replaced, 1 unchanged"):
        result = ltm("ltm", "import", "-", stdin='{"text": "The user owns a boat."}')
        assert result.stdout.strip() == expected


def test_agents_have_memories_of_their_own(filled):
    """C80."""
    assert filled.json("ltm", "list", "--agent", "ops")["memories"] == []
    assert filled.json("ltm", "search", "cake", "--agent", "ops")["memories"] == []
    assert filled.json("ltm", "stats", "--agent", "ops")["count"] == 0


def test_migrate_makes_the_vectors_anew_where_the_model_changed(filled):
    assert filled.json("ltm", "migrate")["changed"] is False
    assert "already" in filled("ltm", "migrate").stdout
    (filled.home / "model").write_text("other")
    assert "hermitcrab ltm migrate" in filled("ltm", "search", "cake", code=1).stderr
    assert "another model" in filled("ltm", "stats").stderr
    assert "3 memories embedded again" in filled("ltm", "migrate").stdout
    assert filled.json("ltm", "search", "cake")["memories"]
