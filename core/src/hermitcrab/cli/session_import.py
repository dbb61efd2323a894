"""``hermitcrab sessions import``: conversations of other programs, and of other homes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.sessions.importing.importing import ImportedSession, ImportReport

#: So many lines of one kind are printed; ``--json`` has all.
_LINES = 40


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--key", help="The session key for the one conversation that is imported.")
@click.option(
    "--agent", "agent_id", help="The agent to give everything to; by default each keeps its own."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
@common_options
@pass_settings
def import_command(
    settings: Settings,
    path: Path,
    key: str | None,
    agent_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import a transcript, a folder of transcripts, or a home with agents/*/sessions; PATH is only read.

    Keys, ids, settings and times are kept. What is here already is left alone, so that importing again changes nothing.
    Exits with 1 if a conversation could not be imported.
    """
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.sessions.importing.importing import import_sessions

    with ProgressBar("reading") as reading, ProgressBar("importing") as importing:
        bars = {"reading": reading, "importing": importing}
        report = import_sessions(
            path,
            home=settings.home_folder(),
            config=settings.config(),
            key=key,
            agent_id=agent_id,
            dry_run=dry_run,
            on_progress=lambda phase, done, total, label: bars[phase].update(done, total, label),
        )
    if as_json:
        print_json(_as_json(report))
    else:
        _print(report)
    click.get_current_context().exit(0 if report.is_complete else 1)


def _as_json(report: ImportReport) -> dict[str, Any]:
    return {
        "dryRun": report.dry_run,
        "complete": report.is_complete,
        "sessions": [
            {
                "source": str(each.source),
                "action": each.action,
                "keys": list(each.keys),
                "sessionId": each.session_id,
                "messages": each.messages,
                "compactions": each.compactions,
                "archived": each.is_archived,
                "reason": each.reason,
            }
            for each in report.sessions
        ],
        "leftOut": [{"path": str(each.path), "reason": each.reason} for each in report.left_out],
        "notes": list(report.notes),
        "otherFiles": report.other_files,
    }


def _print(report: ImportReport) -> None:
    from hermitcrab.cli.output import note, say, warn
    from hermitcrab.cli.wording import amount

    _print_lines(_line(each) for each in report.sessions if each.action == "imported")
    for each in report.left_out[:_LINES]:
        note(f"left out: {each.path}: {each.reason}")
    if len(report.left_out) > _LINES:
        note(f"… and {amount(len(report.left_out) - _LINES, 'file')} more; --json names all")
    for text in report.notes:
        warn(text)
    for session in report.sessions:
        if session.action in {"conflict", "failed"}:
            warn(f"not imported: {session.source}: {session.reason}")
    say(_summary(report))


def _print_lines(lines: Iterable[str]) -> None:
    from hermitcrab.cli.output import say

    shown = list(lines)
    for line in shown[:_LINES]:
        say(line)
    if len(shown) > _LINES:
        say(f"… and {len(shown) - _LINES:,} more")


def _line(session: ImportedSession) -> str:
    from hermitcrab.cli.wording import amount

    size = amount(session.messages, "message")
    if session.compactions:
        size += f", {amount(session.compactions, 'compaction')}"
    archived = "an earlier session of " if session.is_archived else ""
    reason = f"  ({session.reason})" if session.reason else ""
    return f"{archived}{', '.join(session.keys)}  {size}{reason}"


def _summary(report: ImportReport) -> str:
    from hermitcrab.cli.wording import amount

    imported, unchanged = report.count("imported"), report.count("unchanged")
    done = "would be imported" if report.dry_run else "imported"
    parts = [f"{amount(imported, 'conversation')} {done}"]
    if unchanged:
        parts.append(f"{unchanged:,} here already and unchanged")
    if left := report.count("conflict") + report.count("failed"):
        parts.append(f"{left:,} not imported")
    if report.left_out:
        parts.append(f"{amount(len(report.left_out), 'file')} left out")
    if report.other_files:
        parts.append(f"{amount(report.other_files, 'other file')} passed over")
    return "; ".join(parts)
