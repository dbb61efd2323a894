"""``hermitcrab sessions prune``, ``delete`` and ``list --archived``: what is kept of old sessions, and what goes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.sessions.entries import SessionEntries

DAY = 86_400
OLD = "agent:main:telegram:direct:1"


def folder(cli: Any) -> Path:
    place: Path = cli.home / "agents/main/sessions"
    return place


def names(cli: Any) -> list[str]:
    return sorted(
        each.name for each in folder(cli).iterdir() if not each.name.startswith("sessions.sqlite")
    )


def age(cli: Any, key: str, days: float) -> Path:
    """Let a session have been used so many days ago; returns its transcript."""
    table = SessionEntries(folder(cli) / "sessions.sqlite")
    entry = table.get(key)
    assert entry is not None
    at = time.time() - days * DAY
    table.put(evolve(entry, updated_at=int(at * 1000)))
    table.close()
    path = folder(cli) / f"{entry.session_id}.jsonl"
    os.utime(path, (at, at))
    return path


@pytest.fixture
def aged(cli: Any) -> Any:
    """A home with a session that was used 40 days ago, and the main conversation, used 400 days ago."""
    cli("run", "-m", "The harbour code is 4711.")
    cli("run", "--session", OLD, "-m", "Hello from far away.")
    age(cli, "agent:main:main", 400)
    age(cli, OLD, 40)
    return cli


def keys(cli: Any) -> list[str]:
    return sorted(each["key"] for each in cli.json("sessions", "list"))


class TestPrune:
    def test_a_dry_run_shows_what_would_go_and_why_and_removes_nothing(self, aged: Any) -> None:
        before = names(aged)
        shown = aged("sessions", "prune", "--dry-run", "--enforce")
        assert OLD in shown.stdout
        assert "not used for more than 30d" in shown.stdout
        assert "1 of 2 sessions" in shown.stdout
        assert names(aged) == before
        assert keys(aged) == ["agent:main:main", OLD]

    def test_107712_without_a_word_in_config_nothing_goes(self, aged: Any) -> None:
        before = names(aged)
        result = aged("sessions", "prune")
        assert "nothing was removed" in result.stderr
        assert names(aged) == before

    def test_enforce_removes_what_is_due_and_keeps_an_archive(self, aged: Any) -> None:
        aged("sessions", "prune", "--enforce")
        assert keys(aged) == ["agent:main:main"]
        [archived] = aged.json("sessions", "list", "--archived")
        assert (archived["key"], archived["reason"]) == (OLD, "deleted")
        assert archived["messages"] >= 2

    def test_config_can_enforce_it_and_say_how_long(self, aged: Any) -> None:
        aged.configure("session: {maintenance: {mode: enforce, pruneAfter: 60d}}")
        aged("sessions", "prune")
        assert keys(aged) == ["agent:main:main", OLD]
        aged.configure("session: {maintenance: {mode: enforce, pruneAfter: 36h}}")
        aged("sessions", "prune")
        assert keys(aged) == ["agent:main:main"]

    def test_json_tells_the_sums_and_each_removal(self, aged: Any) -> None:
        report = aged.json("sessions", "prune", "--dry-run")
        [agent] = report["agents"]
        assert report["removes"] is False
        assert (agent["agent"], agent["mode"]) == ("main", "warn")
        assert (agent["total"], agent["wouldPrune"], agent["wouldCap"]) == (2, 1, 0)
        assert (agent["protected"], agent["maxEntries"]) == (1, 500)
        [due] = agent["due"]
        assert (due["what"], due["key"], due["rule"]) == ("session", OLD, "age")
        assert due["bytes"] > 0
        report = aged.json("sessions", "prune", "--enforce")
        [removed] = report["agents"][0]["removed"]
        assert report["removes"] is True
        assert all(Path(each).exists() for each in removed["archives"])

    def test_an_unknown_agent_has_nothing_to_remove(self, aged: Any) -> None:
        assert aged.json("sessions", "prune", "--agent", "nobody", "--enforce")["agents"] == []

    def test_a_terminal_is_asked_first(self, aged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hermitcrab.cli.session_prune._is_terminal", lambda: True)
        aged("sessions", "prune", "--enforce", stdin="n\n")
        assert keys(aged) == ["agent:main:main", OLD]
        aged("sessions", "prune", "--enforce", "--yes")
        assert keys(aged) == ["agent:main:main"]

    def test_a_new_home_has_nothing_to_prune_and_is_not_created(self, cli: Any) -> None:
        assert cli("sessions", "prune").stdout == "no sessions yet\n"
        assert not cli.home.exists()

    def test_44812_a_disk_budget_clears_down_to_the_high_water(self, aged: Any) -> None:
        aged("sessions", "prune", "--enforce")
        aged.configure("session: {maintenance: {mode: enforce, maxDiskBytes: 1kb}}")
        [agent] = aged.json("sessions", "prune")["agents"]
        assert agent["isOverBudget"] is True
        assert [each["rule"] for each in agent["removed"]] == ["disk"]
        assert keys(aged) == ["agent:main:main"]
        assert aged.json("sessions", "list", "--archived") == []

    def test_a_table_that_cannot_be_read_whole_stops_it(self, aged: Any) -> None:
        table = SessionEntries(folder(aged) / "sessions.sqlite")
        table.transact(
            lambda connection: connection.execute(
                "update session_entries set entry = '{' where key = ?", (OLD,)
            )
        )
        table.close()
        before = names(aged)
        assert "damaged" in aged("sessions", "prune", "--enforce", code=1).stderr
        assert names(aged) == before


class TestStatus:
    def test_status_and_doctor_say_what_is_due(self, aged: Any) -> None:
        [report] = aged.json("status")["upkeep"]
        assert (report["mode"], report["wouldPrune"]) == ("warn", 1)
        assert "1 of 2 sessions" in aged("status").stdout
        found = aged.json("doctor")["findings"]
        [finding] = [each for each in found if each["subject"] == "sessions of agent main"]
        assert finding["level"] == "warning"
        assert "sessions prune" in finding["hint"]

    def test_a_home_without_old_sessions_is_well(self, cli: Any) -> None:
        cli("run", "-m", "hello")
        assert cli.json("doctor")["findings"] == []
        assert "nothing is due" in cli("status").stdout


class TestDelete:
    def test_an_archive_is_kept_and_the_key_begins_anew(self, aged: Any) -> None:
        [before] = [each for each in aged.json("sessions", "list") if each["key"] == OLD]
        removed = aged.json("sessions", "delete", OLD)
        assert [Path(each).exists() for each in removed["archives"]] == [True]
        assert keys(aged) == ["agent:main:main"]
        aged("run", "--session", OLD, "-m", "Hello again.")
        [after] = [each for each in aged.json("sessions", "list") if each["key"] == OLD]
        assert after["sessionId"] != before["sessionId"]

    def test_an_unknown_key_is_an_error(self, aged: Any) -> None:
        assert "there is no session" in aged("sessions", "delete", "nobody", code=1).stderr

    def test_a_terminal_is_asked_first(self, aged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hermitcrab.cli.session_prune._is_terminal", lambda: True)
        aged("sessions", "delete", OLD, stdin="n\n")
        assert OLD in keys(aged)


class TestArchives:
    """#116712, #122469: other commands orphaned old transcripts, and nothing reached them any more."""

    @pytest.fixture
    def reset(self, cli: Any) -> Any:
        cli("run", "-m", "The harbour code is 4711.")
        cli("run", "-m", "/new")
        cli("run", "-m", "Something else.")
        return cli

    def test_116712_earlier_transcripts_are_listed_under_their_key(self, reset: Any) -> None:
        [archived] = reset.json("sessions", "list", "--archived")
        [current] = reset.json("sessions", "list")
        assert archived["key"] == current["key"] == "agent:main:main"
        assert archived["sessionId"] != current["sessionId"]
        assert archived["reason"] == "reset"
        assert archived["startedAt"] <= archived["endedAt"]
        assert archived["bytes"] == Path(archived["file"]).stat().st_size
        shown = reset("sessions", "list", "--archived").stdout
        assert archived["sessionId"] in shown

    def test_122469_one_of_them_can_be_read(self, reset: Any) -> None:
        [archived] = reset.json("sessions", "list", "--archived")
        shown = reset("sessions", "show", "main", "--session", archived["sessionId"]).stdout
        assert "The harbour code is 4711." in shown
        assert "Something else." not in shown
        report = reset.json("sessions", "show", "main", "--session", archived["sessionId"])
        assert report["file"] == archived["file"]

    def test_a_deleted_session_can_still_be_read(self, reset: Any) -> None:
        reset("sessions", "delete", "main")
        assert keys(reset) == []
        found = reset.json("sessions", "list", "--archived")
        assert {each["key"] for each in found} == {"agent:main:main"}
        first = min(found, key=lambda each: each["startedAt"])
        shown = reset("sessions", "show", "main", "--session", first["sessionId"]).stdout
        assert "The harbour code is 4711." in shown

    def test_an_unknown_session_id_names_those_that_there_are(self, reset: Any) -> None:
        [archived] = reset.json("sessions", "list", "--archived")
        error = reset("sessions", "show", "main", "--session", "x", code=1).stderr
        assert archived["sessionId"] in error

    def test_a_home_without_any_says_so(self, cli: Any) -> None:
        assert cli.json("sessions", "list", "--archived") == []
        assert "nothing is archived yet" in cli("sessions", "list", "--archived").stderr
