"""``hermitcrab plugins``, ``status`` and ``doctor``: broken plugins are loud and break nothing (C98, C100, C101)."""

from __future__ import annotations

import os
import sys

import pytest

from hermitcrab.plugins.health import HealthStore

ENGINE = """
from hermitcrab import hookimpl

@hookimpl
def register_context_engines(registry):
    registry.register("shelf", {factory})
"""
EXPLODING = "lambda: 1 / 0"
BREAKS = [
    ("import nowhere_to_be_found", "ModuleNotFoundError"),
    ("raise SystemExit(3)", "SystemExit"),
    ("def broken(:", "SyntaxError"),
]


def select(cli, engine: str) -> None:
    cli.configure(f"plugins:\n  slots:\n    contextEngine: {engine}\n")


def test_list_shows_what_is_installed_and_why_it_runs(cli):
    by_id = {each["id"]: each for each in cli.json("plugins", "list")}
    assert by_id["legacy"]["status"] == "enabled"
    assert by_id["legacy"]["kind"] == "context-engine"
    assert by_id["memory-core"]["reason"] == "selected memory slot"
    assert by_id["memory-core"]["distribution"] == "hermitcrab-memory-core"
    assert "hermitcrab-context-legacy" in cli("plugins", "list").stdout


def test_list_never_imports_a_plugin(cli, distribution):
    """C101."""
    distribution(
        "heavy-thing", {"hermitcrab.plugins": "heavy = heavy_thing"}, "raise SystemExit(9)"
    )
    text = cli("plugins", "list").stdout
    assert "heavy-thing" in text
    assert "heavy_thing" not in sys.modules


def test_of_thirty_installed_plugins_only_those_that_run_are_imported(cli, distribution):
    """C101."""
    groups = ["hermitcrab.context_engines", "hermitcrab.memory", "hermitcrab.plugins"]
    for number in range(30):
        group = groups[number % 3]
        distribution(
            f"many-{number}",
            {group: f"many{number} = many_{number}"},
            ENGINE.format(factory="None"),
        )
    cli.configure("plugins:\n  allow: [many2]\n  slots:\n    contextEngine: many0\n")
    cli("plugins", "info", "many2")
    imported = {name for name in sys.modules if name.startswith("many_")}
    assert imported == {"many_0", "many_2"}


def test_list_warns_of_a_wrong_slot_name(cli):
    select(cli, "legcy")
    warning = cli("plugins", "list").stderr
    assert "legcy: plugins.slots.contextEngine names a plugin that is not installed" in warning
    assert 'Did you mean "legacy"?' in warning


def test_list_tells_of_a_slot_that_a_plugin_cannot_fill(cli):
    select(cli, "memory-core")
    assert "is no context engine" in cli("plugins", "list").stderr


def test_safe_mode_shows_third_parties_as_off(cli, distribution):
    distribution("extra-thing", {"hermitcrab.plugins": "extra = extra_thing"}, "")
    listed = cli.json("--safe-mode", "plugins", "list")
    assert {each["id"]: each["reason"] for each in listed}["extra"] == "safe mode"


def test_info_shows_hooks_and_registrations(cli, distribution):
    select(cli, "shelf")
    distribution(
        "shelf-engine",
        {"hermitcrab.context_engines": "shelf = shelf_engine"},
        ENGINE.format(factory=EXPLODING),
    )
    shown = cli.json("plugins", "info", "shelf")
    assert shown["registrations"] == [{"registry": "context_engines", "id": "shelf"}]
    assert shown["status"] == "loaded"
    assert "context engines: shelf" in cli("plugins", "info", "shelf").stdout


def test_info_of_an_unknown_plugin_names_the_nearest(cli):
    assert 'Did you mean "legacy"?' in cli("plugins", "info", "legcy", code=1).stderr


def test_info_shows_how_often_handlers_ran_and_what_they_took(cli, distribution):
    source = """
from hermitcrab import hookimpl

@hookimpl(priority=5)
def before_prompt_build(event):
    return None

@hookimpl
async def agent_end(event):
    raise ValueError("no more paper")
"""
    distribution("busy-thing", {"hermitcrab.plugins": "busy = busy_thing"}, source)
    cli("run", "-m", "hello")
    cli("run", "-m", "again")
    rows = {each["hook"]: each for each in cli.json("plugins", "info", "busy")["handlers"]}
    assert rows["before_prompt_build"]["calls"] == 2
    assert rows["before_prompt_build"]["priority"] == 5
    assert rows["before_prompt_build"]["lastCallAt"] is not None
    assert rows["agent_end"]["failures"] == 2
    assert rows["agent_end"]["lastError"] == "ValueError: no more paper"
    assert rows["agent_end"]["totalMs"] >= rows["agent_end"]["slowestMs"]
    printed = cli("plugins", "info", "busy").stdout
    assert "slowest" in printed
    assert "before_prompt_build" in printed


