"""Which plugins run (sessions 7.3, 7.4)."""

from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.plugins.decide import Candidate, Decision, StartMode, decide, selected, start_mode

PLUGINS = frozenset({"hermitcrab.plugins"})
MEMORY = frozenset({"hermitcrab.memory"})
ENGINE = frozenset({"hermitcrab.context_engines"})


@pytest.fixture
def decided(bench: Any) -> Any:
    def decide_about(
        id: str = "x",
        groups: frozenset[str] = PLUGINS,
        *,
        core: bool = False,
        given: bool = False,
        start: StartMode | None = None,
        entry: Any = None,
        slots: Any = None,
        **config: Any,
    ) -> Decision:
        settings = bench.Config(
            entries={} if entry is None else {id: entry},
            slots=slots or bench.Slots(memory="none"),
            **config,
        )
        candidate = Candidate(id=id, groups=groups, core=core, given=given)
        return decide(candidate, settings, start or StartMode())

    return decide_about


def test_an_installed_plugin_runs(decided: Any) -> None:
    assert decided() == Decision(True, "installed", PLUGINS)


def test_deny_comes_before_disable_before_the_slot_before_the_allow_list(
    decided: Any, bench: Any
) -> None:
    """Sessions 9.5, #27194: a slot once overrode ``enabled: false``."""
    everything = {
        "groups": MEMORY,
        "enabled": False,
        "deny": ("x",),
        "entry": bench.Entry(enabled=False),
        "slots": bench.Slots(memory="x"),
        "allow": ("other",),
    }
    reasons = [
        ("enabled", "plugins disabled"),
        ("deny", "blocked by denylist"),
        ("entry", "disabled in config"),
    ]
    for key, reason in reasons:
        assert decided(**everything) == Decision(False, reason)
        del everything[key]
    assert decided(**everything) == Decision(True, "selected memory slot", MEMORY)
    del everything["slots"]
    assert decided(**everything) == Decision(False, "memory slot disabled")


def test_an_allow_list_comes_before_an_explicit_yes(decided: Any, bench: Any) -> None:
    entry = bench.Entry(enabled=True)
    assert decided(entry=entry, allow=("other",)).reason == "not in allowlist"
    assert decided(entry=entry, allow=("x",)) == Decision(True, "enabled in config", PLUGINS)
    assert decided(entry=entry) == Decision(True, "enabled in config", PLUGINS)


def test_only_the_selected_memory_and_engine_run(decided: Any, bench: Any) -> None:
    slots = bench.Slots(memory="mine", context_engine="graph")
    assert decided("mine", MEMORY, slots=slots).enabled
    assert decided("graph", ENGINE, slots=slots).reason == "selected context engine slot"
    other = decided("x", MEMORY | ENGINE, slots=slots)
    assert not other.enabled
    assert other.reason == 'context engine slot set to "graph", memory slot set to "mine"'


def test_a_plugin_that_loses_a_slot_keeps_its_other_role(decided: Any, bench: Any) -> None:
    both = PLUGINS | MEMORY
    assert decided(groups=both) == Decision(True, "installed", PLUGINS)
    selected_too = decided(groups=both, slots=bench.Slots(memory="x"))
    assert selected_too == Decision(True, "selected memory slot", both)


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_slots_have_their_defaults(bench: Any, text: str) -> None:
    slots = selected(bench.Config(slots=bench.Slots(memory=text, context_engine=text)))
    assert slots == {"hermitcrab.memory": "memory-core", "hermitcrab.context_engines": "legacy"}


@pytest.mark.parametrize("text", ["none", "NONE", " None "])
def test_none_is_no_memory_and_the_default_engine(bench: Any, text: str) -> None:
    """Sessions 7.4: ``none`` as an engine once made every turn fail."""
    slots = selected(bench.Config(slots=bench.Slots(memory=text, context_engine=text)))
    assert slots == {"hermitcrab.memory": None, "hermitcrab.context_engines": "legacy"}


def test_the_default_engine_always_runs_unless_it_is_refused_by_name(
    decided: Any, bench: Any
) -> None:
    legacy = {"id": "legacy", "groups": ENGINE, "core": True}
    other = bench.Slots(context_engine="graph")
    assert decided(**legacy, slots=other) == Decision(True, "default engine", ENGINE)
    assert decided(**legacy, enabled=False).enabled
    assert decided(**legacy, allow=("x",), slots=other).enabled
    assert decided(**legacy, deny=("legacy",)).reason == "blocked by denylist"
    assert decided(**legacy, entry=bench.Entry(enabled=False)).reason == "disabled in config"


def test_a_safe_start_leaves_third_parties_out_and_the_core_in(decided: Any, bench: Any) -> None:
    safe = start_mode({}, safe_mode=True)
    assert decided(start=safe) == Decision(False, "safe mode")
    assert decided(start=safe, groups=MEMORY, slots=bench.Slots(memory="x")).reason == "safe mode"
    assert decided(start=safe, core=True).enabled
    assert not decided(start=safe, given=True).enabled


def test_the_environment_names_the_third_parties_that_may_start(decided: Any, bench: Any) -> None:
    assert start_mode({}) == StartMode(None)
    assert start_mode({"HERMITCRAB_PLUGINS": ""}).third_parties == frozenset()
    listed = start_mode({"HERMITCRAB_PLUGINS": " x , y,"})
    assert listed.third_parties == frozenset({"x", "y"})
    assert decided("x", start=listed).enabled
    assert decided("z", start=listed).reason == "not in HERMITCRAB_PLUGINS"
    assert decided("z", start=listed, core=True).enabled
    assert decided("x", start=listed, deny=("x",)).reason == "blocked by denylist"
    assert start_mode({"HERMITCRAB_PLUGINS": "x"}, safe_mode=True).third_parties == frozenset()


def test_a_plugin_given_in_code_counts_as_enabled_and_may_fill_any_slot(
    decided: Any, bench: Any
) -> None:
    assert decided(given=True) == Decision(True, "enabled in config", PLUGINS)
    assert decided(given=True, deny=("x",)).reason == "blocked by denylist"
    slots = bench.Slots(context_engine="x")
    assert decided(given=True, slots=slots).reason == "selected context engine slot"
