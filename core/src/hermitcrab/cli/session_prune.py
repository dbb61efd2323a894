"""``hermitcrab sessions prune`` and ``delete``: removing old sessions, and single ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.cli.session_upkeep import AgentUpkeep
    from hermitcrab.sessions.maintenance.plan import Removal
    from hermitcrab.sessions.maintenance.removing import Removed
    from hermitcrab.sessions.maintenance.upkeep import Outcome


@click.command("prune")
@click.option("--agent", "agent_id", help="Only the sessions of this agent.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option(
    "--enforce", is_flag=True, help="Remove it although session.maintenance.mode is warn."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@common_options
@pass_settings
def prune_command(
    settings: Settings, agent_id: str | None, dry_run: bool, enforce: bool, yes: bool, as_json: bool
) -> None:
    """Remove the sessions and files that are past what session.maintenance keeps; shows them first.

    A session that goes leaves its transcript as an archive, FILE.deleted.TIME, for as long as pruneAfter says. On a
    terminal it asks before it removes anything.
    """
    from hermitcrab.cli.output import note, print_json
    from hermitcrab.cli.session_upkeep import upkeeps

    with upkeeps(settings, agent_id) as found:
        acts = not dry_run and (enforce or settings.config().session.maintenance.mode == "enforce")
        due = any(each.plan.removals for each in found)
        if not as_json:
            _print_plans(found)
        if acts and due and not (yes or as_json) and _is_terminal():
            acts = click.confirm("Remove all of this?", err=True)
        outcomes = [_carry_out(each) for each in found] if acts else []
        if as_json:
            print_json(_as_json(found, outcomes, acts=acts))
        elif outcomes and due:
            _print_outcomes(outcomes)
        elif due and not (acts or dry_run or enforce):
            note("nothing was removed: session.maintenance.mode is warn; --enforce removes it")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _carry_out(each: AgentUpkeep) -> Outcome:
    from hermitcrab.cli.progress import ProgressBar

    with ProgressBar(f"agent {each.agent_id}") as bar:
        return each.upkeep.carry_out(each.plan, on_progress=bar.update)


def _print_plans(found: Sequence[AgentUpkeep]) -> None:
    from hermitcrab.cli.output import print_table, say, warn
    from hermitcrab.messages.media import shown_size
    from hermitcrab.sessions.maintenance.plan import describe_plan

    rows = [_row(removal) for each in found for removal in each.plan.removals]
    if rows:
        print_table(("what", "of", "size", "why"), rows, numbers={"size"})
        say()
    for each in found:
        prefix = f"agent {each.agent_id}: " if len(found) > 1 else ""
        say(f"{prefix}{describe_plan(each.plan)}; {each.plan.protected:,} protected")
        if each.plan.is_over_budget:
            left = shown_size(each.plan.bytes_after)
            warn(f"{prefix}{left} would be left, more than session.maintenance.maxDiskBytes")
    if not found:
        say("no sessions yet")


def _row(removal: Removal) -> Sequence[str]:
    from hermitcrab.messages.media import shown_size
    from hermitcrab.sessions.maintenance.plan import SessionRemoval

    if isinstance(removal, SessionRemoval):
        size = sum(file.bytes for file in (*removal.archived, *removal.deleted))
        what = "session" if removal.archived or not removal.deleted else "session, for good"
        return what, removal.entry.key, shown_size(size), removal.why
    of_whom = ", ".join(removal.keys) or "-"
    return removal.file.name, of_whom, shown_size(removal.file.bytes), removal.why


def _print_outcomes(outcomes: Sequence[Outcome]) -> None:
    from hermitcrab.cli.output import say, warn
    from hermitcrab.cli.wording import amount
    from hermitcrab.messages.media import shown_size

    sessions = sum(len(each.sessions) for each in outcomes)
    files = sum(len(each.removed) for each in outcomes) - sessions
    freed = shown_size(sum(each.freed_bytes for each in outcomes))
    say(f"removed {amount(sessions, 'session')} and {amount(files, 'file')}, {freed} are free")
    for each in outcomes:
        for skipped in each.skipped:
            what, of_whom, *_ = _row(skipped.removal)
            warn(f"{what} {of_whom} stays: {skipped.why}")


def _as_json(
    found: Sequence[AgentUpkeep], outcomes: Sequence[Outcome], *, acts: bool
) -> dict[str, Any]:
    from hermitcrab.cli.session_upkeep import removal_json, upkeep_json

    agents = []
    for number, each in enumerate(found):
        shown = upkeep_json(each) | {"due": [removal_json(one) for one in each.plan.removals]}
        if outcomes:
            outcome = outcomes[number]
            shown |= {
                "removed": [_removed_json(one) for one in outcome.removed],
                "skipped": [
                    removal_json(one.removal) | {"skipped": one.why} for one in outcome.skipped
                ],
            }
        agents.append(shown)
    return {"removes": acts, "agents": agents}


def _removed_json(removed: Removed) -> dict[str, Any]:
    from hermitcrab.cli.session_upkeep import removal_json

    return removal_json(removed.removal) | {"archives": [str(each) for each in removed.archives]}


@click.command("delete")
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@common_options
@pass_settings
def delete_command(settings: Settings, key: str, yes: bool, as_json: bool) -> None:
    """Delete the session KEY; its transcripts stay beside the others as FILE.deleted.TIME for a while.

    They are listed by `sessions list --archived`, and go when session.maintenance is enforced and pruneAfter is over.
    """
    from hermitcrab.cli.output import note, print_json, say
    from hermitcrab.cli.running import run
    from hermitcrab.cli.session_archives import stored_key

    stored = stored_key(settings, key)
    if not (yes or as_json) and _is_terminal() and not click.confirm(f"Delete {stored}?", err=True):
        note("nothing was deleted")
        return
    removed = run(_deleted(settings, stored))
    if as_json:
        print_json(_removed_json(removed))
        return
    say(f"deleted {stored}")
    for archive in removed.archives:
        note(f"kept as {archive}")


async def _deleted(settings: Settings, key: str) -> Removed:
    from hermitcrab.cli.opening import open_host

    async with open_host(settings) as host:
        return await host.delete_session(key)
