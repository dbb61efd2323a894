"""``hermitcrab memory``."""

from __future__ import annotations

import pytest


@pytest.fixture
def remembering(cli):
    """A home whose memory knows one thing."""
    notes = cli.home / "workspace" / "memory" / "2026-10-05.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("# Harbour\n\nThe harbour code is 4711.\nAsk Brennick.\n", encoding="utf-8")
    return cli


def test_index_tells_what_it_did_and_force_does_it_again(remembering):
    assert remembering("memory", "index").stdout.startswith("1 file indexed, 0 unchanged")
    again = remembering.json("memory", "index")
    assert (again["indexed"], again["unchanged"]) == (0, 1)
    assert remembering.json("memory", "index", "--force")["indexed"] == 1


def test_search_as_json(remembering):
    found = remembering.json("memory", "search", "harbour code")
    assert set(found) == {"results", "mode", "degraded", "reason"}
    assert found["degraded"] is False
    (hit,) = found["results"]
    assert set(hit) == {"path", "startLine", "endLine", "score", "snippet", "source"}
    assert hit["path"] == "memory/2026-10-05.md"
    assert "4711" in hit["snippet"]


def test_search_as_text_shows_where_and_what(remembering):
    result = remembering("memory", "search", "harbour")
    assert "4711" in result.stdout
    assert "memory/2026-10-05.md:1-" in result.stdout


def test_a_search_that_finds_nothing_says_so_and_is_no_error(remembering):

    assert "nothing found" in remembering("memory", "search", "xyzzy").stderr
    assert remembering.json("memory", "search", "xyzzy")["results"] == []


def test_explain_says_why_a_result_ranks_where_it_does(remembering):
    (hit,) = remembering.json("memory", "explain", "harbour", "--max-results", "1")["results"]
    assert hit["path"] == "memory/2026-10-05.md"
    assert hit["keyword"] == 1
    assert 0.9 <= hit["decay"] <= 1
    assert 0 < hit["fusion"] <= 1
    printed = remembering("memory", "explain", "harbour", "--max-results", "1").stdout
    assert "memory/2026-10-05.md" in printed
    assert "keyword 1.00" in printed
    assert "decay" in printed


def test_explain_without_any_hit_says_so(remembering):
    assert "nothing found" in remembering("memory", "explain", "   ").stderr


def test_min_score_and_max_results_narrow_the_search(remembering):
    assert remembering.json("memory", "search", "harbour", "--min-score", "1")["results"] == []
    assert (
        len(remembering.json("memory", "search", "harbour", "--max-results", "1")["results"]) == 1
    )


def test_get_prints_lines(remembering):
    path = "memory/2026-10-05.md"
    assert remembering("memory", "get", path).stdout.startswith("# Harbour\n")
    part = remembering("memory", "get", path, "--from", "3", "--lines", "1")
    assert part.stdout == "The harbour code is 4711.\n"
    assert remembering.json("memory", "get", path, "--from", "4")["text"].strip() == "Ask Brennick."


def test_get_refuses_paths_outside_memory_and_names_missing_files(remembering):
    """C96."""
    assert "error: " in remembering("memory", "get", "../../etc/passwd", code=1).stderr
    assert "no such memory file" in remembering("memory", "get", "memory/none.md", code=1).stderr


def test_status_shows_the_index(remembering):
    remembering("memory", "index")
    status = remembering.json("memory", "status")
    assert status["backend"] == "memory-core"
    assert (status["files"], status["chunks"]) == (1, 1)
    assert "memory-core" in remembering("memory", "status").stdout


def test_agents_have_memories_of_their_own(remembering):
    assert remembering.json("memory", "search", "harbour", "--agent", "ops")["results"] == []


@pytest.mark.parametrize(
    ("slot", "reason"),
    [("none", "memory is off"), ("memory-cor", "memory backend 'memory-cor' is not registered")],
)
def test_without_a_memory_the_reason_is_an_error(cli, slot, reason):
    cli.configure(f"plugins:\n  slots:\n    memory: {slot}\n")
    for command in (["search", "x"], ["index"], ["status"], ["get", "MEMORY.md"]):
        assert reason in cli("memory", *command, code=1).stderr


#: The fields of memory 2.3; ``fallback`` is there only while something takes another's place.
STATUS_FIELDS = {
    "backend",
    "provider",
    "model",
    "requestedProvider",
    "files",
    "chunks",
    "dirty",
    "workspaceDir",
    "dbPath",
    "extraPaths",
    "sources",
    "sourceCounts",
    "cache",
    "fts",
    "vector",
    "batch",
    "custom",
}


def test_status_has_every_field_before_and_after_the_first_sync(cli):
    (cli.home / "workspace").mkdir(parents=True)
    (cli.home / "workspace" / "MEMORY.md").write_text("The port is 8443.\n", encoding="utf-8")
    before = cli.json("memory", "status")
    cli("memory", "index")
    after = cli.json("memory", "status")
    for status in (before, after):
        assert set(status) >= STATUS_FIELDS
        assert "fallback" not in status
        assert status["batch"] == {"enabled": False}
        assert status["sources"] == ["memory"]
    assert before["sourceCounts"] == [{"source": "memory", "files": 0, "chunks": 0}]
    assert after["sourceCounts"] == [{"source": "memory", "files": 1, "chunks": after["chunks"]}]
    assert after["workspaceDir"] == str(cli.home / "workspace")
    assert after["fts"]["available"] is True
    assert after["custom"]["searchMode"] in ("hybrid", "fts-only")


def test_status_says_what_keeps_vectors_away(cli):
    cli.configure("agents:\n  defaults:\n    memorySearch:\n      provider: none\n")
    status = cli.json("memory", "status")
    assert (status["requestedProvider"], status["provider"]) == ("none", "none")
    assert status["vector"]["enabled"] is False
    assert status["custom"]["searchMode"] == "fts-only"
