"""The flush: a silent turn that may only append to the daily file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hermitcrab.errors import ModelUnavailableError
from hermitcrab.memory.flush import MAX_CALLS, FlushOutcome, run_flush
from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatReply, ChatRequest, TokenUsage

NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
TODAY = "memory/2026-03-01.md"

Step = Message | Exception


class ScriptedModel(ChatModel):
    """Answers with the steps given, then with NO_REPLY; keeps the requests."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        step = self.steps.pop(0) if self.steps else assistant("NO_REPLY")
        if isinstance(step, Exception):
            raise step
        return ChatReply(message=step, usage=TokenUsage(10, 1))

    def results(self) -> list[Message]:
        return [m for m in self.requests[-1].messages if m["role"] == "toolResult"]


def calling(name: str, **arguments: Any) -> Message:
    return assistant("", tool_calls=[{"id": "call_1", "name": name, "arguments": arguments}])


def writing(content: str, path: str = TODAY) -> Message:
    return calling("write", path=path, content=content)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "AGENTS.md").write_text("rules\n", encoding="utf-8")
    return root


@pytest.fixture
def flush(workspace: Path) -> Callable[..., Any]:
    async def run(model: ChatModel, **changes: Any) -> FlushOutcome:
        arguments: dict[str, Any] = {
            "messages": [user("The port is 5433.")],
            "workspace": workspace,
            "now": NOW,
            "zone": UTC,
            "lock_path": workspace.parent / "home" / "flush.lock",
        }
        return await run_flush(model, **(arguments | changes))

    return run


def daily(workspace: Path) -> str:
    return (workspace / TODAY).read_text(encoding="utf-8")


async def test_the_model_saves_a_fact_and_ends_silently(flush, workspace):
    model = ScriptedModel(writing("- The port is 5433."))
    outcome = await flush(model)
    assert daily(workspace) == "- The port is 5433.\n"
    assert outcome == FlushOutcome(
        path=TODAY, bytes_written=20, silent=True, calls=2, usage=TokenUsage(20, 2)
    )
    assert model.requests[0].purpose == "flush"
    assert [tool.name for tool in model.requests[0].tools] == ["read", "write"]


async def test_the_request_is_the_conversation_and_the_flush_prompt(flush):
    model = ScriptedModel()
    await flush(model, max_tokens=300)
    [request] = model.requests
    conversation, prompt = request.messages
    assert text_of(conversation) == "The port is 5433."
    assert prompt["role"] == "user"
    assert "YYYY" not in text_of(prompt)
    for hint in (TODAY, "append-only", "read-only", "NO_REPLY", "Current time: 2026-03-01 23:30"):
        assert hint in text_of(prompt)
    for hint in (TODAY, "append", "read-only", "NO_REPLY"):
        assert hint.lower() in request.system.lower()
    assert request.max_tokens == 300


async def test_our_prompts_fit_a_small_window(flush):
    model = ScriptedModel()
    await flush(model)
    [request] = model.requests
    assert (len(request.system) + len(text_of(request.messages[-1]))) / 4 < 250


async def test_the_operators_texts_get_the_hints_that_they_lack(flush):
    """The hints that keep files safe hold whatever the operator wrote (memory 8.3)."""
    model = ScriptedModel()
    await flush(model, prompt="Keep facts of YYYY-MM-DD.", system_prompt="Be brief.")
    [request] = model.requests
    prompt = text_of(request.messages[-1])
    assert prompt.startswith("Keep facts of 2026-03-01.\n")
    for text in (prompt, request.system):
        for hint in (f"Write only to {TODAY}.", "Append only", "read-only", "NO_REPLY"):
            assert hint in text
    assert "Current time:" in prompt


async def test_hints_that_the_operator_gave_are_not_repeated(flush):
    model = ScriptedModel()
    mine = (
        "Append to memory/YYYY-MM-DD.md; the rest is read-only. Else NO_REPLY. Current time: noon"
    )
    await flush(model, prompt=mine)
    prompt = text_of(model.requests[0].messages[-1])
    assert prompt == mine.replace("YYYY-MM-DD", "2026-03-01")


async def test_the_day_is_the_users(flush, workspace):
    """C68."""
    outcome = await flush(ScriptedModel(), zone=ZoneInfo("Asia/Tokyo"))
    assert outcome.path == "memory/2026-03-02.md"
    assert (workspace / "memory" / "2026-03-02.md").exists()


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "AGENTS.md", "memory/2026-03-01-2330.md", "../x.md", "/etc/passwd", None]
)
async def test_writing_anything_else_is_refused_and_the_model_told(flush, workspace, path):
    """C65: append-only is enforced in the tool, not only asked for."""
    model = ScriptedModel(calling("write", path=path, content="overwritten"))
    outcome = await flush(model)
    [result] = model.results()
    assert result["isError"] is True
    assert TODAY in text_of(result)
    assert outcome.bytes_written == 0
    assert outcome.error is None
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "rules\n"
    assert sorted(path.name for path in workspace.iterdir()) == ["AGENTS.md", "memory"]


