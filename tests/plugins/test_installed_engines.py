"""Context engines that pip installed from folders, in a fresh environment and in processes of their own (design 3)."""

from __future__ import annotations

CONTRACT = """
from types import SimpleNamespace

from crab_last_messages import LastMessages, Settings
from hermitcrab.testing import ContextEngineContract


class TestLastMessages(ContextEngineContract):
    def make_engine(self):
        return LastMessages(SimpleNamespace(plugin_config=Settings(count=4)))
"""


def _selecting(engine, **config):
    return {"plugins": {"slots": {"contextEngine": engine}, **config}}


def _errors(report, plugin):
    return [
        each["text"]
        for each in report["diagnostics"]
        if each["plugin"] == plugin and each["level"] == "error"
    ]


def test_an_engine_named_in_yaml_is_the_one_that_assembles(drive):
    config = _selecting("last-messages", entries={"last-messages": {"config": {"count": 2}}})
    for _ in range(2):
        report = drive("hello", plugins="last-messages", config=config)
    assert report["engine"] == "last-messages"
    assert report["degraded"] == []
    assert [message["role"] for message in report["messages"]] == ["assistant", "user"]
    assert report["system"].startswith("You see the last 2 messages.")


def test_an_engine_that_is_not_selected_is_not_imported(drive):
    """C101"""
    report = drive("hello", plugins="last-messages")
    assert report["engine"] == "legacy"
    assert report["imported"] == []
    assert report["records"]["last-messages"]["status"] == "disabled"


def test_an_engine_that_takes_the_default_id_is_refused_and_the_owner_is_named(drive):
    report = drive("hello", plugins="thief")
    assert report["engine"] == "legacy"
    assert report["text"] == "I see 1 messages."
    (error,) = _errors(report, "thief")
    assert '"legacy"' in error
    assert "core has this id" in error
    assert report["records"]["thief"]["status"] == "loaded"


def test_a_refused_registration_undoes_nothing_else(drive):
    assert drive("/alibi", plugins="thief")["text"] == "at home"


def test_a_distribution_that_offers_a_core_id_is_refused_and_the_owner_is_named(drive):
    report = drive("hello", plugins="legacy")
    assert report["text"] == "I see 1 messages."
    assert "crab_pretender" not in report["imported"]
    (error,) = _errors(report, "legacy")
    assert "crab-pretender is not loaded" in error
    assert "hermitcrab-context-legacy" in error
    assert "pip uninstall crab-pretender" in error


def test_an_engine_that_fails_is_set_aside_and_the_turn_still_answers(drive):
    report = drive("hello", plugins="faulty", config=_selecting("faulty"))
    assert report["text"] == "I see 1 messages."
    assert report["engine"] == "legacy"
    (reason,) = report["degraded"]
    assert "'faulty' of plugin:faulty is set aside" in reason
    assert "failed in assemble: the index is gone" in reason


def test_status_in_another_process_says_that_an_engine_failed(drive, environment, tmp_path):
    drive("hello", plugins="faulty", config=_selecting("faulty"))
    status = environment.hermitcrab("status", home=tmp_path / "home", plugins="faulty")
    text = " ".join(status.stdout.split())
    assert "faulty" in text
    assert "the index is gone" in text


def test_doctor_in_another_process_fails_and_names_the_engine_and_its_owner(
    drive, environment, tmp_path
):
    drive("hello", plugins="faulty", config=_selecting("faulty"))
    home = tmp_path / "home"
    doctor = environment.hermitcrab("plugins", "doctor", home=home, plugins="faulty", fails=True)
    text = " ".join((doctor.stdout + doctor.stderr).split())
    assert "the index is gone" in text
    assert "plugin:faulty" in text or "crab-faulty" in text


def test_doctor_names_who_tried_to_take_the_default_id(environment, tmp_path):
    home = tmp_path / "home"
    doctor = environment.hermitcrab("plugins", "doctor", home=home, plugins="thief", fails=True)
    text = " ".join((doctor.stdout + doctor.stderr).split())
    assert "thief" in text
    assert "core has this id" in text


def test_an_engine_that_is_not_installed_is_loud_and_the_turn_still_answers(drive):
    """C98"""
    report = drive("hello", plugins="", config=_selecting("lossless"))
    assert report["text"] == "I see 1 messages."
    (reason,) = report["degraded"]
    assert "'lossless' is not registered. Available engines: legacy" in reason
    assert "pip install" in reason
    assert any("lossless" in error for error in _errors(report, "lossless"))


def test_a_start_without_third_parties_falls_back_and_says_so(drive):
    report = drive("hello", plugins="", config=_selecting("last-messages"))
    assert report["text"] == "I see 1 messages."
    assert report["imported"] == []
    (reason,) = report["degraded"]
    assert "last-messages" in reason
    assert "HERMITCRAB_PLUGINS" in reason


def test_a_third_party_holds_its_engine_against_the_contract(environment, tmp_path):
    """The test kit works from the installed distribution, in a folder that knows nothing of this one."""
    (tmp_path / "test_engine.py").write_text(CONTRACT, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    result = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    assert " passed" in result.stdout
    assert "failed" not in result.stdout
