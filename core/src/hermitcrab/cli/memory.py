"""``hermitcrab memory``: what an agent knows, through the backend in the memory slot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.memory_copy import copy_command
from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.agent.agent import Agent
    from hermitcrab.memory.contract import (
        Explanation,
        MemoryBackend,
        MemoryStatus,
        ProbeResult,
        ReadResult,
        SearchResult,
        SyncReport,
    )
    from hermitcrab.memory.embeddings.resolution import EmbeddingChoice

agent_option = click.option("--agent", "agent_id", help="The agent; default the default agent.")
session_option = click.option(
    "--session",
    "session_key",
    help="Search as this session does: also the transcripts that it may see.",
)


@click.group("memory")
@common_options
def memory_command() -> None:
    """Index, search, read and copy memory."""


memory_command.add_command(copy_command)


@memory_command.command("index")
@click.option(
    "--force", is_flag=True, help="Index unchanged files again, and make vectors that cost money."
)
@agent_option
@json_option
@common_options
@pass_settings
def index_command(settings: Settings, force: bool, agent_id: str | None, as_json: bool) -> None:
    """Bring the index up to date with the files."""
    from hermitcrab.cli.output import print_json, say, warn
    from hermitcrab.cli.running import run
    from hermitcrab.cli.wording import amount

    report = run(_index(settings, agent_id, force=force))
    if as_json:
        print_json(_report_json(report))
        return
    say(
        f"{amount(report.indexed, 'file')} indexed, {report.unchanged:,} unchanged,"
        f" {report.removed:,} removed; {amount(report.chunks, 'chunk')}, {report.duration_s:.1f} s"
    )
    if report.embedded:
        say(f"{amount(report.embedded, 'text')} embedded")
    for skipped in report.skipped:
        warn(f"left out: {skipped}")
    if report.problem is not None:
        warn(report.problem)


@memory_command.command("search")
@click.argument("query")
@click.option("--max-results", type=click.IntRange(1, 100), help="At most this many results.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Only results from this score on.")
@session_option
@agent_option
@json_option
@common_options
@pass_settings
def search_command(
    settings: Settings,
    query: str,
    max_results: int | None,
    min_score: float | None,
    session_key: str | None,
    agent_id: str | None,
    as_json: bool,
) -> None:
    """Search memory for QUERY."""
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run

    result = run(_search(settings, agent_id, query, max_results, min_score, session_key))
    if as_json:
        print_json(_result_json(result))
    else:
        _print_result(result)


@memory_command.command("explain")
@click.argument("query")
@click.option(
    "--max-results", type=click.IntRange(1, 100), default=6, help="At most this many results."
)
@agent_option
@json_option
@common_options
@pass_settings
def explain_command(
    settings: Settings, query: str, max_results: int, agent_id: str | None, as_json: bool
) -> None:
    """Show why each result for QUERY ranks where it does."""
    from hermitcrab.cli.memory_explain import explanation_json, print_explanations
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run

    explanations = run(_explain(settings, agent_id, query, max_results))
    if as_json:
        print_json({"results": [explanation_json(each) for each in explanations]})
    else:
        print_explanations(explanations)


@memory_command.command("get")
@click.argument("path")
@click.option("--from", "start", type=click.IntRange(min=1), default=1, help="The first line.")
@click.option("--lines", type=click.IntRange(min=1), help="How many lines.")
@session_option
@agent_option
@json_option
@common_options
@pass_settings
def get_command(
    settings: Settings,
    path: str,
    start: int,
    lines: int | None,
    session_key: str | None,
    agent_id: str | None,
    as_json: bool,
) -> None:
    """Print lines of the memory file PATH, such as MEMORY.md."""
    from hermitcrab.cli.output import note, print_json, say
    from hermitcrab.cli.running import run
    from hermitcrab.errors import MemoryBackendError

    result = run(_get(settings, agent_id, path, start, lines, session_key))
    if result.status != "ok":
        raise MemoryBackendError("there is no such memory file", where=path)
    if as_json:
        print_json(_read_json(result))
        return
    say(result.text.removesuffix("\n"))
    if result.next_start is not None:
        note(f"more from line {result.next_start}")


@memory_command.command("status")
@click.option("--deep", is_flag=True, help="Ask the embedding provider for one vector.")
@agent_option
@json_option
@common_options
@pass_settings
def status_command(settings: Settings, deep: bool, agent_id: str | None, as_json: bool) -> None:
    """Show the state of the index."""
    from hermitcrab.cli.memory_details import detail_fields
    from hermitcrab.cli.memory_embeddings import (
        embedding_fields,
        embedding_warnings,
        embeddings_json,
    )
    from hermitcrab.cli.output import print_fields, print_json, warn
    from hermitcrab.cli.running import run

    status, choice, probe, fields = run(_status(settings, agent_id, deep=deep))
    if as_json:
        embeddings = embeddings_json(choice, probe)
        print_json(status_json(status) | fields | {"embeddings": embeddings})
        return
    print_fields(
        [
            ("backend", status.backend),
            ("index", str(status.index_path or "-")),
            ("files", f"{status.files:,}{' (some changed since)' if status.dirty else ''}"),
            ("chunks", f"{status.chunks:,}"),
            ("search", status.mode),
            *embedding_fields(choice, probe),
            *detail_fields(status.details),
        ]
    )
    for sentence in embedding_warnings(choice):
        warn(sentence)
    for sentence in (*status.notes, *(f"left out: {each}" for each in status.skipped)):
        warn(sentence)
    if status.last_error is not None:
        warn(f"the last error: {status.last_error}")


@asynccontextmanager
async def _backend(settings: Settings, agent_id: str | None) -> AsyncIterator[MemoryBackend]:
    async with _agent(settings, agent_id) as (_, memory):
        yield memory


@asynccontextmanager
async def _agent(
    settings: Settings, agent_id: str | None
) -> AsyncIterator[tuple[Agent, MemoryBackend]]:
    from hermitcrab.cli.opening import open_host
    from hermitcrab.errors import MemoryBackendError
    from hermitcrab.sessions.keys import normalise_agent_id

    async with open_host(settings) as host:
        agent = await host.agent(None if agent_id is None else normalise_agent_id(agent_id))
        if agent.memory is None:
            raise MemoryBackendError(
                agent.memory_failure or "memory is off",
                where="plugins.slots.memory",
                hint=None if agent.memory_failure else "Select a memory plugin in config.yaml.",
            )
        yield agent, agent.memory


async def _index(settings: Settings, agent_id: str | None, *, force: bool) -> SyncReport:
    from hermitcrab.cli.memory_details import cost_note
    from hermitcrab.cli.output import note
    from hermitcrab.cli.progress import ProgressBar

    async with _backend(settings, agent_id) as memory:
        cost = cost_note((await memory.status()).details) if force else None
        if cost is not None:
            note(cost)
        with ProgressBar("index") as bar:
            return await memory.sync("cli", force=force, progress=bar.update)


async def _search(
    settings: Settings,
    agent_id: str | None,
    query: str,
    max_results: int | None,
    min_score: float | None,
    session_key: str | None,
) -> SearchResult:
    from hermitcrab.config import agent_settings, default_agent_id

    config = settings.config()
    defaults = agent_settings(config, agent_id or default_agent_id(config)).memory_search.query
    async with _backend(settings, agent_id) as memory:
        return await memory.search(
            query,
            max_results=max_results or defaults.max_results,
            min_score=min_score,
            session_key=session_key,
        )


async def _explain(
    settings: Settings, agent_id: str | None, query: str, max_results: int
) -> tuple[Explanation, ...]:
    async with _backend(settings, agent_id) as memory:
        return await memory.explain(query, max_results=max_results)


async def _get(
    settings: Settings,
    agent_id: str | None,
    path: str,
    start: int,
    lines: int | None,
    session_key: str | None,
) -> ReadResult:
    async with _backend(settings, agent_id) as memory:
        return await memory.read_for(session_key, path, start=start, lines=lines)


async def _status(
    settings: Settings, agent_id: str | None, *, deep: bool
) -> tuple[MemoryStatus, EmbeddingChoice, ProbeResult | None, dict[str, Any]]:
    from hermitcrab.cli.memory_embeddings import probed
    from hermitcrab.cli.memory_report import report_fields
    from hermitcrab.memory.transcripts import effective_sources

    async with _agent(settings, agent_id) as (agent, memory):
        # The probe comes first: it finds out how long the vectors are.
        probe = await probed(agent.embeddings) if deep else None
        status = await memory.status()
        fields = report_fields(
            status,
            agent.embeddings,
            workspace=agent.workspace,
            sources=effective_sources(agent.settings.memory_search),
            extra_paths=agent.settings.memory_search.extra_paths,
        )
        return status, agent.embeddings, probe, fields


def _print_result(result: SearchResult) -> None:
    from hermitcrab.cli.output import note, say, warn
    from hermitcrab.cli.wording import amount

    for position, hit in enumerate(result.hits):
        if position:
            say()
        place = f"{hit.path}:{hit.start_line}-{hit.end_line}"
        say(f"{place}  {hit.score:.2f}  {hit.source}", dim=True)
        say(hit.snippet.rstrip())
    if not result.hits:
        note("nothing found")
    if result.hidden_sessions:
        note(f"{amount(result.hidden_sessions, 'transcript')} not searched: see --session")
    if result.degraded:
        warn(result.reason or f"the search was degraded to {result.mode}")


def _result_json(result: SearchResult) -> dict[str, Any]:
    return {
        "results": [
            {
                "path": hit.path,
                "startLine": hit.start_line,
                "endLine": hit.end_line,
                "score": hit.score,
                "snippet": hit.snippet,
                "source": hit.source,
            }
            for hit in result.hits
        ],
        "mode": result.mode,
        "degraded": result.degraded,
        "reason": result.reason,
    }


def _read_json(result: ReadResult) -> dict[str, Any]:
    return {
        "path": result.path,
        "text": result.text,
        "from": result.start,
        "lines": result.lines,
        "truncated": result.truncated,
        "nextFrom": result.next_start,
    }


def _report_json(report: SyncReport) -> dict[str, Any]:
    return {
        "indexed": report.indexed,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "chunks": report.chunks,
        "skipped": list(report.skipped),
        "durationMs": round(report.duration_s * 1000),
        "embedded": report.embedded,
        "problem": report.problem,
    }


def status_json(status: MemoryStatus) -> dict[str, Any]:
    """The state of a memory backend as JSON data."""
    return {
        "backend": status.backend,
        "files": status.files,
        "chunks": status.chunks,
        "indexPath": None if status.index_path is None else str(status.index_path),
        "dirty": status.dirty,
        "mode": status.mode,
        "skipped": list(status.skipped),
        "lastError": status.last_error,
        "notes": list(status.notes),
        "details": dict(status.details),
    }
