"""Overrides from the command line: ``sessions set``, chat commands from a pipe, and what a turn shows of its work."""

from __future__ import annotations

import pytest

from hermitcrab.agent import Reply, ThinkingDelta, ToolEnded, ToolStarted
from hermitcrab.cli.turn_output import TurnOutput
from hermitcrab.models import TextDelta

BOX = """
    models:
      providers:
        box:
          baseUrl: http://127.0.0.1:9/v1
          models:
            large: {reasoning: true}
"""


@pytest.fixture
def talked(cli):
    cli("run", "-m", "The harbour code is 4711.")
    cli.configure(BOX)
    return cli


def test_the_model_of_a_session_is_set_as_a_whole(talked):
    shown = talked("sessions", "set", "main", "model=box/large").stdout
    assert shown == 'providerOverride: "box"\nmodelOverride: "large"\n'
    entry = talked.json("sessions", "set", "main", "thinkingLevel=xhigh")
    assert (entry["modelOverrideSource"], entry["thinkingLevel"]) == ("user", "xhigh")
    text = talked("chat", stdin="/model\n/think\n").stdout
    assert "Model: box/large (set for this session)" in text
    assert "knows low, medium, high and is told high" in text


@pytest.mark.parametrize("word", ["default", "null", "offline"])
def test_the_configured_model_takes_the_override_away(talked, word):
    talked("sessions", "set", "main", "model=box/large")
    entry = talked.json("sessions", "set", "main", f"model={word}")
    assert "modelOverride" not in entry
    assert "providerOverride" not in entry


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model=nobody/large", "there is no provider 'nobody'"),
        ("model=large", "provider/name"),
        ("thinkingLevel=very", "minimal, low, medium"),
        ("sendPolicy=perhaps", "on (allow), off (deny)"),
    ],
)
def test_a_wrong_value_is_one_line_and_changes_nothing(talked, change, said):
    error = talked("sessions", "set", "main", "label=Ports", change, code=1).stderr
    assert said in error
    assert "label" not in talked.json("sessions", "set", "main", "displayName=Ann")


def test_replies_can_be_held_back_from_the_command_line(talked):
    talked("sessions", "set", "main", "sendPolicy=off")
    reply = talked.json("run", "-m", "hello")
    assert reply["silent"]
    talked("sessions", "set", "main", "sendPolicy=inherit")
    assert not talked.json("run", "-m", "hello")["silent"]


def test_verbose_puts_the_tool_calls_into_the_reply(talked):
    assert talked.json("run", "-m", "What is the harbour code?")["toolLines"] == []
    talked("sessions", "set", "main", "verboseLevel=on")
    lines = talked.json("run", "-m", "What is the harbour code?")["toolLines"]
    assert lines[0].startswith("memory_search(query=")


def test_one_conversation_for_all_on_every_path(cli):
    """Sessions 1.3: the scope global; found by what writes and by what reads."""
    cli.configure("""
        session: {scope: global}
        agents: {list: [{id: work, default: true}]}
    """)
    cli("run", "-m", "The harbour code is 4711.", "--session", "agent:work:main")
    (entry,) = cli.json("sessions", "list")
    assert entry["key"] == "global"
    for key in ("main", "global"):
        assert "4711" in cli("sessions", "show", key).stdout
    cli("sessions", "set", "main", "label=Everyone")
    cli("sessions", "verify", "global")
    assert (cli.home / "agents/work/sessions" / f"{entry['sessionId']}.jsonl").is_file()


def reply(**values):
    return Reply(text="Done.", session_key="k", session_id="s", engine="legacy", **values)


WORK = (
    ToolStarted(call_id="1", name="read", arguments={"path": "a.md"}),
    ToolEnded(call_id="1", name="read", result="four\nlines", is_error=False),
    ToolEnded(call_id="2", name="write", result="no room", is_error=True),
)


@pytest.mark.parametrize(
    ("verbose", "shown"),
    [
        ("off", []),
        (None, ["read(path=a.md)", "write failed: no room"]),
        ("on", ["read(path=a.md)", "write failed: no room"]),
        ("full", ["read(path=a.md)", "read returned: four lines", "write failed: no room"]),
    ],
)
def test_tool_calls_are_shown_as_the_verbose_level_says(capsys, verbose, shown):
    output = TurnOutput(verbose)
    for event in (*WORK, TextDelta("Done."), reply()):
        output.show(event)
    captured = capsys.readouterr()
    assert [line.removeprefix("·").strip() for line in captured.err.splitlines()] == shown
    assert captured.out == "Done.\n"


def test_thinking_is_shown_once_whether_or_not_it_was_streamed(capsys):
    for events in (
        (ThinkingDelta("It is in "), ThinkingDelta("the notes.\nI look."), TextDelta("Done.")),
        (TextDelta("Done."),),
    ):
        output = TurnOutput()
        for event in (*events, reply(reasoning="It is in the notes.\nI look.")):
            output.show(event)
        captured = capsys.readouterr()
        assert captured.err == "· It is in the notes.\n· I look.\n"
        assert captured.out == "Done.\n"
