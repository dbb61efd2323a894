"""Running subagents: a session starts another one for a task and gets its result back (context 1.4, sessions 5.5)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Protocol

from attrs import evolve

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.events import Reply
from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.running import END_S
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.subagents.announcing import Announcer
from hermitcrab.agent.subagents.spawning import (
    ANNOUNCED,
    SpawnOutcome,
    SpawnRequest,
    SpawnResult,
    announcement_of,
    check_limits,
    may_spawn,
    parse_spawn_call,
    spawn_schema,
    task_provenance,
    told,
)
from hermitcrab.agent.subagents.starting import SubagentRun, SubagentStarter
from hermitcrab.agent.tools import Tool, ToolContext
from hermitcrab.context.contract import has_method
from hermitcrab.errors import HermitcrabError, SpawnRefusedError, ToolError
from hermitcrab.hooks import (
    SubagentDeliveryTarget,
    SubagentEnded,
    SubagentSpawned,
)
from hermitcrab.sessions.keys import subagent_key

logger = logging.getLogger("hermitcrab.agent")

#: How long the end of the host waits for results that a running turn keeps from their conversation, in seconds.
HAND_OVER_S = 5.0


class TurnRunner(Protocol):
    """What runs the turns of subagents and knows who holds a session."""

    def turn(self, key: str) -> asyncio.Lock: ...
    async def run_unheard(
        self, key: str, text: str, *, provenance: Mapping[str, Any], run_id: str
    ) -> Reply: ...


class Subagents:
    """The subagents of one host."""

    def __init__(self, services: Services, opener: SessionOpener, turns: TurnRunner) -> None:
        self._services = services
        self._opener = opener
        self._turns = turns
        self._runs: dict[str, SubagentRun] = {}
        self._starter = SubagentStarter(services, opener)
        self._announcer = Announcer(opener, turns.turn)
        self._closing = False

    async def spawn(self, parent_key: str, request: SpawnRequest) -> SpawnResult:
        """Run a subagent and wait for its result; cancelling the caller ends it.

        :raises SpawnRefusedError: if it may not start, or could not be prepared.
        :raises ConfigError: if nobody knows the model.
        """
        if self._closing:
            raise SpawnRefusedError("the host is closing", where=parent_key)
        parent = await self._opener.open(parent_key)
        run = self._admit(parent, request)
        try:
            await self._starter.start(run)
            run.driver = asyncio.create_task(self._drive(run))
        except BaseException:
            self._runs.pop(run.key, None)
            raise
        try:
            return await asyncio.shield(run.driver)
        except asyncio.CancelledError:
            run.stop("killed")
            await _settled(run.driver)
            raise

    def tools_for(self, key: str, agent: Agent) -> list[Tool]:
        """The tools of a session that concern subagents: none where its depth allows it no subagent."""
        if not may_spawn(key, agent.settings):
            return []
        return [Tool(spawn_schema(agent.settings), self._run_tool)]

    async def end_children(self, parent_key: str, outcome: SpawnOutcome) -> None:
        """End the subagents of a session and wait until they are over."""
        children = [run for run in self._runs.values() if run.parent.log.key == parent_key]
        for run in children:
            run.stop(outcome)
        drivers = [run.driver for run in children if run.driver is not None]
        if drivers:
            await asyncio.wait(drivers, timeout=END_S)

    def stop(self) -> None:
        """Let no further subagent start, and end those that run."""
        self._closing = True
        for run in self._others():
            run.stop("killed")

    async def close(self) -> None:
        """Wait for what :meth:`stop` has ended, and for results that are still to be handed over."""
        drivers = {run.driver for run in self._others() if run.driver is not None}
        await _over(drivers, END_S, "a subagent was still ending at close and is left behind")
        late = "a subagent's result could not be handed over before the host closed"
        await _over(self._announcer.waiting, HAND_OVER_S, late)

    def _others(self) -> list[SubagentRun]:
        """All runs but the one that asks: a subagent, too, may end the host that it runs in."""
        own = asyncio.current_task()
        return [run for run in self._runs.values() if run.turn is None or run.turn is not own]

    # -- the start ----------------------------------------------------------------------------

    def _admit(self, parent: SessionContext, request: SpawnRequest) -> SubagentRun:
        """Check the limits and take a place among the running ones in one step, so that no two take the last one."""
        entry = parent.log.entry
        running = sum(run.parent.log.key == entry.key for run in self._runs.values())
        depth = check_limits(entry, parent.parts.settings, request, running)
        agent_id = request.agent_id or parent.parts.settings.agent_id
        key = subagent_key(entry.key, agent_id, str(uuid.uuid4()))
        run = self._runs[key] = SubagentRun(request=request, parent=parent, key=key, depth=depth)
        return run

    # -- the run ------------------------------------------------------------------------------

    async def _drive(self, run: SubagentRun) -> SpawnResult:
        """Run the turn of a subagent to its end, whatever that is."""
        run.turn = asyncio.create_task(
            self._turns.run_unheard(
                run.key,
                run.request.prompt,
                provenance=task_provenance(run.parent.log.key),
                run_id=run.run_id,
            )
        )
        await self._fire_spawned(run)
        if run.stopped is None:
            await asyncio.wait({run.turn}, timeout=run.timeout_s)
        if not run.turn.done():
            run.stop("timeout")
            await asyncio.wait({run.turn}, timeout=END_S)
        return await self._end(run, _result_of(run, run.turn))

    async def _fire_spawned(self, run: SubagentRun) -> None:
        provider, _, model = run.model_id.partition("/")
        await run.parent.fire(
            SubagentSpawned(
                run_id=run.run_id,
                child_session_key=run.key,
                agent_id=run.agent_id,
                label=run.request.label,
                requester=run.requester,
                resolved_model=model or None,
                resolved_provider=provider or None,
            )
        )

    async def _end(self, run: SubagentRun, result: SpawnResult) -> SpawnResult:
        try:
            if result.outcome != "ok":
                await self.end_children(run.key, "killed")
            if result.outcome == "timeout":
                await self._note_timeout(run)
            await self._tell_engine(run, result.outcome)
            if result.outcome in ANNOUNCED:
                result = evolve(result, delivery=await self._delivery(run))
            await run.parent.fire(
                SubagentEnded(
                    target_session_key=run.key,
                    reason=run.request.end_reason(result.outcome),
                    run_id=run.run_id,
                    ended_at=self._services.now_ms(),
                    outcome=result.outcome,
                    error=result.error,
                )
            )
        finally:
            self._runs.pop(run.key, None)
        if run.request.announce and result.outcome in ANNOUNCED:
            message = announcement_of(result, run.request.label, self._services.now_ms())
            result = evolve(result, announcement=message)
            await self._announcer.announce(run.parent, message)
        await self._clean_up(run)
        return result

    async def _clean_up(self, run: SubagentRun) -> None:
        """Delete the session, or let go of it, so that many subagents do not fill the memory of a long-lived host."""
        if run.request.cleanup == "keep" and self._turns.turn(run.key).locked():
            return  # somebody talks to it
        try:
            async with self._turns.turn(run.key):
                if run.request.cleanup == "delete":
                    await self._opener.delete(run.key)
                elif not self._closing:
                    await self._opener.release(run.key)
        except HermitcrabError as error:
            logger.warning("%s", error, extra={"session_key": run.key})

    async def _note_timeout(self, run: SubagentRun) -> None:
        """The turn knows only that it was cancelled."""
        if run.child is None:
            return
        try:
            await run.child.log.update_entry(
                record=False, policy="preserve-activity", status="timeout", aborted_last_run=None
            )
        except HermitcrabError as error:
            logger.warning("%s", error, extra={"session_key": run.key})

    async def _tell_engine(self, run: SubagentRun, outcome: SpawnOutcome) -> None:
        engine = run.parent.engine.engine
        if not has_method(engine, "on_subagent_ended"):
            return
        try:
            reason = run.request.end_reason(outcome)
            await engine.on_subagent_ended(child_session_key=run.key, reason=reason)
        except Exception as error:
            logger.warning(
                "engine %s failed in on_subagent_ended: %s",
                run.parent.engine.engine_id,
                error,
                exc_info=True,
                extra={"session_key": run.key, "plugin_id": run.parent.engine.engine_id},
            )

    async def _delivery(self, run: SubagentRun) -> Mapping[str, Any] | None:
        target = await run.parent.fire(
            SubagentDeliveryTarget(
                child_session_key=run.key,
                requester_session_key=run.parent.log.key,
                requester_origin=run.parent.log.entry.origin,
                child_run_id=run.run_id,
                spawn_mode="run",
                expects_completion_message=run.request.announce,
            )
        )
        return None if target is None else target.origin

    async def _run_tool(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """The model gets the result as that of its call, and nothing else is appended."""
        request = parse_spawn_call(arguments)
        try:
            result = await self.spawn(context.session_key, request)
        except SpawnRefusedError as error:
            raise ToolError(str(error)) from error
        if result.outcome != "ok":
            raise ToolError(f"the subagent ended with {result.outcome}: {told(result)}")
        return told(result)


def _result_of(run: SubagentRun, turn: asyncio.Task[Reply]) -> SpawnResult:
    result = SpawnResult(
        session_key=run.key,
        session_id=run.session_id,
        run_id=run.run_id,
        outcome=run.stopped or "killed",
        duration_ms=round((time.monotonic() - run.started) * 1000),
    )
    if not turn.done() or turn.cancelled():
        return result
    error = turn.exception()
    if error is not None:
        return evolve(result, outcome=run.stopped or "error", error=str(error))
    reply = turn.result()
    return evolve(result, outcome="ok", text=reply.text, usage=reply.usage)


async def _over(tasks: Collection[asyncio.Task[Any]], seconds: float, complaint: str) -> None:
    """Wait for tasks, and cancel those that take too long."""
    if not tasks:
        return
    _, late = await asyncio.wait([*tasks], timeout=seconds)
    for task in late:
        logger.warning("%s", complaint)
        task.cancel()


async def _settled(task: asyncio.Task[Any]) -> None:
    """Wait for a task that is ending, however often the caller is told to stop."""
    until = time.monotonic() + END_S
    while not task.done() and time.monotonic() < until:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=until - time.monotonic())
    if task.done() and not task.cancelled():
        task.exception()  # whoever is cancelled hears of no other failure
