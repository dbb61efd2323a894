"""``hermitcrab doctor``: everything that can be checked without a turn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.cli.findings import Finding
    from hermitcrab.cli.inspection import LoadedPlugins


@click.command("doctor")
@json_option
@common_options
@pass_settings
def doctor_command(settings: Settings, as_json: bool) -> None:
    """Check the configuration, the plugins, the home, memory and the transcripts; exits with 1 on an error."""
    from hermitcrab.cli.findings import has_errors, print_findings
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run

    findings = run(_examine(settings))
    failed = has_errors(findings)
    if as_json:
        print_json({"ok": not failed, "findings": [each.as_json() for each in findings]})
    else:
        print_findings(findings, all_well="No issues detected.")
    click.get_current_context().exit(1 if failed else 0)


async def _examine(settings: Settings) -> list[Finding]:
    import asyncio

    from hermitcrab.cli.findings import Finding
    from hermitcrab.cli.inspection import loaded_plugins
    from hermitcrab.cli.plugins import examine_plugins
    from hermitcrab.errors import ConfigError

    home = settings.home_folder()
    findings = examine_home(home)
    try:
        config = settings.config()
    except ConfigError as error:
        findings.append(Finding(level="error", subject="config", message=str(error)))
    else:
        with loaded_plugins(settings, config) as loaded:
            # Opening agents may show more of what is wrong with plugins.
            memory = await _examine_memory(loaded)
            findings += await examine_plugins(loaded) + memory
        findings += await asyncio.to_thread(examine_upkeep, settings)
    return findings + await asyncio.to_thread(examine_transcripts, home)


def examine_home(home: Path) -> list[Finding]:
    """Whether the home is there and can be written."""
    from hermitcrab.cli.findings import Finding

    if not home.exists():
        hint = "Run `hermitcrab init`"
        return [Finding(level="warning", subject=str(home), message="not there yet", hint=hint)]
    closed = [
        folder
        for folder in (home, *(child for child in home.iterdir() if child.is_dir()))
        if not _may_write(folder)
    ]
    hint = "Give yourself write permission, or choose another place with --home"
    return [
        Finding(level="error", subject=str(folder), message="cannot be written", hint=hint)
        for folder in closed
    ]


def _may_write(folder: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=effective)


async def _examine_memory(loaded: LoadedPlugins) -> list[Finding]:
    """Whether the memory of each agent that is in use can work, and by meaning too where that is wanted."""
    from hermitcrab.cli.findings import Finding
    from hermitcrab.cli.inspection import agents_in_use, opened_agent
    from hermitcrab.cli.memory_embeddings import embedding_warnings
    from hermitcrab.errors import HermitcrabError

    findings = []
    for agent_id in agents_in_use(loaded):
        subject = f"memory of agent {agent_id}"
        try:
            async with opened_agent(loaded, agent_id) as agent:
                error = agent.memory_failure
                findings += [
                    Finding(level="warning", subject=subject, message=message)
                    for message in embedding_warnings(agent.embeddings)
                ]
                if agent.memory is not None:
                    error = (await agent.memory.probe()).error
        except HermitcrabError as failure:
            error = str(failure)
        slot = loaded.config.plugins.slots.memory
        is_known = any(
            each.plugin_id == slot and each.level == "error" for each in loaded.plugins.diagnostics
        )
        if error is not None and not is_known:
            backend = loaded.plugins.records.get(slot)
            findings.append(
                Finding(
                    level="error",
                    subject=subject,
                    message=error,
                    hint="`hermitcrab memory status` shows more; the default is memory-core",
                    where=None if backend is None else backend.origin,
                )
            )
    return findings


def examine_upkeep(settings: Settings) -> list[Finding]:
    """Whether old sessions pile up that nobody removes, or take more than they may."""
    from hermitcrab.cli.findings import Finding
    from hermitcrab.cli.session_upkeep import upkeep_reports

    findings = []
    for report in upkeep_reports(settings):
        subject = f"sessions of agent {report['agent']}"
        if "error" in report:
            findings.append(Finding(level="error", subject=subject, message=report["error"]))
        elif report["mode"] == "warn" and (
            report["wouldRemoveSessions"] or report["wouldRemoveFiles"]
        ):
            findings.append(
                Finding(level="warning", subject=subject, message=report["summary"], hint=_PRUNE)
            )
        elif report["isOverBudget"]:
            message = "what is protected takes more than session.maintenance.maxDiskBytes"
            findings.append(Finding(level="warning", subject=subject, message=message))
    return findings


_PRUNE = (
    "`hermitcrab sessions prune --dry-run` shows what, --enforce removes it, and session.maintenance.mode: enforce does"
    " so every day"
)
_VERIFY = "`hermitcrab sessions verify` shows where, and --fix mends it"


def examine_transcripts(home: Path) -> list[Finding]:
    """What of the transcripts cannot be read; nothing is changed."""
    from hermitcrab.cli.findings import Finding
    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.cli.wording import describe_faults
    from hermitcrab.errors import TranscriptError
    from hermitcrab.sessions.reading import read_transcript

    files = list(_transcripts(home))
    findings = []
    with ProgressBar("transcripts") as bar:
        for number, file in enumerate(files, 1):
            bar.update(number, len(files), file.name)
            try:
                faults = read_transcript(file).faults
            except TranscriptError as error:
                findings.append(
                    Finding(
                        level="error", subject=str(file), message=error.message, hint=error.hint
                    )
                )
                continue
            findings += [
                Finding(level="warning", subject=str(file), message=sentence, hint=_VERIFY)
                for sentence in describe_faults(faults)
            ]
    return findings


def _transcripts(home: Path) -> Iterator[Path]:
    from hermitcrab.cli.sessions import agent_folders

    for folder in agent_folders(home):
        yield from sorted((folder / "sessions").glob("*.jsonl"))