def test_enable_selects_an_engine_and_disable_gives_the_slot_back(cli, distribution):
    config = cli.configure("# my setup\n")
    distribution(
        "shelf-thing",
        {"hermitcrab.context_engines": "shelf = shelf_thing"},
        ENGINE.format(factory=EXPLODING),
    )
    enabled = cli.json("plugins", "enable", "shelf")
    assert enabled["written"] == [{"path": "plugins.slots.contextEngine", "value": "shelf"}]
    assert (enabled["status"], enabled["reason"]) == ("enabled", "selected context engine slot")
    assert cli.json("plugins", "enable", "shelf")["written"] == []
    disabled = cli.json("plugins", "disable", "shelf")
    assert (disabled["status"], disabled["reason"]) == ("disabled", "disabled in config")
    assert cli("config", "get", "plugins.slots.contextEngine").stdout == "legacy\n"
    assert config.read_text(encoding="utf-8").startswith("# my setup\n")


def test_enable_takes_back_every_no(cli, distribution):
    cli.configure(
        "plugins:\n  allow: [other]\n  deny: [extra, more]\n  entries:\n    extra: {enabled: false}\n"
    )
    distribution("extra-thing", {"hermitcrab.plugins": "extra = extra_thing"}, "")
    text = cli("plugins", "enable", "extra").stdout
    assert text.splitlines()[-1] == "extra is enabled (enabled in config)"
    assert cli.json("config", "get", "plugins.deny") == ["more"]
    assert cli.json("config", "get", "plugins.allow") == ["other", "extra"]


def test_disable_of_the_memory_leaves_no_memory_and_the_default_engine_stays(cli):
    cli.json("plugins", "disable", "memory-core")
    assert cli("config", "get", "plugins.slots.memory").stdout == "none\n"
    assert cli("plugins", "doctor").stdout == "No plugin issues detected.\n"
    assert "without it no turn can run" in cli("plugins", "disable", "legacy", code=1).stderr


def test_doctor_has_nothing_to_say_where_all_is_well(cli):
    assert cli("plugins", "doctor").stdout == "No plugin issues detected.\n"
    assert cli.json("plugins", "doctor") == {"ok": True, "findings": []}
    assert not cli.home.exists()


@pytest.mark.parametrize(("source", "cause"), BREAKS)
def test_one_broken_plugin_breaks_nothing_and_the_doctor_names_everything(
    cli, distribution, source, cause
):
    """C100."""
    distribution("flaky-thing", {"hermitcrab.plugins": "flaky = flaky_thing"}, source)
    for harmless in (["--help"], ["--version"], ["plugins", "list"], ["run", "-m", "hello"]):
        cli(*harmless)
    text = cli("plugins", "doctor", code=1).stdout
    assert "error: flaky (load): could not be imported (flaky-thing 1.2)" in text
    assert cause in text
    assert "Traceback" in text or "flaky_thing.py" in text
    assert "pip install --upgrade flaky-thing" in text
    assert "1 error, 0 warnings" in text
    (finding,) = cli.json("plugins", "doctor", code=1)["findings"]
    assert (finding["subject"], finding["phase"], finding["level"]) == ("flaky", "load", "error")
    assert finding["traceback"]
    assert cause in cli("plugins", "info", "flaky").stdout


def test_a_turn_says_that_a_plugin_is_broken(cli, distribution):
    distribution("flaky-thing", {"hermitcrab.plugins": "flaky = flaky_thing"}, "raise ValueError")
    result = cli("run", "-m", "hello")
    assert "1 plugin error (flaky): see `hermitcrab plugins doctor`" in result.stderr


def test_a_wrong_slot_name_is_not_fatal_and_loud_everywhere(cli):
    """C98."""
    select(cli, "legcy")
    turn = cli("run", "-m", "hello")
    assert turn.stdout
    assert "context engine 'legcy' is not registered" in turn.stderr
    reply = cli.json("run", "-m", "hello")
    assert reply["engine"] == "legacy"
    assert "legcy" in reply["degraded"][0]
    text = cli("plugins", "doctor", code=1).stdout
    assert "error: legcy (validation)" in text
    assert "Did you mean" in text
    status = cli("status")
    assert "legcy selected, legacy answers" in status.stdout
    assert "the engine legacy answers" in status.stderr
    assert cli.json("status")["engine"]["active"] == "legacy"
    cli("doctor", code=1)


