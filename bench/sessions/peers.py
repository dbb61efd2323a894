"""Appends per second beside other session stores, at equal durability."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import frozen
from bench.harness import Absent, Report, Row, Run, Side, compare

from hermitcrab import Host
from hermitcrab.sessions.format import Entry, IdSource, iso, new_header
from hermitcrab.sessions.transcript import AppendResult, JsonlTranscriptStore, Position

from . import langgraph, openai_agents
from .homes import KEY, sample_message, sessions_in
from .scale import Scale

BATCH = CALLERS = 100
_EXPLANATION = (
    "Ratio: what the second takes in units of the first, per call; above 1 hermitcrab is ahead.\n"
    "disk: every call waits until the disk has it (durability `message`; WAL with synchronous = full).\n"
    "system: the operating system has it, and a crash of the process loses nothing "
    "(durability `os`; WAL with synchronous = normal)."
)


@frozen
class Durability:
    """One level of durability: its name here, our setting and SQLite's."""

    name: str
    ours: str
    synchronous: str


LEVELS = (Durability("disk", "message", "full"), Durability("system", "os", "normal"))

Comparison = Callable[[Path, Scale, Durability], Awaitable[Row]]


async def beside_peers(folder: Path, scale: Scale) -> Report:
    """Every comparison at every level; a peer that cannot be imported is reported as absent."""
    comparisons: tuple[tuple[str, str, Comparison], ...] = (
        ("append one message", openai_agents.DISTRIBUTION, _one_beside_openai_agents),
        (f"append {BATCH} messages at once", openai_agents.DISTRIBUTION, _batch_beside_openai),
        (f"{CALLERS} callers at once", openai_agents.DISTRIBUTION, _many_beside_openai_agents),
        ("append one message", langgraph.DISTRIBUTION, _one_beside_saver),
        ("append one message, blocking call", langgraph.DISTRIBUTION, _blocking_beside_saver),
        ("Host.session append, and a graph's step", langgraph.DISTRIBUTION, _host_beside_graph),
    )
    rows: list[Row | Absent] = []
    for index, (what, distribution, comparison) in enumerate(comparisons):
        for level in LEVELS:
            place = folder / f"{index}-{level.name}"
            await asyncio.to_thread(place.mkdir, parents=True)
            try:
                rows.append(await comparison(place, scale, level))
            except ImportError as error:
                rows.append(Absent(f"{what} ({level.name})", f"{distribution}: {error}"))
    return Report("peers", "Appends beside other session stores", _EXPLANATION, rows)


async def _one_beside_openai_agents(folder: Path, scale: Scale, level: Durability) -> Row:
    return await _beside_openai_agents(folder, scale, level, 1)


async def _batch_beside_openai(folder: Path, scale: Scale, level: Durability) -> Row:
    return await _beside_openai_agents(folder, scale, level, BATCH)


async def _beside_openai_agents(folder: Path, scale: Scale, level: Durability, batch: int) -> Row:
    session = openai_agents.open_session(folder / "peer.sqlite", level.synchronous)
    try:
        async with _appends(folder, level, batch) as ours:
            return await compare(
                f"append {'one message' if batch == 1 else f'{batch} messages at once'} ({level.name})",
                ours,
                Side(
                    f"SQLiteSession {_version(openai_agents.DISTRIBUTION)}",
                    openai_agents.appends(session, batch),
                ),
                count=scale.cheap if batch == 1 else scale.dear,
                runs=scale.runs,
            )
    finally:
        session.close()


async def _many_beside_openai_agents(folder: Path, scale: Scale, level: Durability) -> Row:
    session = openai_agents.open_session(folder / "peer.sqlite", level.synchronous)
    try:
        async with sessions_in(folder / "home", level.ours) as sessions:
            log = await sessions.open(KEY)
            message = sample_message()

            async def run(count: int) -> None:
                for _ in range(count):
                    await asyncio.gather(*(log.append_messages([message]) for _ in range(CALLERS)))

            return await compare(
                f"{CALLERS} callers at once append one message each ({level.name})",
                Side("append_messages", run),
                Side(
                    f"SQLiteSession {_version(openai_agents.DISTRIBUTION)}",
                    openai_agents.appends_of_many(session, CALLERS),
                ),
                count=scale.dear,
                runs=scale.runs,
            )
    finally:
        session.close()


async def _one_beside_saver(folder: Path, scale: Scale, level: Durability) -> Row:
    async with (
        langgraph.open_saver(folder / "peer.sqlite", level.synchronous) as saver,
        _appends(folder, level, 1) as ours,
    ):
        return await compare(
            f"append one message ({level.name})",
            ours,
            Side(f"AsyncSqliteSaver.aput, {_saver_version()}", langgraph.puts(saver)),
            count=scale.cheap,
            runs=scale.runs,
        )


async def _blocking_beside_saver(folder: Path, scale: Scale, level: Durability) -> Row:
    saver = langgraph.open_blocking_saver(folder / "peer.sqlite", level.synchronous)
    try:
        return await compare(
            f"append one message, blocking call ({level.name})",
            Side("TranscriptStore.append", _blocking_appends(folder, level)),
            Side(f"SqliteSaver.put, {_saver_version()}", langgraph.blocking_puts(saver)),
            count=scale.cheap,
            runs=scale.runs,
        )
    finally:
        saver.conn.close()


async def _host_beside_graph(folder: Path, scale: Scale, level: Durability) -> Row:
    config = folder / "config.yaml"
    await asyncio.to_thread(config.write_text, f"session:\n  durability: {level.ours}\n")
    async with (
        langgraph.open_saver(folder / "peer.sqlite", level.synchronous) as saver,
        Host.open(home=folder / "home", config=config, environ={}) as host,
    ):
        return await compare(
            f"add one message as a user does ({level.name})",
            Side("Host.session append", await _host_appends(host)),
            Side(
                f"graph of one node, {_version(langgraph.DISTRIBUTION)}",
                langgraph.graph_steps(saver),
            ),
            count=scale.dear,
            runs=scale.runs,
        )


@asynccontextmanager
async def _appends(folder: Path, level: Durability, batch: int) -> AsyncIterator[Side]:
    async with sessions_in(folder / "home", level.ours) as sessions:
        log = await sessions.open(KEY)
        message = sample_message()

        async def run(count: int) -> None:
            for _ in range(count):
                await log.append_messages([message] * batch)

        yield Side("append_messages", run)


def _blocking_appends(folder: Path, level: Durability) -> Run:
    store, ids, message = JsonlTranscriptStore(folder / "home"), IdSource(), sample_message()
    position = store.create(new_header("blocking", datetime.now(UTC), cwd=""))

    async def run(count: int) -> None:
        nonlocal position
        for _ in range(count):
            entry: Entry = {
                "type": "message",
                "id": ids.next(),
                "timestamp": iso(datetime.now(UTC)),
                "message": message,
            }
            position = _append_blocking(store, position, entry, level).position

    return run


def _append_blocking(
    store: JsonlTranscriptStore, position: Position, entry: Entry, level: Durability
) -> AppendResult:
    return store.append(
        "blocking",
        position,
        lambda leaf_id, found: [entry],
        purpose="append",
        flush=level.ours == "message",
    )


async def _host_appends(host: Host) -> Run:
    session = await host.session(KEY)
    message = sample_message()

    async def run(count: int) -> None:
        for _ in range(count):
            await session.append(message)

    return run


def _saver_version() -> str:
    return _version("langgraph-checkpoint-sqlite")


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of unknown version"
