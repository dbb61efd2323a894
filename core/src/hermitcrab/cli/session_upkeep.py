"""What of the sessions of a home is due to go, as several commands tell it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hermitcrab.cli.options import Settings

if TYPE_CHECKING:
    from hermitcrab.sessions.maintenance.plan import Plan, Removal
    from hermitcrab.sessions.maintenance.upkeep import LastRun, Upkeep


@frozen(kw_only=True)
class AgentUpkeep:
    """What is due among the sessions of one agent, and when a host last saw to them."""

    agent_id: str
    mode: str
    plan: Plan
    last_run: LastRun | None
    upkeep: Upkeep


@contextmanager
def upkeeps(settings: Settings, agent_id: str | None = None) -> Iterator[list[AgentUpkeep]]:
    """What is due for one agent or for all that have sessions, as long as the context lasts.

    :raises SessionError: if a table cannot be read whole.
    """
    from hermitcrab.agent.clock import system_clock
    from hermitcrab.cli.sessions import agent_folders
    from hermitcrab.sessions.entries import SessionEntries
    from hermitcrab.sessions.keys import normalise_agent_id
    from hermitcrab.sessions.maintenance.plan import Limits
    from hermitcrab.sessions.maintenance.upkeep import Upkeep

    session = settings.config().session
    wanted = None if agent_id is None else normalise_agent_id(agent_id)
    found, opened = [], []
    try:
        for folder in agent_folders(settings.home_folder()):
            if wanted not in {None, folder.name} or not (folder / "sessions").is_dir():
                continue
            entries = SessionEntries(folder / "sessions" / "sessions.sqlite")
            opened.append(entries)
            upkeep = Upkeep(
                entries,
                Limits.of(session.maintenance),
                clock=system_clock,
                main_key=session.main_key,
            )
            found.append(
                AgentUpkeep(
                    agent_id=folder.name,
                    mode=session.maintenance.mode,
                    plan=upkeep.plan(),
                    last_run=_last_run(entries),
                    upkeep=upkeep,
                )
            )
        yield found
    finally:
        for entries in opened:
            entries.close()


def _last_run(entries: Any) -> LastRun | None:
    from hermitcrab.errors import SessionError
    from hermitcrab.sessions.maintenance.upkeep import last_run

    try:
        return last_run(entries) if (entries.folder / "sessions.sqlite").exists() else None
    except SessionError:  # a folder that nobody may write to has no such record
        return None


def upkeep_reports(settings: Settings) -> list[dict[str, Any]]:
    """What is due for each agent, as JSON data; ``error`` says why it could not be found out."""
    from hermitcrab.cli.sessions import agent_folders
    from hermitcrab.errors import SessionError

    reports: list[dict[str, Any]] = []
    for folder in agent_folders(settings.home_folder()):
        try:
            with upkeeps(settings, folder.name) as found:
                reports += [upkeep_json(each) for each in found]
        except SessionError as error:
            reports.append({"agent": folder.name, "error": str(error)})
    return reports


def upkeep_json(each: AgentUpkeep) -> dict[str, Any]:
    """The sums of what is due, as JSON data; times are milliseconds, sizes bytes."""
    from hermitcrab.sessions.maintenance.plan import describe_plan

    plan, run = each.plan, each.last_run
    return {
        "agent": each.agent_id,
        "mode": each.mode,
        "summary": describe_plan(plan),
        "total": plan.sessions,
        "maxEntries": plan.limits.max_entries,
        "protected": plan.protected,
        "wouldPrune": plan.counts["age"],
        "wouldCap": plan.counts["cap"],
        "wouldRemoveSessions": len(plan.removed_sessions),
        "wouldRemoveFiles": len(plan.removals) - len(plan.removed_sessions),
        "totalBytes": plan.total_bytes,
        "bytesAfter": plan.bytes_after,
        "maxDiskBytes": plan.limits.max_bytes,
        "highWaterBytes": plan.limits.high_water if plan.limits.max_bytes else None,
        "isOverBudget": plan.is_over_budget,
        "lastRunAt": None if run is None else run.at,
        "lastRemovedSessions": None if run is None else run.sessions,
        "lastFreedBytes": None if run is None else run.freed_bytes,
    }


def removal_json(removal: Removal) -> dict[str, Any]:
    """One thing that is due, as JSON data."""
    from hermitcrab.sessions.maintenance.plan import SessionRemoval

    shown: dict[str, Any] = {"rule": removal.rule, "why": removal.why}
    if isinstance(removal, SessionRemoval):
        entry = removal.entry
        return shown | {
            "what": "session",
            "key": entry.key,
            "sessionId": entry.session_id,
            "updatedAt": entry.updated_at,
            "archived": [file.name for file in removal.archived],
            "deleted": [file.name for file in removal.deleted],
            "bytes": sum(file.bytes for file in (*removal.archived, *removal.deleted)),
            "freedBytes": removal.freed_bytes,
        }
    return shown | {
        "what": "file",
        "key": ", ".join(removal.keys) or None,
        "file": removal.file.name,
        "bytes": removal.file.bytes,
        "freedBytes": removal.freed_bytes,
    }
