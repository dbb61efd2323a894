"""``hermitcrab status``: how a home stands, seen from another process than the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from pathlib import Path

    from hermitcrab.cli.inspection import EngineState, LoadedPlugins
    from hermitcrab.plugins.health import HealthReport

_SESSIONS_SHOWN = 5


@click.command("status")
@json_option
@common_options
@pass_settings
def status_command(settings: Settings, as_json: bool) -> None:
    """Show the model, the engine, memory and sessions, and what does not work as configured."""
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run

    report = run(_status(settings))
    if as_json:
        print_json(report)
    else:
        _print(report)


async def _status(settings: Settings) -> dict[str, Any]:
    import asyncio

    from hermitcrab._version import __version__
    from hermitcrab.cli.inspection import agents_in_use, engine_state, loaded_plugins
    from hermitcrab.cli.session_upkeep import upkeep_reports
    from hermitcrab.cli.sessions import all_entries
    from hermitcrab.messages.tokens import load_counter
    from hermitcrab.plugins.health import read_health

    home = settings.home_folder()
    config = settings.config()
    counter = await asyncio.to_thread(load_counter)
    with loaded_plugins(settings, config) as loaded:
        state = await engine_state(loaded)
        memory = [await _memory(loaded, agent_id) for agent_id in agents_in_use(loaded)]
        problems = [str(each) for each in loaded.plugins.diagnostics]
    return {
        "version": __version__,
        "home": str(home),
        "homeExists": home.is_dir(),
        "configFile": str(settings.config_file()),
        "configExists": settings.config_file().exists(),
        "model": config.agents.defaults.model or "offline/extractive",
        "contextTokens": config.agents.defaults.context_tokens,
        "tokenizer": counter.name,
        "engine": _engine_json(state),
        **_health_json(read_health(home / "health.sqlite")),
        "memory": memory,
        "memorySlot": config.plugins.slots.memory,
        "sessions": len(all_entries(home)),
        "sessionNotes": _session_notes(home),
        "upkeep": await asyncio.to_thread(upkeep_reports, settings),
        "plugins": problems,
    }


async def _memory(loaded: LoadedPlugins, agent_id: str) -> dict[str, Any]:
    from hermitcrab.agent.status import memory_line
    from hermitcrab.cli.inspection import opened_agent
    from hermitcrab.cli.memory import status_json

    async with opened_agent(loaded, agent_id) as agent:
        line = await memory_line(agent)
        known = None if agent.memory is None else status_json(await agent.memory.status())
        return {"agent": agent_id, "summary": line, "error": agent.memory_failure, "status": known}


def _session_notes(home: Path) -> list[str]:
    """What was done to the tables of sessions that their owner should know of, such as a rebuilding."""
    from hermitcrab.cli.sessions import agent_folders
    from hermitcrab.sessions.entries import SessionEntries

    found: list[str] = []
    for folder in agent_folders(home):
        entries = SessionEntries(folder / "sessions" / "sessions.sqlite")
        try:
            found += [f"agent {folder.name}: {note}" for note in entries.notes()]
        finally:
            entries.close()
    return found


def _engine_json(state: EngineState) -> dict[str, Any]:
    return {
        "selected": state.selected,
        "active": state.active,
        "degraded": state.reason,
        "hint": state.hint,
        "warnings": list(state.warnings),
    }


def _health_json(health: HealthReport) -> dict[str, Any]:
    return {
        "lastEngines": [
            {
                "sessionKey": use.session_key,
                "engine": use.engine_id,
                "degraded": use.degraded_reason,
                "usedAt": use.used_at,
            }
            for use in health.engines
        ],
        "quarantines": [
            {
                "engine": record.engine_id,
                "owner": record.owner,
                "operation": record.operation,
                "reason": record.reason,
                "failedAt": record.failed_at,
                "pid": record.pid,
            }
            for record in health.quarantines
        ],
        "healthError": health.error,
    }


def _print(report: dict[str, Any]) -> None:
    from hermitcrab.cli.output import print_fields, warn

    print_fields(_fields(report))
    engine = report["engine"]
    if engine["degraded"]:
        answering = f"the engine {engine['active']} answers" if engine["active"] else "no engine"
        warn(f"{answering}: {engine['degraded']}. {engine['hint'] or ''}".rstrip())
    for sentence in (*engine["warnings"], *report["plugins"], *report["sessionNotes"]):
        warn(sentence)
    for each in report["memory"]:
        if each["error"]:
            warn(f"agent {each['agent']}: {each['error']}")
    if report["healthError"]:
        warn(report["healthError"])


def _fields(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "version", report["version"]
    yield (
        "home",
        report["home"]
        + ("" if report["homeExists"] else " (not there yet: hermitcrab init creates it)"),
    )
    yield (
        "config",
        report["configFile"] + ("" if report["configExists"] else " (not there: defaults)"),
    )
    window = report["contextTokens"]
    yield "model", report["model"] + (f", window {window:,} tokens" if window else "")
    yield "tokenizer", report["tokenizer"]
    engine = report["engine"]
    answering = engine["active"] or "none"
    yield (
        "engine",
        engine["selected"]
        if answering == engine["selected"]
        else f"{engine['selected']} selected, {answering} answers",
    )
    yield "last used", "\n".join(_last_engines(report)) or "-"
    if report["quarantines"]:
        yield "quarantines", "\n".join(map(_quarantine, report["quarantines"]))
    yield "memory", _memory_lines(report)
    yield "sessions", f"{report['sessions']:,}"
    if report["upkeep"]:
        yield "upkeep", "\n".join(map(_upkeep_line, report["upkeep"]))


def _upkeep_line(report: dict[str, Any]) -> str:
    from hermitcrab.cli.output import show_time

    if "error" in report:
        return f"agent {report['agent']}: {report['error']}"
    line = f"agent {report['agent']}, {report['mode']}: {report['summary']}"
    if report["lastRemovedSessions"] is None:
        return line
    removed = f"{report['lastRemovedSessions']:,} sessions"
    return f"{line}; {show_time(report['lastRunAt'])} it removed {removed}"


def _last_engines(report: dict[str, Any]) -> Iterator[str]:
    from hermitcrab.cli.output import show_time

    uses = report["lastEngines"]
    for use in uses[:_SESSIONS_SHOWN]:
        degraded = f", degraded: {use['degraded']}" if use["degraded"] else ""
        yield f"{use['sessionKey']}: {use['engine']}{degraded} ({show_time(use['usedAt'])})"
    if len(uses) > _SESSIONS_SHOWN:
        yield f"and {len(uses) - _SESSIONS_SHOWN} more sessions"


def _quarantine(record: dict[str, Any]) -> str:
    from hermitcrab.cli.output import show_time

    return (
        f"{record['engine']} of {record['owner'] or 'no plugin'}, failed in {record['operation']}"
        f" ({show_time(record['failedAt'])}, process {record['pid']}): {record['reason']}"
    )


def _memory_lines(report: dict[str, Any]) -> str:
    if report["memorySlot"] == "none":
        return "off"
    lines = [f"agent {each['agent']}: {each['summary']}" for each in report["memory"]]
    return "\n".join(lines) or f"{report['memorySlot']}, not used yet"
