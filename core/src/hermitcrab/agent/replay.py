"""Driving a recorded conversation through the real pipeline, turn by turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from hermitcrab.agent.assembled import AssembledContext
from hermitcrab.agent.clock import RecordedClock
from hermitcrab.agent.events import Compacted, Flushed, TurnEvent
from hermitcrab.agent.host import Host
from hermitcrab.agent.preparation import PreparedTurn, RefusedTurn, prepare_turn
from hermitcrab.agent.recording import (
    RecordedMessage,
    RecordedModel,
    RecordedStep,
    RecordedToolbox,
    RecordedTurn,
    first_moment,
    recorded_turns,
)
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.toolbox import run_call
from hermitcrab.agent.turn import Turn, TurnObserver
from hermitcrab.config import Config
from hermitcrab.errors import HermitcrabError
from hermitcrab.messages.build import user
from hermitcrab.messages.pairing import find_faults
from hermitcrab.messages.text import text_of, tool_calls_of
from hermitcrab.messages.types import Message
from hermitcrab.models.resolve import build_model
from hermitcrab.sessions.blobs.files import blob_folder, restore_entry
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.keys import normalise_agent_id
from hermitcrab.sessions.reading import ReadFaults, TranscriptContents, read_transcript

_ENDLESS = 10**9


@frozen(kw_only=True)
class ReplayOptions:
    """What to replay and how; ``until`` counts user turns, ``context_window`` is in tokens."""

    source: Path
    context_window: int | None = None
    engine: str | None = None
    agent_id: str = "main"
    model: str | None = None
    until: int | None = None


@frozen
class ReplayProgress:
    """How far a replay has come; ``events`` are what the turn told."""

    turn: int
    turns: int
    window_tokens: int
    events: Sequence[TurnEvent] = ()


@frozen(kw_only=True)
class ReplayStart:
    """Where a replay writes to, told before it begins; ``faults`` are those of the source."""

    session_key: str
    session_file: Path
    engine: str
    turns: int
    faults: ReadFaults
    degraded: str | None = None


class _Measurements:
    """What the requests of a replay looked like."""

    def __init__(self, on_request: Callable[[AssembledContext], None]) -> None:
        self._on_request = on_request
        self.peak = 0
        self.overflows = 0
        self.orphans = 0
        self.missing = 0
        self.window = 0
        self.current = 0
        self.compactions: list[dict[str, Any]] = []
        self.flushes: list[dict[str, Any]] = []
        self.turn_ms: list[float] = []

    def request(self, context: AssembledContext) -> None:
        self.current = context.request_tokens
        self.window = context.window
        self.peak = max(self.peak, context.request_tokens)
        self.overflows += context.request_tokens > context.window
        faults = find_faults(context.messages)
        self.orphans += faults.orphan_results
        self.missing += faults.missing_results
        self._on_request(context)

    def event(self, event: TurnEvent) -> None:
        if isinstance(event, Flushed):
            flush: dict[str, Any] = {
                "path": event.outcome.path,
                "bytes": event.outcome.bytes_written,
            }
            if event.outcome.error is not None:
                flush["error"] = event.outcome.error
            self.flushes.append(flush)
        elif isinstance(event, Compacted) and event.outcome.compacted:
            record = event.outcome.record()
            names = (
                "tokensBefore",
                "tokensAfter",
                "summaryTokens",
                "messagesSummarized",
                "identifiersRequired",
                "identifiersKept",
                "mode",
                "durationMs",
            )
            self.compactions.append({name: record[name] for name in names})


class _ReplayTurn(Turn):
    """A turn whose answers and results are recorded."""

    def __init__(
        self,
        session: SessionContext,
        prepared: PreparedTurn,
        toolbox: RecordedToolbox,
        *,
        recorded: RecordedTurn,
        model: RecordedModel,
        clock: RecordedClock,
        emit: Callable[[TurnEvent], None],
        observer: TurnObserver,
    ) -> None:
        super().__init__(
            session, prepared, toolbox, max_rounds=_ENDLESS, emit=emit, observer=observer
        )
        self._recorded = recorded
        self._steps = list(recorded.steps)
        self._step: RecordedStep | None = None
        self._results = toolbox
        self._model = model
        self._clock = clock

    async def _answer(self) -> Message | None:
        if self._step is None:
            await self._append_all(self._recorded.before)
        if not self._steps:
            return None
        self._step = self._steps.pop(0)
        self._model.next_answer = self._step.answer.message
        self._clock.advance(self._step.answer.moment)
        await super()._answer()
        return self._step.answer.message

    async def _run_tools(self, answer: Message) -> None:
        assert self._step is not None
        self._results.results = self._step.results
        for recorded in self._step.results:
            self._clock.advance(recorded.moment)
        for call in tool_calls_of(answer):
            await run_call(self.session, self.toolbox, call, run_id=self.run_id, emit=self._emit)
        await self._append_all(self._results.results)
        await self._append_all(self._step.others)

    async def _goes_on(self, answer: Message) -> bool:
        return bool(self._steps)

    async def _append_all(self, messages: Sequence[RecordedMessage]) -> None:
        for recorded in messages:
            self._clock.advance(recorded.moment)
            await self.session.append(recorded.message)


@frozen(kw_only=True)
class _Driver:
    """Everything that the turns of one replay share."""

    host: Host
    session: SessionContext
    model: RecordedModel
    clock: RecordedClock
    measurements: _Measurements

    async def run(self, turn: RecordedTurn) -> list[TurnEvent]:
        """Drive one recorded turn."""
        started = time.monotonic()
        events: list[TurnEvent] = []
        if turn.user is not None:
            self.clock.advance(turn.user.moment)
        prompt = text_of(turn.user.message) if turn.user else ""
        setup = await self.host.set_up(self.session, prompt)
        toolbox = RecordedToolbox.of(setup.toolbox)
        prepared = await prepare_turn(self.session, prompt, setup.system, setup.older)
        if isinstance(prepared, RefusedTurn):
            await self.session.append(user(prepared.text))
            return events

        def emit(event: TurnEvent) -> None:
            events.append(event)
            self.measurements.event(event)

        replayed = _ReplayTurn(
            self.session,
            prepared,
            toolbox,
            recorded=turn,
            model=self.model,
            clock=self.clock,
            emit=emit,
            observer=TurnObserver(on_request=self.measurements.request),
        )
        await replayed.run(_message_of(turn, prompt, prepared.text))
        self.measurements.turn_ms.append((time.monotonic() - started) * 1000)
        return events


def _message_of(turn: RecordedTurn, prompt: str, text: str) -> Message | None:
    """The recorded user message, with what plugins put around its text."""
    if turn.user is None:
        return None
    if text == prompt:
        return turn.user.message
    changed = turn.user.message.copy()
    changed["content"] = [{"type": "text", "text": text}]
    return changed


def replay_config(config: Config, options: ReplayOptions) -> Config:
    """The configuration with the window and the engine of a replay."""
    defaults = config.agents.defaults
    entries = config.agents.list
    if options.context_window is not None:
        defaults = evolve(defaults, context_tokens=options.context_window)
        entries = tuple(evolve(entry, context_tokens=None) for entry in entries)
    slots = config.plugins.slots
    if options.engine is not None:
        slots = evolve(slots, context_engine=options.engine)
    return evolve(
        config,
        agents=evolve(config.agents, defaults=defaults, list=entries),
        plugins=evolve(config.plugins, slots=slots),
    )


async def replay(
    options: ReplayOptions,
    *,
    home: Path,
    config: Config,
    plugins: Sequence[tuple[str, Any]] = (),
    safe_mode: bool = False,
    on_start: Callable[[ReplayStart], None] = lambda start: None,
    on_turn: Callable[[ReplayProgress], None] = lambda progress: None,
    on_request: Callable[[AssembledContext], None] = lambda context: None,
) -> dict[str, Any]:
    """Replay a transcript into a new session and report what happened, as JSON data.

    Flush and summaries use ``options.model``, by default the offline model. The clock is the recorded one.

    :param on_request: told of everything that the model would have been sent.

    :raises TranscriptError: if the source cannot be read.
    """
    contents = read_transcript(options.source)
    turns = _chosen(recorded_turns(_whole(contents)), options)
    clock = RecordedClock(first_moment(contents.entries))
    agent_id = normalise_agent_id(options.agent_id)
    key = f"agent:{agent_id}:replay:{contents.header['id'].lower()}"
    adjusted = replay_config(config, options)
    model = RecordedModel()
    started = time.monotonic()
    async with Host.open(
        home=home,
        config=adjusted,
        model=model,
        plugins=plugins,
        clock=clock,
        safe_mode=safe_mode,
    ) as host:
        model.inner = build_model(
            options.model,
            config.models.providers,
            host.plugins.registries.model_providers.values(),
        )
        session = await host.begin_session(key)
        degraded = session.engine.degradation()
        on_start(
            ReplayStart(
                session_key=key,
                session_file=session.log.file,
                engine=session.engine.selected_id,
                turns=len(turns),
                faults=contents.faults,
                degraded=None if degraded is None else f"{degraded.reason}. {degraded.hint}",
            )
        )
        driver = _Driver(
            host=host,
            session=session,
            model=model,
            clock=clock,
            measurements=_Measurements(on_request),
        )
        for number, turn in enumerate(turns, 1):
            events = await driver.run(turn)
            on_turn(ReplayProgress(number, len(turns), driver.measurements.current, tuple(events)))
        memory = await _memory_size(host, agent_id)
        total_ms = (time.monotonic() - started) * 1000
        return _report(options, contents, turns, driver, memory, total_ms)


def _whole(contents: TranscriptContents) -> list[Entry]:
    """The active branch with its media and large results: the new session keeps its own."""
    folder = blob_folder(contents.path)
    return [restore_entry(entry, folder) for entry in contents.branch()]


def _chosen(turns: list[RecordedTurn], options: ReplayOptions) -> list[RecordedTurn]:
    """The turns up to the wished number of user turns."""
    if not turns:
        raise HermitcrabError(
            "the transcript holds no messages", where=options.source, hint="Nothing was replayed."
        )
    if options.until is None:
        return turns
    lead = 0 if turns[0].user is not None else 1
    return turns[: lead + options.until]


async def _memory_size(host: Host, agent_id: str) -> dict[str, int]:
    agent = await host.agent(agent_id)
    if agent.memory is None:
        return {"files": 0, "chunks": 0}
    await agent.memory.sync("replay")
    status = await agent.memory.status()
    return {"files": status.files, "chunks": status.chunks}


def _report(
    options: ReplayOptions,
    contents: TranscriptContents,
    turns: Sequence[RecordedTurn],
    driver: _Driver,
    memory: dict[str, int],
    total_ms: float,
) -> dict[str, Any]:
    measured = driver.measurements
    session = driver.session
    messages = sum(entry["type"] == "message" for entry in contents.entries)
    degraded = session.engine.degradation()
    return {
        "source": {
            "path": str(options.source),
            "entries": len(contents.entries),
            "messages": messages,
            "badLines": len(contents.faults.bad_lines) + bool(contents.faults.unfinished_bytes),
        },
        "engine": session.engine.engine_id if degraded is None else "legacy",
        "degraded": None if degraded is None else f"{degraded.reason}. {degraded.hint}",
        "contextWindow": measured.window or session.window,
        "turns": sum(turn.user is not None for turn in turns),
        "peakTokens": measured.peak,
        "overflows": measured.overflows,
        "compactions": measured.compactions,
        "flushes": measured.flushes,
        "pairing": {"orphanResults": measured.orphans, "missingResults": measured.missing},
        "memory": memory,
        "timings": {
            "totalMs": round(total_ms),
            "turnP50Ms": _percentile(measured.turn_ms, 50),
            "turnP99Ms": _percentile(measured.turn_ms, 99),
        },
        "tokenizer": driver.host.counter.name,
        "sessionKey": session.log.key,
        "sessionFile": str(session.log.file),
    }


def _percentile(values: Sequence[float], percent: int) -> float:
    if not values:
        return 0.0
    if len(values) == 1:
        return round(values[0], 1)
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 1)
