"""Handlers that take too long: cut where possible, named always (sessions 6.4)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.errors import HookError
from hermitcrab.hooks import (
    AgentEnd,
    BeforeMessageWrite,
    BeforePromptBuild,
    BeforeToolCall,
    GatewayStop,
    LlmInput,
    PromptBuild,
)
from hermitcrab.hooks.policy import HookPolicy
from hermitcrab.hooks.watchdog import Watchdog
from hermitcrab.messages import user

PROMPT = BeforePromptBuild(prompt="hi")
END = AgentEnd(messages=[], success=True)


async def hang() -> None:
    await asyncio.Event().wait()


async def test_a_hanging_handler_is_cancelled_at_its_timeout_and_named(
    hooks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Sessions 9.4, #48534: a hanging before_agent_start blocked the agent for ever."""
    ended = []

    async def hang_and_tell() -> None:
        try:
            await hang()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    hooks.add("before_prompt_build", hang_and_tell, plugin="slow", timeout_ms=20)
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    async with asyncio.timeout(5):
        built = await hooks.fire(PROMPT)
    assert built.prepend_context == "x"
    assert ended == ["cancelled"]
    plugin, hook, error = hooks.reports.failures[0]
    assert (plugin, hook) == ("slow", "before_prompt_build")
    assert isinstance(error, TimeoutError)
    assert "before_prompt_build handler of plugin slow" in caplog.text


async def test_the_operators_timeout_overrides_the_handlers_own(hooks: Any) -> None:
    """Sessions 9.4, #75158: a fixed budget made longer timeouts useless."""
    hooks.add(
        "before_prompt_build",
        hang,
        plugin="slow",
        timeout_ms=60_000,
        policy=HookPolicy(timeout_ms=50_000, timeouts={"before_prompt_build": 20}),
    )
    async with asyncio.timeout(5):
        assert await hooks.fire(PROMPT) is None
    assert hooks.reports.failed_plugins == ["slow"]


async def test_a_gate_that_hangs_refuses(hooks: Any) -> None:
    hooks.add("before_tool_call", hang, plugin="guard", timeout_ms=20)
    with pytest.raises(HookError, match=r"plugin guard.*TimeoutError"):
        await hooks.fire(BeforeToolCall(tool_name="exec", params={}))


