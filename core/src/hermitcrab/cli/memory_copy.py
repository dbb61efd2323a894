"""``hermitcrab memory copy``: taking what one memory plugin knows to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.agent.memory_copy.copying import CopyReport

#: So many refusals are printed; ``--json`` has all.
_LINES = 20


@click.command("copy")
@click.option("--from", "source", required=True, metavar="PLUGIN", help="The memory to copy.")
@click.option("--to", "target", required=True, metavar="PLUGIN", help="Where it is copied to.")
@click.option("--agent", "agent_id", help="The agent; default the default agent.")
@json_option
@common_options
@pass_settings
def copy_command(
    settings: Settings, source: str, target: str, agent_id: str | None, as_json: bool
) -> None:
    """Copy an agent's memory from one memory plugin to another.

    The configuration stays as it is: select the new plugin afterwards, with plugins.slots.memory. The files of the
    workspace are indexed anew; single memories keep their ids and times. What is there already is left alone, so that
    copying again changes nothing. Exits with 1 if a memory is missing in the end.
    """
    from hermitcrab.agent.memory_copy.opening import copy_memory
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.cli.running import run
    from hermitcrab.sessions.keys import normalise_agent_id

    with ProgressBar("copy") as bar:
        report = run(
            copy_memory(
                settings.config(),
                home=settings.home_folder(),
                source=source,
                target=target,
                agent_id=None if agent_id is None else normalise_agent_id(agent_id),
                safe_mode=settings.safe_mode,
                progress=bar.update,
            )
        )
    if as_json:
        print_json(_as_json(report))
    else:
        _print(report)
    click.get_current_context().exit(0 if report.is_complete else 1)


def _print(report: CopyReport) -> None:
    from hermitcrab.cli.output import note, say, warn
    from hermitcrab.cli.wording import amount

    say(f"{report.source} to {report.target}, agent {report.agent_id}")
    files = report.files
    say(
        f"{amount(report.files_found, 'file')} in the index: {files.indexed:,} indexed now,"
        f" {files.unchanged:,} unchanged; {amount(files.chunks, 'chunk')}"
    )
    if report.memories or report.moved:
        say(
            f"{report.moved:,} of {report.memories:,} single memories moved, {report.already:,} there already;"
            f" {report.found:,} counted in {report.target}"
        )
    else:
        say("no single memories to move")
    if report.notes is not None:
        note(f"{report.target} keeps no single memories: they stand in {report.notes}")
    for refusal in report.refused[:_LINES]:
        warn(f"refused: {refusal.memory_id}: {refusal.reason}")
    if len(report.refused) > _LINES:
        warn(f"… and {amount(len(report.refused) - _LINES, 'refusal')} more; --json has all")
    if files.problem is not None:
        warn(files.problem)
    if not report.is_complete:
        warn(f"{report.memories - report.found:,} memories are missing; run the command again")


def _as_json(report: CopyReport) -> dict[str, Any]:
    return {
        "agent": report.agent_id,
        "from": report.source,
        "to": report.target,
        "complete": report.is_complete,
        "files": {
            "found": report.files_found,
            "indexed": report.files.indexed,
            "unchanged": report.files.unchanged,
            "removed": report.files.removed,
            "problem": report.files.problem,
        },
        "memories": {
            "source": report.memories,
            "moved": report.moved,
            "already": report.already,
            "found": report.found,
            "refused": [
                {"id": refusal.memory_id, "reason": refusal.reason} for refusal in report.refused
            ],
            "notes": report.notes,
        },
    }