def test_a_slot_that_is_corrected_is_well_again(cli):
    select(cli, "legcy")
    cli("run", "-m", "hello")
    select(cli, "legacy")
    assert cli("plugins", "doctor").stdout == "No plugin issues detected.\n"


def test_an_engine_that_cannot_be_made_is_found_without_a_turn(cli, distribution):
    select(cli, "shelf")
    distribution(
        "shelf-engine",
        {"hermitcrab.context_engines": "shelf = shelf_engine"},
        ENGINE.format(factory=EXPLODING),
    )
    text = cli("plugins", "doctor", code=1).stdout
    assert "error: shelf (engine)" in text
    assert "ZeroDivisionError" in text
    assert not cli.home.joinpath("health.sqlite").exists()


def health(cli) -> HealthStore:
    cli.home.mkdir(parents=True, exist_ok=True)
    return HealthStore(cli.home / "health.sqlite")


def test_a_quarantine_in_another_process_is_an_error_until_the_engine_works_again(cli):
    store = health(cli)
    store.record_quarantine("legacy", "core", "assemble", "it stumbled", 1_000)
    text = cli("plugins", "doctor", code=1).stdout
    assert "error: legacy (assemble)" in text
    assert "it stumbled" in text
    assert f"process {os.getpid()}" in text
    store.record_engine_used("agent:main:main", "legacy")
    store.close()
    cli("plugins", "doctor")
    assert cli.json("status")["quarantines"][0]["reason"] == "it stumbled"


def test_a_quarantine_of_an_engine_that_is_not_selected_any_more_is_no_issue(cli):
    store = health(cli)
    store.record_quarantine("other", "plugin:other", "assemble", "it stumbled")
    store.close()
    assert cli("plugins", "doctor").stdout == "No plugin issues detected.\n"
    assert "other of plugin:other, failed in assemble" in cli("status").stdout


def test_failures_of_hooks_in_other_processes_are_warnings(cli):
    store = health(cli)
    store.hook_failed("nosy", "agent_end", ValueError("no idea"), 0.5)
    store.close()
    text = cli("plugins", "doctor").stdout
    assert "warning: nosy (agent_end): its handler failed 1 time" in text
    assert "ValueError: no idea" in text


def test_status_of_a_home_that_is_not_there_creates_nothing(cli):
    status = cli("status")
    assert "not there yet" in status.stdout
    assert not cli.home.exists()


def test_status_shows_the_home_the_model_the_engine_memory_and_sessions(cli):
    file = cli.configure("agents:\n  defaults:\n    contextTokens: 9000\n")
    cli("run", "-m", "hello")
    report = cli.json("status")
    assert report["home"] == str(cli.home)
    assert report["configFile"] == str(file)
    assert report["model"] == "offline/extractive"
    assert report["contextTokens"] == 9000
    assert report["tokenizer"]
    assert report["engine"] == {
        "selected": "legacy",
        "active": "legacy",
        "degraded": None,
        "hint": None,
        "warnings": [],
    }
    assert report["lastEngines"][0]["sessionKey"] == "agent:main:main"
    assert report["lastEngines"][0]["engine"] == "legacy"
    assert report["memory"][0]["status"]["backend"] == "memory-core"
    assert report["sessions"] == 1
    text = cli("status").stdout
    for name in ("version", "home", "config", "model", "tokenizer", "engine", "memory", "sessions"):
        assert f"{name} " in text


def test_doctor_counts_the_faults_of_transcripts_and_changes_nothing(cli):
    cli("run", "-m", "hello")
    folder = cli.home / "agents/main/sessions"
    (file,) = folder.glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b'{"type":"mess\n{"type":')
    damaged = file.read_bytes()
    result = cli("doctor")
    assert "1 line holds no entry" in result.stdout
    assert "the last line has no end, 8 bytes" in result.stdout
    assert "0 errors, 2 warnings" in result.stdout
    assert file.read_bytes() == damaged
    (folder / "empty.jsonl").touch()
    report = cli.json("doctor", code=1)
    assert report["ok"] is False
    assert any("this file is empty" in each["message"] for each in report["findings"])


def test_doctor_of_a_memory_that_cannot_be_opened_is_an_error(cli):
    cli("run", "-m", "hello")
    for file in (cli.home / "agents/main").glob("memory.sqlite*"):
        file.unlink()
    (cli.home / "agents/main/memory.sqlite").mkdir()
    text = cli("doctor", code=1).stdout
    assert "error: memory of agent main" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_doctor_finds_a_home_that_cannot_be_written(cli):
    cli("init")
    cli.home.chmod(0o500)
    try:
        assert "cannot be written" in cli("doctor", code=1).stdout
    finally:
        cli.home.chmod(0o700)
