"""``hermitcrab plugins``: what is installed, runs or is wrong, switching plugins on and off, and new ones."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hermitcrab.cli.findings import Finding
    from hermitcrab.cli.inspection import LoadedPlugins
    from hermitcrab.config import Config
    from hermitcrab.config.schema import PluginsConfig
    from hermitcrab.plugins.records import Diagnostic, PluginRecord
    from hermitcrab.plugins.switching import Setting

#: The kinds of plugins that ``plugins new`` knows.
PLUGIN_KINDS = ("context-engine", "memory", "hooks", "embeddings", "model")


@click.group("plugins")
@common_options
def plugins_command() -> None:
    """List plugins, find out what is wrong with them, switch them on and off."""


@plugins_command.command("list")
@json_option
@common_options
@pass_settings
def list_command(settings: Settings, as_json: bool) -> None:
    """List what is installed and what would run; no plugin is imported."""
    from hermitcrab.cli.output import note, print_json, print_table, warn

    records, diagnostics = _planned(settings, settings.config())
    if as_json:
        print_json([_record_json(record, status) for record, status in records])
    elif records:
        print_table(
            ("id", "kind", "status", "version", "distribution", "reason"),
            (
                (
                    each.id,
                    each.kind,
                    status,
                    each.version or "-",
                    each.distribution or "-",
                    each.reason,
                )
                for each, status in records
            ),
        )
    else:
        note("no plugins are installed: pip install 'hermitcrab[standard]'")
    for diagnostic in diagnostics:
        warn(str(diagnostic))


@plugins_command.command("info")
@click.argument("plugin_id", metavar="ID")
@json_option
@common_options
@pass_settings
def info_command(settings: Settings, plugin_id: str, as_json: bool) -> None:
    """Load the plugins and show one of them: its hooks, what it registered, why it runs or does not."""
    from hermitcrab.cli.inspection import loaded_plugins
    from hermitcrab.cli.output import print_fields, print_json, print_table
    from hermitcrab.cli.plugin_hooks import hook_rows

    with loaded_plugins(settings, settings.config()) as loaded:
        record = _record_of(plugin_id, dict(loaded.plugins.records))
        found = [each for each in loaded.plugins.diagnostics if each.plugin_id == record.id]
        hooks = hook_rows(loaded, record.id)
    if as_json:
        print_json({**_info_json(record, found), "handlers": [each.as_json() for each in hooks]})
        return
    print_fields(_info_fields(record, found))
    if hooks:
        print_table(
            ("hook", "priority", "timeout", "calls", "time", "slowest", "last call", "last error"),
            (each.cells() for each in hooks),
        )


@plugins_command.command("doctor")
@json_option
@common_options
@pass_settings
def doctor_command(settings: Settings, as_json: bool) -> None:
    """Load everything that is selected and report what is wrong; exits with 1 if something is."""
    from hermitcrab.cli.findings import has_errors, print_findings
    from hermitcrab.cli.inspection import loaded_plugins
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run

    with loaded_plugins(settings, settings.config()) as loaded:
        findings = run(examine_plugins(loaded))
    failed = has_errors(findings)
    if as_json:
        print_json({"ok": not failed, "findings": [each.as_json() for each in findings]})
    else:
        print_findings(findings, all_well="No plugin issues detected.")
    click.get_current_context().exit(1 if failed else 0)


@plugins_command.command("enable")
@click.argument("plugin_id", metavar="ID")
@json_option
@common_options
@pass_settings
def enable_command(settings: Settings, plugin_id: str, as_json: bool) -> None:
    """Change config.yaml so that a plugin runs: it fills its slot, and nothing says no to it."""
    from hermitcrab.plugins.switching import to_enable

    _switch(settings, plugin_id, to_enable, as_json=as_json)


@plugins_command.command("disable")
@click.argument("plugin_id", metavar="ID")
@json_option
@common_options
@pass_settings
def disable_command(settings: Settings, plugin_id: str, as_json: bool) -> None:
    """Change config.yaml so that a plugin does not run."""
    from hermitcrab.errors import PluginError
    from hermitcrab.plugins.decide import DEFAULT_ENGINE
    from hermitcrab.plugins.switching import to_disable

    if plugin_id == DEFAULT_ENGINE:
        raise PluginError(
            "the default engine cannot be switched off: without it no turn can run",
            where=f"plugin {plugin_id}",
            hint="Choose another one with `hermitcrab plugins enable ID`",
        )
    _switch(settings, plugin_id, to_disable, as_json=as_json)


@plugins_command.command("new")
@click.argument("kind", type=click.Choice(PLUGIN_KINDS))
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder in which the plugin's own folder is made; by default the current one.",
)
@json_option
@common_options
def new_command(kind: str, name: str, into: Path, as_json: bool) -> None:
    """Begin a plugin: a distribution with typed code, tests, a README and a CI file.

    NAME is the plugin's id, such as word-window.
    """
    from hermitcrab.cli.output import print_json, say
    from hermitcrab.cli.scaffolding import new_plugin, write_plugin

    plugin = new_plugin(kind, name)
    folder = write_plugin(plugin, into)
    if as_json:
        written = sorted(str(folder / each) for each in plugin.files)
        print_json({"folder": str(folder), "files": written, "next": list(plugin.commands)})
        return
    say(f"created {folder}: {len(plugin.files)} files\n\nNext, to install, test and select it:\n")
    for command in plugin.commands:
        say(f"  {command}")


@plugins_command.command("verify")
@click.argument("plugin_id", metavar="ID")
@json_option
@common_options
@pass_settings
def verify_command(settings: Settings, plugin_id: str, as_json: bool) -> None:
    """Run the contract tests over what an installed plugin registers; exits with 1 if one fails."""
    from hermitcrab.cli.output import note, print_json, print_table, say
    from hermitcrab.cli.plugin_verify import verify_plugin
    from hermitcrab.cli.wording import amount

    _record_of(
        plugin_id, {record.id: record for record, _ in _planned(settings, settings.config())[0]}
    )
    verdicts = verify_plugin(plugin_id)
    failed = [each for each in verdicts if each.outcome == "failed"]
    if as_json:
        print_json({"ok": not failed, "verdicts": [each.as_json() for each in verdicts]})
    elif not verdicts:
        note(f"{plugin_id} registers nothing that has a contract")
    else:
        if failed:
            print_table(
                ("contract", "test", "reason"),
                ((each.contract, each.test, each.reason or "-") for each in failed),
            )
        passed = sum(each.outcome == "passed" for each in verdicts)
        say(f"{amount(passed, 'test')} passed, {len(failed)} failed")
        for reason, count in Counter(
            each.reason for each in verdicts if each.outcome == "skipped"
        ).items():
            say(f"{count} skipped: {reason}")
    click.get_current_context().exit(1 if failed else 0)


def _switch(
    settings: Settings,
    plugin_id: str,
    needed: Callable[[str, Collection[str], PluginsConfig], tuple[Setting, ...]],
    *,
    as_json: bool,
) -> None:
    """Write what is needed, and say what the plugin does from now on and by which rule."""
    from hermitcrab.cli.config_editing import edit_config
    from hermitcrab.cli.output import print_json, say
    from hermitcrab.config.editing import REMOVED, Change
    from hermitcrab.plugins.discovery import discover

    config = settings.config()
    known = {record.id: record for record, _ in _planned(settings, config)[0]}
    _record_of(plugin_id, known)
    groups = next((each.groups for each in discover().plugins if each.id == plugin_id), {})
    wanted = needed(plugin_id, groups, config.plugins)
    changes = [Change(each.path, REMOVED if each.value is None else each.value) for each in wanted]
    if changes:
        edit_config(settings.config_file(), changes)
    record, status = next(
        pair for pair in _planned(settings, settings.config())[0] if pair[0].id == plugin_id
    )
    if as_json:
        written = [{"path": each.path, "value": each.value} for each in wanted]
        print_json({**_record_json(record, status), "written": written})
        return
    for each in wanted:
        say(f"{each.path}: {'taken out' if each.value is None else each.value}")
    say(f"{plugin_id} is {status} ({record.reason})")


async def examine_plugins(loaded: LoadedPlugins) -> list[Finding]:
    """Everything that is wrong with the plugins, here and in what other processes recorded."""
    from hermitcrab.cli.findings import engine_findings, health_findings, plugin_findings
    from hermitcrab.cli.inspection import engine_state
    from hermitcrab.plugins.health import read_health

    state = await engine_state(loaded)
    findings = plugin_findings(loaded.plugins.diagnostics, loaded.plugins.records)
    record = loaded.plugins.records.get(state.selected)
    findings += engine_findings(state, findings, None if record is None else record.origin)
    return findings + health_findings(read_health(loaded.home / "health.sqlite"), state.selected)


def _planned(
    settings: Settings, config: Config
) -> tuple[list[tuple[PluginRecord, str]], list[Diagnostic]]:
    """The records of all plugins with their status before loading, and what is wrong already."""
    from hermitcrab.plugins.decide import start_mode
    from hermitcrab.plugins.discovery import discover
    from hermitcrab.plugins.planning import plan
    from hermitcrab.plugins.slots import planned_slot_diagnostics

    discovery = discover()
    start = start_mode(os.environ, safe_mode=settings.safe_mode)
    planned = plan(config.plugins, discovery, start)
    records = [(each.record(status="disabled"), "enabled") for each in planned.requests]
    records += [(each, each.status) for each in planned.records]
    diagnostics = [
        *planned.diagnostics,
        *planned_slot_diagnostics(config.plugins, discovery.plugins, planned),
    ]
    return records, diagnostics


def _record_of(plugin_id: str, records: dict[str, PluginRecord]) -> PluginRecord:
    from difflib import get_close_matches

    from hermitcrab.errors import PluginError

    record = records.get(plugin_id)
    if record is None:
        near = get_close_matches(plugin_id, records, n=1)
        hint = f'Did you mean "{near[0]}"?' if near else "See `hermitcrab plugins list`."
        raise PluginError(f"no plugin {plugin_id!r} is installed", hint=hint)
    return record


def _record_json(record: PluginRecord, status: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "kind": record.kind,
        "status": status,
        "reason": record.reason,
        "version": record.version,
        "distribution": record.distribution,
        "core": record.core,
        "entryPoints": list(record.entry_points),
    }


def _info_json(record: PluginRecord, diagnostics: list[Diagnostic]) -> dict[str, Any]:
    return {
        **_record_json(record, record.status),
        "phase": record.phase,
        "error": record.error,
        "traceback": record.traceback_tail,
        "hooks": list(record.hooks),
        "registrations": [
            {"registry": each.registry, "id": each.id} for each in record.registrations
        ],
        "diagnostics": [str(each) for each in diagnostics],
    }


def _info_fields(record: PluginRecord, diagnostics: list[Diagnostic]) -> list[tuple[str, str]]:
    registered = [f"{each.registry.replace('_', ' ')}: {each.id}" for each in record.registrations]
    fields = [
        ("id", record.id),
        ("kind", record.kind),
        ("status", f"{record.status} ({record.reason})"),
        ("distribution", f"{record.distribution or '-'} {record.version or ''}".rstrip()),
        ("entry points", "\n".join(record.entry_points) or "-"),
        ("hooks", ", ".join(record.hooks) or "-"),
        ("registered", "\n".join(registered) or "-"),
    ]
    if record.error is not None:
        fields.append(("error", f"in {record.phase}: {record.error}"))
    if record.traceback_tail is not None:
        fields.append(("traceback", record.traceback_tail))
    return fields + [(each.level, str(each)) for each in diagnostics]