async def test_a_handler_that_ignores_its_cancelling_is_left_behind(
    hooks: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hermitcrab.hooks.waiting.TIDY_UP_S", 0.02)
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    hooks.add("before_prompt_build", stubborn, plugin="stubborn", timeout_ms=20)
    async with asyncio.timeout(5):
        assert await hooks.fire(PROMPT) is None
    assert "goes on all the same" in caplog.text
    released.set()
    await hooks.dispatcher.close()


async def test_a_handler_that_cancels_itself_has_failed_and_the_turn_goes_on(hooks: Any) -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    def cancels_inline() -> None:
        raise asyncio.CancelledError

    hooks.add("before_prompt_build", cancels_itself, plugin="a")
    hooks.add("before_prompt_build", cancels_inline, plugin="b")
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    assert (await hooks.fire(PROMPT)).prepend_context == "x"
    assert hooks.reports.failed_plugins == ["a", "b"]


@pytest.mark.parametrize("event", [PROMPT, GatewayStop()])
async def test_cancelling_the_caller_cancels_the_handlers_and_propagates(
    hooks: Any, event: Any
) -> None:
    started, ended = asyncio.Event(), []

    async def wait_to_be_cancelled() -> None:
        started.set()
        try:
            await hang()
        finally:
            ended.append(1)

    for plugin in ("a", "b"):
        hooks.add(event.hook, wait_to_be_cancelled, plugin=plugin)
    turn = asyncio.create_task(hooks.fire(event))
    await started.wait()
    await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended
    assert hooks.reports.failures == []


async def test_a_slow_plain_function_is_named_while_and_after_it_runs_and_its_answer_counts(
    hooks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def slow() -> PromptBuild:
        # Long enough for the watchdog, which speaks after 50 ms from a thread of its own.
        deadline = time.monotonic() + 5
        while "still blocks the host" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
        return PromptBuild(prepend_context="late")

    hooks.add("before_prompt_build", slow, plugin="slow")
    assert (await hooks.fire(PROMPT)).prepend_context == "late"
    assert "before_prompt_build handler of plugin slow still blocks the host" in caplog.text
    assert hooks.reports.failed_plugins == ["slow"]
    assert "blocked the host" in str(hooks.reports.failures[0][2])


async def test_a_quick_plain_function_is_not_named(hooks: Any) -> None:
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    await hooks.fire(PROMPT)
    assert hooks.reports.failures == []


async def test_a_plain_function_that_returns_an_awaitable_is_awaited_within_its_time(
    hooks: Any,
) -> None:
    hooks.add("before_prompt_build", lambda: hang(), plugin="slow", timeout_ms=20)
    async with asyncio.timeout(5):
        assert await hooks.fire(PROMPT) is None
    assert isinstance(hooks.reports.failures[0][2], TimeoutError)


async def test_a_blocking_handler_runs_in_a_thread_and_is_given_up_at_its_timeout(
    hooks: Any,
) -> None:
    release = threading.Event()
    threads = []

    def answers() -> PromptBuild:
        threads.append(threading.current_thread())
        return PromptBuild(prepend_context="from a thread")

    def hangs() -> PromptBuild:
        release.wait(10)
        return PromptBuild(prepend_context="too late")

    hooks.add("before_prompt_build", hangs, plugin="slow", blocking=True, timeout_ms=20)
    hooks.add("before_prompt_build", answers, plugin="fine", blocking=True)
    async with asyncio.timeout(5):
        built = await hooks.fire(PROMPT)
    release.set()
    assert built.prepend_context == "from a thread"
    assert threads != [threading.main_thread()]
    assert hooks.reports.failed_plugins == ["slow"]


def test_a_blocking_handler_that_hangs_does_not_keep_the_process_from_ending() -> None:
    code = (
        "import asyncio, threading\n"
        "from hermitcrab.hooks.waiting import Strays, in_thread, within\n"
        "hang = in_thread(threading.Event().wait)\n"
        "try:\n"
        "    asyncio.run(within(hang, 0.02, name='x', strays=Strays()))\n"
        "except TimeoutError:\n"
        "    print('given up')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == "given up"


async def test_background_handlers_do_not_keep_the_caller_and_are_awaited_at_close(
    hooks: Any,
) -> None:
    """Sessions 9.4, #65544: a memory write at the end of a turn was lost when the process ended."""
    ended = []

    async def writes() -> None:
        await asyncio.sleep(0.02)
        ended.append("written")

    hooks.add("agent_end", writes, plugin="memory")
    hooks.fire_background(END)
    assert ended == []
    await hooks.dispatcher.close()
    assert ended == ["written"]


async def test_background_handlers_that_do_not_end_are_cancelled_at_close_and_named(
    hooks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooks.add("llm_input", hang, plugin="hanging")
    hooks.add("agent_end", lambda: None, plugin="fine")
    hooks.fire_background(
        LlmInput(run_id="r", session_id="s", provider="p", model="m", prompt="hi")
    )
    hooks.fire_background(END)
    async with asyncio.timeout(5):
        await hooks.dispatcher.close(grace_s=0.02)
    assert "llm_input handler of plugin hanging was still running at close" in caplog.text
    assert "fine" not in caplog.text
    assert len(asyncio.all_tasks()) == 1


async def test_a_failing_background_handler_is_reported(hooks: Any) -> None:
    async def fails() -> None:
        raise RuntimeError("broken")

    hooks.add("agent_end", fails, plugin="broken")
    hooks.fire_background(END)
    await hooks.dispatcher.close()
    assert hooks.reports.failed_plugins == ["broken"]


async def test_a_context_is_made_once_for_each_plugin_and_is_its_own(hooks: Any) -> None:
    seen: list[Any] = []
    for plugin in ("a", "b"):
        hooks.add(
            "agent_end", lambda ctx: seen.append(ctx), plugin=plugin, plugin_config={"of": plugin}
        )
    for _ in range(2):
        await hooks.fire(END)
    assert [(ctx.plugin_id, ctx.plugin_config["of"]) for ctx in seen] == [
        ("a", "a"),
        ("b", "b"),
    ] * 2
    assert seen[0] is seen[2]
    hooks.ctx = evolve(hooks.ctx, session_key="agent:main:other")
    await hooks.fire(END)
    assert {ctx.session_key for ctx in seen[4:]} == {"agent:main:other"}


async def test_every_call_is_counted_once_the_dispatcher_closes(hooks: Any) -> None:
    hooks.add("agent_end", lambda: None, plugin="quick")
    for _ in range(50):
        await hooks.fire(END)
    await hooks.dispatcher.close()
    assert hooks.reports.timings == [("quick", "agent_end")] * 50


async def test_a_handler_that_fires_another_hook_is_watched_as_before(
    hooks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def slow() -> None:
        hooks.fire_sync(BeforeMessageWrite(message=user("x")))
        deadline = time.monotonic() + 5
        while "still blocks the host" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)

    hooks.add("agent_end", slow, plugin="outer")
    hooks.add("before_message_write", lambda: None, plugin="inner")
    await hooks.fire(END)
    assert "agent_end handler of plugin outer still blocks the host" in caplog.text


def test_the_thread_that_watches_ends_when_nothing_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermitcrab.hooks.watchdog._IDLE_S", 0.05)
    before = set(threading.enumerate())
    watchdog = Watchdog(limit_s=0.02)
    watchdog.watch()
    (thread,) = set(threading.enumerate()) - before
    thread.join(timeout=10)
    assert not thread.is_alive()
    watchdog.watch()
    (again,) = set(threading.enumerate()) - before
    again.join(timeout=10)
    assert not again.is_alive()
