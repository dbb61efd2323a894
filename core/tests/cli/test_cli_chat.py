"""``hermitcrab run`` and ``hermitcrab chat`` without a terminal."""

from __future__ import annotations

import pytest

from hermitcrab.agent.events import Compacted, Flushed, Reply, ToolEnded, ToolStarted
from hermitcrab.cli.turn_output import TurnOutput
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.models.contract import TextDelta

FAILING_MODEL = """
from hermitcrab import hookimpl
from hermitcrab.errors import ModelUnavailableError
from hermitcrab.models import ChatModel

class Failing(ChatModel):
    id = "moody/one"

    async def complete(self, request):
        raise ModelUnavailableError("no answer today", where=self.id)

@hookimpl
def register_model_providers(registry):
    registry.register("moody", lambda provider_id, model, config: Failing())
"""


@pytest.fixture
def moody(distribution):
    distribution("moody-model", {"hermitcrab.plugins": "moody = moody_model"}, FAILING_MODEL)


def test_run_prints_the_reply_and_nothing_else_on_stdout(cli):
    cli("run", "-m", "The harbour code is 4711.")
    result = cli("run", "-m", "What is the harbour code?")
    assert "4711" in result.stdout
    assert "memory_search" not in result.stdout
    assert "· memory_search(" in result.stderr


def test_run_as_json(cli):
    reply = cli.json("run", "-m", "Hello", "--session", "desk")
    assert reply["sessionKey"] == "agent:main:desk"
    assert reply["text"]
    assert reply["engine"] == "legacy"
    assert reply["degraded"] == []
    assert set(reply["usage"]) == {"input", "output", "cacheRead", "cacheWrite"}


def test_run_reads_the_message_from_stdin_where_asked(cli):
    cli("run", "-m", "-", stdin="The harbour code is 4711.\n")
    assert "4711" in str(cli.json("sessions", "show", "main")["messages"][0])


def test_an_empty_message_is_wrong_usage(cli):
    assert "The message is empty" in cli("run", "-m", " ", code=2).stderr


def test_an_unknown_model_is_an_error(cli):
    for command in (["run", "-m", "hello"], ["chat"]):
        error = cli(*command, "--model", "nowhere/x", code=1).stderr
        assert "there is no provider 'nowhere'" in error


def test_a_model_that_fails_is_one_line_and_the_turn_is_kept(cli, moody):
    error = cli("run", "-m", "hello", "--model", "moody/one", code=1).stderr
    assert "moody/one: no answer today" in error
    messages = cli.json("sessions", "show", "main")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["stopReason"] == "error"


def test_chat_answers_each_line_of_stdin(cli):
    result = cli("chat", stdin="The harbour code is 4711.\n\nWhat is the harbour code?\n/status\n")
    assert result.stdout.count("This is the offline model") == 2
    assert "- The harbour code is 4711." in result.stdout
    assert "Model: offline/extractive" in result.stdout
    assert result.stderr.startswith(
        "session agent:main:main · model offline/extractive · window 32,000 tokens"
    )
    messages = cli.json("sessions", "show", "main")["messages"]
    assert [m["role"] for m in messages].count("user") == 2


def test_chat_says_at_the_start_what_is_degraded(cli):
    cli.configure("plugins:\n  slots:\n    contextEngine: legcy\n    memory: memory-cor\n")
    warnings = cli("chat", stdin="").stderr
    assert (
        "warning: the engine legacy answers: context engine 'legcy' is not registered" in warnings
    )
    assert "warning: memory backend 'memory-cor' is not registered" in warnings


def test_chat_goes_on_after_a_failure_and_exits_with_1(cli, moody):
    result = cli("chat", "--model", "moody/one", stdin="hello\n/status\n", code=1)
    assert "error: moody/one: no answer today" in result.stderr
    assert "Session: agent:main:main" in result.stdout


@pytest.mark.parametrize("farewell", ["/exit", "/quit"])
def test_chat_ends_with_a_farewell(cli, farewell):
    assert cli("chat", stdin=f"{farewell}\nnever said\n").stdout == ""


def reply(text: str, **more: object) -> Reply:
    return Reply(text=text, session_key="agent:main:main", session_id="s", engine="legacy", **more)


def shown(capsys, *events) -> tuple[str, str]:
    output = TurnOutput()
    for event in events:
        output.show(event)
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_text_is_shown_as_it_arrives_and_once(capsys):
    out, _ = shown(capsys, TextDelta("Good "), TextDelta("morning"), reply("Good morning"))
    assert out == "Good morning\n"


def test_a_reply_that_was_not_streamed_is_shown_whole(capsys):
    assert shown(capsys, reply("From a command"))[0] == "From a command\n"


def test_a_reply_that_a_plugin_changed_is_shown_too(capsys):
    out, _ = shown(capsys, TextDelta("bad word"), reply("good word"))
    assert out == "bad word\ngood word\n"


def test_a_silent_reply_shows_nothing(capsys):
    assert shown(capsys, TextDelta("NO_"), TextDelta("REPLY"), reply("", silent=True))[0] == ""


def test_text_that_only_begins_like_a_silent_reply_is_shown(capsys):
    assert shown(capsys, TextDelta("No"), TextDelta(" way"), reply("No way"))[0] == "No way\n"


def test_tools_flushes_and_compactions_are_lines_on_stderr(capsys):
    compaction = CompactionOutcome(
        status="compacted",
        trigger="preflight",
        tokens_before=9000,
        tokens_after=3000,
        messages_summarized=12,
        mode="model",
    )
    out, err = shown(
        capsys,
        TextDelta("Looking"),
        ToolStarted(call_id="c", name="read", arguments={"path": "a.md", "lines": 3}),
        ToolEnded(call_id="c", name="read", result="no such file", is_error=True),
        Flushed(FlushOutcome(path="memory/2026-10-05.md", bytes_written=1234)),
        Flushed(FlushOutcome(path="memory/2026-10-05.md", error="disk full")),
        Compacted(compaction),
        reply("Done", degraded=("memory is behind",)),
    )
    assert out == "Looking\nDone\n"
    assert err.splitlines() == [
        "· read(path=a.md, lines=3)",
        "·   read failed: no such file",
        "· saved 1,234 bytes to memory/2026-10-05.md",
        "· saving to memory failed: disk full",
        "· Compacted 12 messages: 9,000 → 3,000 tokens.",
        "warning: memory is behind",
    ]


def test_control_characters_of_a_model_do_not_reach_the_terminal(capsys):
    assert "\x1b" not in shown(capsys, TextDelta("a\x1b[2Jb"), reply("a\x1b[2Jb"))[0]
