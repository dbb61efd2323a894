"""What the doctors find: decisions over what was read, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

if TYPE_CHECKING:
    from hermitcrab.cli.inspection import EngineState
    from hermitcrab.plugins.health import HealthReport, HookHealth, Quarantine
    from hermitcrab.plugins.records import Diagnostic, PluginRecord

#: The operations of a quarantine that a doctor tries again by itself.
_TRIED_AGAIN = frozenset({"resolve", "factory", "contract-validation"})


@frozen(kw_only=True)
class Finding:
    """One thing that is wrong: about what, in which phase, and what helps.

    ``where`` is the distribution and the modules of a plugin.
    """

    level: Literal["error", "warning"]
    subject: str
    message: str
    phase: str | None = None
    hint: str | None = None
    traceback: str | None = None
    where: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return {
            "level": self.level,
            "subject": self.subject,
            "phase": self.phase,
            "message": self.message,
            "hint": self.hint,
            "traceback": self.traceback,
            "where": self.where,
        }


def plugin_findings(
    diagnostics: Iterable[Diagnostic], records: Mapping[str, PluginRecord]
) -> list[Finding]:
    """The diagnostics of the plugin host, with the end of the traceback where a plugin failed."""
    findings = []
    for each in diagnostics:
        record = records.get(each.plugin_id or "")
        failed_here = record is not None and record.phase == each.phase and each.level == "error"
        findings.append(
            Finding(
                level=each.level,
                subject=each.plugin_id or "plugins",
                phase=each.phase,
                message=each.message,
                hint=each.hint,
                traceback=record.traceback_tail if record is not None and failed_here else None,
                where=None if record is None else record.origin,
            )
        )
    return findings


def engine_findings(
    state: EngineState, known: Sequence[Finding], where: str | None = None
) -> list[Finding]:
    """What is wrong with the selected engine, unless it is known from its plugin, which comes from ``where``."""
    findings = [
        Finding(
            level="warning", subject=state.selected, phase="engine", message=warning, where=where
        )
        for warning in state.warnings
    ]
    is_known = any(each.level == "error" and each.subject == state.selected for each in known)
    if state.reason is not None and not is_known:
        findings.append(
            Finding(
                level="error",
                subject=state.selected,
                phase="engine",
                message=state.reason,
                hint=state.hint,
                where=where,
            )
        )
    return findings


def health_findings(health: HealthReport, selected: str) -> list[Finding]:
    """What other processes have recorded.

    A quarantine is an error while its engine is still selected and has not worked since; what can be tried without a
    turn is not taken from the record.
    """
    if health.error is not None:
        return [Finding(level="warning", subject="health.sqlite", message=health.error)]
    newest: dict[str, Quarantine] = {}
    for record in health.quarantines:
        newest.setdefault(record.engine_id, record)
    found = [
        _quarantine(record)
        for record in newest.values()
        if record.engine_id == selected
        and record.operation not in _TRIED_AGAIN
        and not _worked_since(record, health)
    ]
    return [*found, *(_hook(each) for each in health.hooks if each.failures)]


def _worked_since(record: Quarantine, health: HealthReport) -> bool:
    return any(
        use.engine_id == record.engine_id
        and use.degraded_reason is None
        and use.used_at > record.failed_at
        for use in health.engines
    )


def _quarantine(record: Quarantine) -> Finding:
    from hermitcrab.cli.output import show_time

    return Finding(
        level="error",
        subject=record.engine_id,
        phase=record.operation,
        message=(
            f"the engine of {record.owner or 'no plugin'} was set aside on {show_time(record.failed_at)}"
            f" by process {record.pid}: {record.reason}"
        ),
        hint="Upgrade or repair its plugin; a turn that succeeds with it clears this",
    )


def _hook(health: HookHealth) -> Finding:
    from hermitcrab.cli.output import show_time
    from hermitcrab.cli.wording import amount

    return Finding(
        level="warning",
        subject=health.plugin_id,
        phase=health.hook,
        message=(
            f"its handler failed {amount(health.failures, 'time')}, the last time on"
            f" {show_time(health.last_at)}: {health.last_error}"
        ),
    )


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether something is an error."""
    return any(each.level == "error" for each in findings)


def print_findings(findings: Sequence[Finding], *, all_well: str) -> None:
    """Print what was found, or that all is well."""
    import click

    from hermitcrab.cli.output import printable, say
    from hermitcrab.cli.wording import amount

    for each in findings:
        label = click.style(f"{each.level}:", fg="red" if each.level == "error" else "yellow")
        phase = "" if each.phase is None else f" ({each.phase})"
        click.echo(f"{label} {printable(each.subject)}{phase}: {printable(each.message)}")
        if each.where is not None:
            click.echo(click.style(f"    {printable(each.where)}", dim=True))
        for line in (each.traceback or "").splitlines():
            click.echo(click.style(f"    {printable(line)}", dim=True))
        if each.hint is not None:
            click.echo(f"  → {printable(each.hint)}")
    if not findings:
        say(all_well)
        return
    errors = sum(each.level == "error" for each in findings)
    say(f"{amount(errors, 'error')}, {amount(len(findings) - errors, 'warning')}")
