"""``hermitcrab sessions verify``: what is wrong with transcripts, and mending it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.sessions.repair.inventory import TranscriptPlace
    from hermitcrab.sessions.repair.mending import Verification
    from hermitcrab.sessions.repair.verify import Finding

#: What every transcript in use has is told only of those that were asked for, and to programs.
_COMMONPLACE = "lock-file"


@frozen(kw_only=True)
class _Report:
    """What there is to say of one transcript, whoever found it."""

    key: str | None
    found: Verification


@click.command("verify")
@click.argument("targets", metavar="[KEY|FILE]...", nargs=-1)
@click.option(
    "--fix", is_flag=True, help="Mend what can be mended, after a backup beside the file."
)
@json_option
@common_options
@pass_settings
def verify_command(settings: Settings, targets: tuple[str, ...], fix: bool, as_json: bool) -> None:
    """Say what is wrong with transcripts, all of them by default; exits with 1 if something is left to mend.

    Each finding has its line and its byte offset. Without --fix nothing is written. With it, a transcript is copied to
    FILE.bak-TIME first, and the mended one takes its place at once, under its lock. What cannot be read stays in the
    backup, and nothing else is left out.
    """
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.progress import ProgressBar

    places = _places(settings, targets)
    reports = []
    with ProgressBar("transcripts") as bar:
        for number, place in enumerate(places, 1):
            bar.update(number, len(places), place.path.name)
            reports.append(_examine(place, fix=fix, lock_timeout_ms=_lock_timeout(settings, fix)))
    if as_json:
        print_json([_as_json(report) for report in reports])
    else:
        _print(reports, is_named=bool(targets), fix=fix)
    left = any(report.found.unmended for report in reports)
    click.get_current_context().exit(1 if left else 0)


def _lock_timeout(settings: Settings, fix: bool) -> int:
    """Milliseconds; a broken configuration must not keep anybody from looking."""
    return settings.config().session.lock_timeout_ms if fix else 0


def _places(settings: Settings, targets: Sequence[str]) -> list[TranscriptPlace]:
    from hermitcrab.cli.sessions import agent_folders
    from hermitcrab.sessions.repair.inventory import place_of, places_in

    if not targets:
        folders = [folder / "sessions" for folder in agent_folders(settings.home_folder())]
        return [place for folder in folders for place in places_in(folder)]
    return [
        place_of(Path(target)) if _is_file(target) else _place_of_key(settings, target)
        for target in targets
    ]


def _is_file(target: str) -> bool:
    return target.endswith(".jsonl") or Path(target).is_file()


def _place_of_key(settings: Settings, key: str) -> TranscriptPlace:
    from hermitcrab.agent.addressing import stored_key
    from hermitcrab.cli.sessions import sessions_folder
    from hermitcrab.errors import SessionNotFoundError
    from hermitcrab.sessions.repair.inventory import places_in, read_entries

    stored = stored_key(settings.config(), key)
    folder = sessions_folder(settings, stored)
    for entry in read_entries(folder / "sessions.sqlite"):
        if entry.key == stored:
            name = f"{entry.session_id}.jsonl"
            return next(place for place in places_in(folder) if place.path.name == name)
    raise SessionNotFoundError(
        f"there is no session {stored!r}", hint="See `hermitcrab sessions list`, or name a file."
    )


def _examine(place: TranscriptPlace, *, fix: bool, lock_timeout_ms: int) -> _Report:
    from hermitcrab.errors import SessionError
    from hermitcrab.sessions.repair.mending import Verification, mend_transcript, verify_transcript
    from hermitcrab.sessions.repair.verify import Finding

    session_id = place.session_id
    found = Verification(path=place.path, session_id=session_id, entries=0, messages=0, findings=())
    failures: tuple[Finding, ...] = ()
    if place.is_there:
        try:
            found = verify_transcript(place.path, session_id=session_id)
            if fix and any(each.fixable for each in found.findings):
                found = mend_transcript(
                    place.path, session_id=session_id, lock_timeout_ms=lock_timeout_ms
                )
        except SessionError as error:
            hint = f". {error.hint}" if error.hint else ""
            failures = (Finding(kind="failed", message=f"{error.message}{hint}"),)
    return _Report(
        key=place.key,
        found=evolve(found, findings=(*place.findings, *found.findings, *failures)),
    )


def _as_json(report: _Report) -> dict[str, Any]:
    found = report.found
    return {
        "path": str(found.path),
        "sessionId": found.session_id,
        "key": report.key,
        "entries": found.entries,
        "messages": found.messages,
        "findings": [_finding_json(each, found) for each in found.findings],
        "fixed": found.fixed,
        "backup": None if found.backup is None else str(found.backup),
    }


def _finding_json(finding: Finding, found: Verification) -> dict[str, Any]:
    return {
        "file": str(found.path),
        "line": finding.line,
        "offset": finding.offset,
        "kind": finding.kind,
        "level": finding.level,
        "message": finding.message,
        "fixable": finding.fixable,
    }


def _print(reports: Sequence[_Report], *, is_named: bool, fix: bool) -> None:
    from hermitcrab.cli.output import say
    from hermitcrab.cli.wording import amount

    for report in reports:
        shown = [each for each in report.found.findings if is_named or each.kind != _COMMONPLACE]
        if shown:
            _print_report(report, shown)
    errors = sum(each.is_error for report in reports for each in report.found.findings)
    left = [each for report in reports for each in report.found.unmended]
    summary = f"{amount(len(reports), 'transcript')}, {amount(errors, 'finding')}"
    if fix and errors:
        summary += f", {len(left):,} left"
    elif any(each.fixable for each in left):
        summary += "; --fix mends what can be mended, after a backup"
    say(summary)


def _print_report(report: _Report, findings: Iterable[Finding]) -> None:
    from hermitcrab.cli.output import printable, say

    found = report.found
    say(f"{found.path}{'' if report.key is None else f'  {report.key}'}")
    for each in findings:
        label = click.style("error:", fg="red") if each.is_error else click.style("note:", dim=True)
        where = "" if each.line is None else f"line {each.line:,}, byte {each.offset or 0:,}: "
        is_stuck = each.is_error and not each.fixable
        click.echo(
            f"  {label} {where}{printable(each.message)}{' (cannot be mended)' if is_stuck else ''}"
        )
    if found.fixed:
        say(f"  mended; as it was: {found.backup}")
