"""Other plugins that pip installed from folders: hooks, configs, versions and failures at import (design 3)."""

from __future__ import annotations


def _text(message):
    return message["content"][0]["text"]


def _diagnostics(report, plugin):
    return [each["text"] for each in report["diagnostics"] if each["plugin"] == plugin]


def test_a_hook_plugin_works_once_it_is_installed(drive):
    report = drive("hello", plugins="holiday")
    assert report["records"]["holiday"]["status"] == "loaded"
    assert _text(report["messages"][0]) == "Today is a holiday.\n\nhello"
    assert _diagnostics(report, "holiday") == []


def test_a_hook_plugin_gets_its_config(drive):
    config = {"plugins": {"entries": {"holiday": {"config": {"day": "Sunday"}}}}}
    report = drive("hello", plugins="holiday", config=config)
    assert _text(report["messages"][0]) == "Today is Sunday.\n\nhello"


def test_a_plugin_with_a_bad_config_is_not_loaded_and_told_what_is_wrong(drive):
    config = {"plugins": {"entries": {"holiday": {"config": {"dya": "Sunday"}}}}}
    report = drive("hello", plugins="holiday", config=config)
    assert _text(report["messages"][0]) == "hello"
    assert report["records"]["holiday"]["status"] == "error"
    (diagnostic,) = _diagnostics(report, "holiday")
    assert "plugins.entries.holiday.config.dya" in diagnostic
    assert "day" in diagnostic


def test_a_plugin_that_ends_the_process_at_import_does_not(drive):
    """C100"""
    report = drive("hello", plugins="exits,holiday")
    assert _text(report["messages"][0]) == "Today is a holiday.\n\nhello"
    assert report["records"]["exits"]["status"] == "error"
    (diagnostic,) = _diagnostics(report, "exits")
    assert "no licence found" in diagnostic
    assert "crab-exits" in diagnostic
    assert "1.0.0" in diagnostic


def test_a_broken_plugin_does_not_break_the_commands_that_repair_it(environment, tmp_path):
    """C100"""
    home = tmp_path / "home"
    assert "Usage" in environment.hermitcrab("--help", home=home, plugins="exits").stdout
    listed = environment.hermitcrab("plugins", "list", home=home, plugins="exits").stdout
    assert "exits" in listed
    doctor = environment.hermitcrab("plugins", "doctor", home=home, plugins="exits", fails=True)
    assert "no licence found" in " ".join((doctor.stdout + doctor.stderr).split())


def test_a_plugin_for_a_newer_host_is_refused_before_it_is_imported(drive):
    """C102"""
    report = drive("hello", plugins="futuristic")
    assert report["text"] == "I see 1 messages."
    assert report["imported"] == []
    (diagnostic,) = _diagnostics(report, "futuristic")
    assert "needs hermitcrab>=99" in diagnostic
    assert "pip install" in diagnostic


def test_a_start_names_the_plugins_that_run(drive):
    report = drive("hello", plugins="holiday")
    assert report["imported"] == ["crab_holiday"]
    for plugin in ("exits", "thief", "futuristic", "faulty"):
        assert report["records"][plugin]["status"] == "disabled"


def test_a_denied_plugin_is_never_imported(drive):
    report = drive("hello", plugins="holiday", config={"plugins": {"deny": ["holiday"]}})
    assert report["imported"] == []
    assert report["records"]["holiday"]["reason"] == "blocked by denylist"


def test_an_allow_list_keeps_out_who_is_not_on_it(drive):
    report = drive("hello", plugins="holiday,thief", config={"plugins": {"allow": ["holiday"]}})
    assert report["imported"] == ["crab_holiday"]
    assert report["records"]["thief"]["reason"] == "not in allowlist"
