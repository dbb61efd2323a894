"""``hermitcrab ltm``: the single memories of an agent, where its memory backend keeps such (memory 7.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from hermitcrab.cli.memory import agent_option
from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.memory.longterm import (
        LongTermStore,
        Memory,
        MemoryFilter,
        MemoryOrder,
        MigrationReport,
        RecallResult,
        StoreStats,
    )
    from hermitcrab.memory.longterm.transfer import ReadMemories, TransferReport

#: The least cosine of a result that shares no word with the query.
_MIN_SCORE = 0.3
_COLUMNS = "id,category,importance,createdAt,text"
_SHOWN_PROBLEMS = 10


@click.group("ltm")
@common_options
def ltm_command() -> None:
    """List, search, move and migrate single memories."""


@ltm_command.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=50, help="At most this many.")
@click.option("--order-by-created-at", is_flag=True, help="The newest first.")
@agent_option
@json_option
@common_options
@pass_settings
def list_command(
    settings: Settings, limit: int, order_by_created_at: bool, agent_id: str | None, as_json: bool
) -> None:
    """List memories."""
    from hermitcrab.cli.ltm_output import print_memories
    from hermitcrab.cli.running import run
    from hermitcrab.memory.longterm import MemoryOrder

    order = MemoryOrder() if order_by_created_at else None
    memories = run(_listed(settings, agent_id, limit, order, None))
    print_memories(memories, _COLUMNS, as_json=as_json)


@ltm_command.command("search")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=5, help="At most this many.")
@agent_option
@json_option
@common_options
@pass_settings
def search_command(
    settings: Settings, query: str, limit: int, agent_id: str | None, as_json: bool
) -> None:
    """Search memories for QUERY."""
    from hermitcrab.cli.ltm_output import print_recalled
    from hermitcrab.cli.running import run

    print_recalled(run(_recalled(settings, agent_id, query, limit)), as_json=as_json)


@ltm_command.command("query")
@click.option(
    "--filter",
    "filter_text",
    help='One comparison, such as "category = \'fact\'" or "importance >= 0.8".',
)
@click.option("--cols", "columns", default=_COLUMNS, help="Columns to show, parted by commas.")
@click.option("--order-by", help="A column, with :asc or :desc behind it.")
@click.option("--limit", type=click.IntRange(min=1), default=10, help="At most this many.")
@agent_option
@json_option
@common_options
@pass_settings
def query_command(
    settings: Settings,
    filter_text: str | None,
    columns: str,
    order_by: str | None,
    limit: int,
    agent_id: str | None,
    as_json: bool,
) -> None:
    """Show the memories that a comparison lets through."""
    from hermitcrab.cli.ltm_output import checked_columns, print_memories
    from hermitcrab.cli.running import run
    from hermitcrab.memory.longterm import MemoryFilter, MemoryOrder

    checked_columns(columns)
    where = None if filter_text is None else MemoryFilter.parse(filter_text)
    order = None if order_by is None else MemoryOrder.parse(order_by)
    memories = run(_listed(settings, agent_id, limit, order, where))
    print_memories(memories, columns, as_json=as_json)


@ltm_command.command("stats")
@agent_option
@json_option
@common_options
@pass_settings
def stats_command(settings: Settings, agent_id: str | None, as_json: bool) -> None:
    """Show how many memories there are, and what keeps them."""
    from hermitcrab.cli.ltm_output import print_stats
    from hermitcrab.cli.running import run

    print_stats(run(_stats(settings, agent_id)), as_json=as_json)


@ltm_command.command("export")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write into this file; default stdout.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@agent_option
@common_options
@pass_settings
def export_command(
    settings: Settings, output: Path | None, force: bool, agent_id: str | None
) -> None:
    """Write all memories as lines of JSON."""
    from hermitcrab.cli.output import note
    from hermitcrab.cli.running import run
    from hermitcrab.cli.session_export import write_output
    from hermitcrab.cli.wording import amount

    lines = run(_export(settings, agent_id))
    if output is None:
        for line in lines:
            click.echo(line, nl=False)
        return
    write_output(lines, output, force=force)
    note(f"{amount(len(lines), 'memory', 'memories')} written to {output}")


@ltm_command.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@agent_option
@json_option
@common_options
@pass_settings
def import_command(settings: Settings, file: IO[str], agent_id: str | None, as_json: bool) -> None:
    """Take in the memories of FILE, lines of JSON; - is stdin. What is there already stays."""
    import time

    from hermitcrab.cli.ltm_output import print_import
    from hermitcrab.cli.running import run
    from hermitcrab.memory.longterm.transfer import read_memories

    read = read_memories(file, now_ms=time.time_ns() // 1_000_000)
    print_import(run(_import(settings, agent_id, read)), as_json=as_json, most=_SHOWN_PROBLEMS)


@ltm_command.command("migrate")
@agent_option
@json_option
@common_options
@pass_settings
def migrate_command(settings: Settings, agent_id: str | None, as_json: bool) -> None:
    """Make the vectors anew with the present embedding model."""
    from hermitcrab.cli.ltm_output import print_migration
    from hermitcrab.cli.running import run

    print_migration(run(_migrate(settings, agent_id)), as_json=as_json)


@asynccontextmanager
async def _store(settings: Settings, agent_id: str | None) -> AsyncIterator[LongTermStore]:
    from hermitcrab.cli.opening import open_host
    from hermitcrab.errors import MemoryBackendError
    from hermitcrab.sessions.keys import normalise_agent_id

    async with open_host(settings) as host:
        agent = await host.agent(None if agent_id is None else normalise_agent_id(agent_id))
        store = None if agent.memory is None else agent.memory.long_term
        if store is None:
            slot = settings.config().plugins.slots.memory
            raise MemoryBackendError(
                agent.memory_failure or f"'{slot}' keeps no single memories",
                where="plugins.slots.memory",
                hint="memory-lancedb and memory-chroma keep single memories; select one of them in config.yaml",
            )
        yield store


async def _listed(
    settings: Settings,
    agent_id: str | None,
    limit: int,
    order_by: MemoryOrder | None,
    where: MemoryFilter | None,
) -> tuple[Memory, ...]:
    async with _store(settings, agent_id) as store:
        return await store.listed(limit=limit, order_by=order_by, where=where)


async def _recalled(
    settings: Settings, agent_id: str | None, query: str, limit: int
) -> RecallResult:
    async with _store(settings, agent_id) as store:
        return await store.recall(query, limit=limit, min_score=_MIN_SCORE)


async def _stats(settings: Settings, agent_id: str | None) -> StoreStats:
    """What the store says, with what capture has counted, if anything."""
    from attrs import evolve

    from hermitcrab.config import default_agent_id
    from hermitcrab.memory.longterm import capture_report
    from hermitcrab.sessions.keys import normalise_agent_id

    async with _store(settings, agent_id) as store:
        stats = await store.stats()
    agent = normalise_agent_id(agent_id) if agent_id else default_agent_id(settings.config())
    counts = await asyncio.to_thread(capture_report, settings.home_folder(), agent)
    return evolve(stats, details={**stats.details, "capture": counts}) if counts else stats


async def _export(settings: Settings, agent_id: str | None) -> list[bytes]:
    import json

    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.memory.longterm.transfer import all_memories, memory_data

    lines: list[bytes] = []
    async with _store(settings, agent_id) as store:
        total = await store.count()
        with ProgressBar("export") as bar:
            async for memory in all_memories(store):
                line = json.dumps(memory_data(memory), ensure_ascii=False)
                lines.append(f"{line}\n".encode("utf-8", "backslashreplace"))
                bar.update(len(lines), max(total, len(lines)), memory.text)
    return lines


async def _import(settings: Settings, agent_id: str | None, read: ReadMemories) -> TransferReport:
    from attrs import evolve

    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.memory.longterm.transfer import take_in

    async with _store(settings, agent_id) as store:
        with ProgressBar("import") as bar:
            report = await take_in(store, read.memories, undated=read.undated, progress=bar.update)
    return evolve(report, problems=(*read.problems, *report.problems))


async def _migrate(settings: Settings, agent_id: str | None) -> MigrationReport:
    from hermitcrab.cli.progress import ProgressBar

    async with _store(settings, agent_id) as store:
        with ProgressBar("migrate") as bar:
            return await store.migrate(progress=bar.update)
