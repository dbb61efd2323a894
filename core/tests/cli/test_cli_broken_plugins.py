"""Broken plugins: one diagnostic each, which names the plugin, the place and the remedy (C98, C100)."""

from __future__ import annotations

import json
import textwrap

import pytest

HOOKS, ENGINES, MEMORY = "hermitcrab.plugins", "hermitcrab.context_engines", "hermitcrab.memory"
HEAD = "from hermitcrab import hookimpl\n"
ENGINE = HEAD + textwrap.dedent(
    """
    @hookimpl
    def register_context_engines(registry):
        registry.register("broken", Engine)
    """
)

#: By what is wrong: the entry-point group, the source, and a part of what the doctor says.
BROKEN = {
    "an import that fails": (HOOKS, "import nowhere_to_be_found", "nowhere_to_be_found"),
    "a syntax error": (HOOKS, "def broken(:", "SyntaxError"),
    "an end of the process": (HOOKS, "raise SystemExit(3)", "SystemExit"),
    "an exception at import": (HOOKS, "1 / 0", "ZeroDivisionError"),
    "no hook at all": (HOOKS, "answer = 42", "implements no hook"),
    "a hook with an unknown name": (
        HOOKS,
        HEAD + "@hookimpl\ndef before_tool_cal(event):\n    return None\n",
        "before_tool_call",
    ),
    "an argument that does not exist": (
        HOOKS,
        HEAD + "@hookimpl\ndef agent_end(evnt):\n    return None\n",
        "evnt",
    ),
    "an asynchronous registration": (
        HOOKS,
        HEAD + "@hookimpl\nasync def register_tools(registry):\n    return None\n",
        "register_tools",
    ),
    "a registration that raises": (
        HOOKS,
        HEAD + "@hookimpl\ndef register_tools(registry):\n    raise OSError('no licence')\n",
        "no licence",
    ),
    "a config class that is none": (
        HOOKS,
        HEAD + "@hookimpl\ndef config_class():\n    return 5\n",
        "config",
    ),
    "a config class that raises": (
        HOOKS,
        HEAD + "@hookimpl\ndef config_class():\n    raise KeyError('x')\n",
        "KeyError",
    ),
    "a class as entry point": (HOOKS, "class Plugin:\n    pass\n", "class"),
    "an engine that is not registered": (ENGINES, HEAD + "x = 1\n", "broken"),
    "an engine without its methods": (
        ENGINES,
        ENGINE + "class Engine:\n    info = {'id': 'broken', 'name': 'Broken'}\n",
        "assemble",
    ),
    "an engine that cannot be made": (
        ENGINES,
        ENGINE + "def Engine():\n    raise RuntimeError('out of shells')\n",
        "out of shells",
    ),
    "an engine that is no factory": (ENGINES, ENGINE + "Engine = 7\n", "broken"),
    "a memory that is not registered": (MEMORY, HEAD + "x = 1\n", "broken"),
    "a memory that cannot be made": (
        MEMORY,
        HEAD
        + "@hookimpl\ndef register_memory_backends(registry):\n    registry.register('broken', lambda: 1 / 0)\n",
        "division by zero",
    ),
    "an id of the core": (
        ENGINES,
        HEAD
        + "@hookimpl\ndef register_context_engines(registry):\n    registry.register('legacy', lambda: None)\n",
        "legacy",
    ),
    "a tool that is none": (
        HOOKS,
        HEAD
        + "@hookimpl\ndef register_tools(registry):\n    registry.register('lamp', 'not a tool')\n",
        "lamp",
    ),
}


@pytest.fixture(params=sorted(BROKEN))
def broken(request, cli, distribution):
    """What the doctor is to say of a broken plugin that is installed and selected."""
    group, source, says = BROKEN[request.param]
    target = "broken_thing:Plugin" if "class Plugin" in source else "broken_thing"
    distribution("broken-thing", {group: f"broken = {target}"}, source)
    slot = {ENGINES: "contextEngine", MEMORY: "memory"}.get(group)
    cli.configure("" if slot is None else f"plugins:\n  slots:\n    {slot}: broken\n")
    return says


def test_the_doctor_names_the_plugin_the_place_and_the_remedy(cli, broken):
    cli("run", "-m", "hello")  # memory is looked at where it is in use
    report = cli.json("doctor", code=None)
    found = [each for each in report["findings"] if "broken" in str(each)]
    assert len(found) == 1, json.dumps(report["findings"], indent=1)
    (finding,) = found
    text = " ".join(str(value) for value in finding.values())
    assert broken in text
    assert "broken" in f"{finding['subject']} {finding['message']}"
    assert finding["hint"], "what to do next"
    assert "broken-thing" in text or "broken_thing" in text, "where it is"


def test_the_host_runs_on(cli, broken):
    said = cli("run", "-m", "hello")
    assert said.stdout.strip()
    assert "broken" in cli("plugins", "list").stdout