async def test_a_second_flush_does_not_repeat_the_first(flush, workspace):
    """C67."""
    await flush(ScriptedModel(writing("## Facts\n- port 5433\n")))
    outcome = await flush(ScriptedModel(writing("## Facts\n- port 5433\n- user app\n")))
    assert daily(workspace) == "## Facts\n- port 5433\n\n## Facts\n- user app\n"
    assert outcome.bytes_written == len("\n## Facts\n- user app\n")


async def test_the_model_may_read_inside_the_workspace_only(flush, workspace):
    (workspace.parent / "secret.md").write_text("secret", encoding="utf-8")
    model = ScriptedModel(
        calling("read", path="AGENTS.md"),
        calling("read", path="../secret.md"),
        calling("read", path="memory/none.md"),
        calling("edit", path="AGENTS.md", oldText="rules", newText="none"),
        calling("read"),
    )
    await flush(model)
    results = model.results()
    assert text_of(results[0]) == "rules"
    assert [result["isError"] for result in results] == [False, True, True, True, True]
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "rules\n"
    assert "secret" not in text_of(results[1]).replace("secret.md", "")


async def test_every_call_of_one_reply_is_answered(flush, workspace):
    both = assistant(
        "",
        tool_calls=[
            {"id": "a", "name": "read", "arguments": {"path": "AGENTS.md"}},
            {"id": "b", "name": "write", "arguments": {"path": TODAY, "content": "- x"}},
        ],
    )
    model = ScriptedModel(both)
    await flush(model)
    assert [result["toolCallId"] for result in model.results()] == ["a", "b"]
    assert daily(workspace) == "- x\n"


async def test_a_model_that_never_stops_is_stopped(flush):
    model = ScriptedModel(*(calling("read", path="AGENTS.md") for _ in range(50)))
    outcome = await flush(model)
    assert outcome.calls == len(model.requests) == MAX_CALLS
    assert outcome.error is not None


async def test_what_was_saved_counts_even_if_the_model_never_stops(flush):
    outcome = await flush(ScriptedModel(*(writing(f"- {number}") for number in range(50))))
    assert outcome.bytes_written > 0
    assert outcome.error is None


async def test_an_answer_in_text_is_not_silent_and_no_failure(flush):
    outcome = await flush(ScriptedModel(assistant("Nothing new today.")))
    assert (outcome.silent, outcome.error) == (False, None)


@pytest.mark.parametrize("failure", [ModelUnavailableError("no answer"), RuntimeError("boom")])
async def test_a_failing_model_never_raises(flush, workspace, failure, caplog):
    """C73: the failure of a flush once replaced the user's reply."""
    outcome = await flush(ScriptedModel(writing("- kept"), failure))
    assert outcome.error is not None
    assert str(failure) in outcome.error
    assert daily(workspace) == "- kept\n"
    assert outcome.bytes_written == 7
    assert "memory flush failed" in caplog.text


async def test_a_model_that_hangs_is_given_up_on(flush):
    class Hanging(ScriptedModel):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await asyncio.Event().wait()
            raise AssertionError

    outcome = await flush(Hanging(), timeout_s=0.01)
    assert "no answer within 0.01 s" in (outcome.error or "")


async def test_a_long_error_is_cut(flush):
    outcome = await flush(ScriptedModel(RuntimeError("x" * 5000)))
    assert len(outcome.error) == 200


async def test_a_workspace_that_cannot_be_written_skips_the_flush(flush, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    model = ScriptedModel()
    for workspace in (tmp_path / "missing", tmp_path / "file"):
        outcome = await flush(model, workspace=workspace)
        assert "workspace" in outcome.error
    assert model.requests == []


async def test_a_read_only_workspace_skips_the_flush(flush, monkeypatch):
    monkeypatch.setattr("hermitcrab.memory.flush.os.access", lambda path, mode: False)
    model = ScriptedModel()
    outcome = await flush(model)
    assert "cannot be written" in outcome.error
    assert model.requests == []


async def test_a_target_that_is_no_daily_file_is_refused(flush, workspace):
    outcome = await flush(ScriptedModel(), target="MEMORY.md")
    assert "daily" in outcome.error
    assert not (workspace / "MEMORY.md").exists()


async def test_cancelling_propagates(flush):
    class Waiting(ScriptedModel):
        async def complete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(60)
            raise AssertionError

    task = asyncio.create_task(flush(Waiting()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
