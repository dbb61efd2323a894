"""From the slot in the configuration to the engine of one session (context 2.3).

A selected engine that is missing or broken is replaced by the default one, never silently: the result says why, and
what repairs it. Where the default engine itself is missing or broken there is nothing to fall back to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from attrs import field, frozen

from hermitcrab.context.compatibility import CompatibleEngine
from hermitcrab.context.contract import DEFAULT_ENGINE_ID, ContextEngine, EngineContext, has_method
from hermitcrab.context.factory import make_engine
from hermitcrab.context.guard import GuardedEngine
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord, Registration
from hermitcrab.context.validation import ValidEngine, validate_engine
from hermitcrab.errors import ContextEngineError

logger = logging.getLogger("hermitcrab.context")

_SLOT = "plugins.slots.contextEngine"
_INSTALL = "pip install 'hermitcrab[standard]'"
_DOCTOR = "`hermitcrab plugins doctor` shows more"

#: Given a plugin id, why that plugin may not run (disabled, denied), or None.
PluginRefusal = Callable[[str], str | None]


@frozen
class Degraded:
    """Why the default engine answers instead of the selected one, and what repairs it."""

    reason: str
    hint: str


@frozen
class ResolvedEngine:
    """The engine of one session, and how it came to be chosen.

    ``selected_id`` is what the configuration asks for, ``engine_id`` what was resolved. An engine may fail later:
    :meth:`degradation` says how things stand now.
    """

    engine: ContextEngine
    engine_id: str
    selected_id: str
    degraded: Degraded | None = None
    warnings: tuple[str, ...] = field(default=())

    def degradation(self) -> Degraded | None:
        """Why the default engine answers at this moment, or None while the selected one does."""
        if self.degraded is not None or not isinstance(self.engine, GuardedEngine):
            return self.degraded
        record = self.engine.quarantine
        return None if record is None else _set_aside(record)

    async def dispose(self) -> None:
        """Release the engine; a failure is logged, because it must not fail the reply."""
        await _dispose(self.engine, self.engine_id)


@frozen
class _Unusable:
    """Why a registered engine cannot be used: the operation that failed, and the reason."""

    operation: str
    reason: str


def selected_engine_id(slot: str | None) -> str:
    """The engine id that a slot's value means: unset, empty and ``none`` are the default engine."""
    text = (slot or "").strip()
    return DEFAULT_ENGINE_ID if not text or text.casefold() == "none" else text


async def resolve_engine(
    registry: HostEngineRegistry,
    slot: str | None,
    engine_context: EngineContext,
    *,
    default_context: EngineContext | None = None,
    plugin_refusal: PluginRefusal = lambda plugin_id: None,
) -> ResolvedEngine:
    """Make the engine of one session.

    :param slot: ``plugins.slots.contextEngine`` as configured.
    :param engine_context: what the selected engine's factory gets.
    :param default_context: what the default engine's factory gets, where its plugin is configured otherwise.
    :param plugin_refusal: whether the selected engine's plugin is disabled or denied, which is no failure of it.
    :raises ContextEngineError: the default engine is needed and missing or broken.
    """
    selected = selected_engine_id(slot)
    context_of_default = default_context or engine_context
    if selected == DEFAULT_ENGINE_ID:
        default = await _make_default(registry, context_of_default)
        return ResolvedEngine(default, DEFAULT_ENGINE_ID, selected)

    registration = registry.find(selected)
    degraded = _unavailable(registry, selected, registration, plugin_refusal)
    if degraded is None and registration is not None:
        made = await _make(registration, engine_context)
        if isinstance(made, ValidEngine):
            return _guarded(registry, registration, made, context_of_default)
        record = registry.quarantine(
            selected, made.operation, made.reason, registration=registration
        )
        degraded = _set_aside(record)
    default = await _make_default(registry, context_of_default)
    return ResolvedEngine(default, DEFAULT_ENGINE_ID, selected, degraded)


def _unavailable(
    registry: HostEngineRegistry,
    selected: str,
    registration: Registration | None,
    plugin_refusal: PluginRefusal,
) -> Degraded | None:
    """Why the selected engine is not even tried, or None."""
    plugin_id = _plugin_of(selected, registration)
    refusal = None if plugin_id is None else plugin_refusal(plugin_id)
    if refusal is not None:
        return Degraded(
            f"context engine '{selected}' is not used, its plugin '{plugin_id}' may not run: {refusal}",
            f"Enable the plugin '{plugin_id}' in config.yaml, or select another engine in {_SLOT}",
        )
    if registration is None:
        registry.quarantine(selected, "resolve", "not registered", registration=None)
        return _not_registered(selected, registry.engine_ids())
    record = registry.quarantine_of(selected)
    return None if record is None else _set_aside(record)


def _plugin_of(selected: str, registration: Registration | None) -> str | None:
    if registration is None:
        return selected
    kind, _, plugin_id = registration["owner"].partition(":")
    return plugin_id if kind == "plugin" else None


def _not_registered(selected: str, available: list[str]) -> Degraded:
    listed = ", ".join(available) or "none"
    near = get_close_matches(selected, available, n=1)
    repair = (
        f"Did you mean '{near[0]}'? Set {_SLOT} to it"
        if near
        else f"Run `pip install` for the distribution that provides it, or correct {_SLOT}"
    )
    return Degraded(
        f"context engine '{selected}' is not registered. Available engines: {listed}",
        f"{repair}; {_DOCTOR}",
    )


def _set_aside(record: QuarantineRecord) -> Degraded:
    owner = record.owner or "no plugin"
    return Degraded(
        f"context engine '{record.engine_id}' of {owner} is set aside, "
        f"failed in {record.operation}: {record.reason}",
        "Upgrade or repair the plugin (`pip install --upgrade` for its distribution) and start again; "
        + _DOCTOR,
    )


async def _make(registration: Registration, context: EngineContext) -> ValidEngine | _Unusable:
    engine_id = registration["engine_id"]
    try:
        engine = await make_engine(registration["factory"], context)
    except Exception as error:
        logger.warning("the factory of context engine '%s' failed", engine_id, exc_info=True)
        return _Unusable("factory", f"{type(error).__name__}: {error}")
    try:
        return validate_engine(engine, engine_id=engine_id)
    except ContextEngineError as error:
        await _dispose(engine, engine_id)
        return _Unusable("contract-validation", error.message)


def _guarded(
    registry: HostEngineRegistry,
    registration: Registration,
    valid: ValidEngine,
    context_of_default: EngineContext,
) -> ResolvedEngine:
    engine_id = registration["engine_id"]
    guarded = GuardedEngine(
        CompatibleEngine(valid, engine_id=engine_id),
        registry=registry,
        registration=registration,
        make_default=lambda: _make_default(registry, context_of_default),
    )
    return ResolvedEngine(
        guarded, engine_id, engine_id, warnings=_id_warnings(engine_id, valid.info.id)
    )


def _id_warnings(engine_id: str, own_id: str) -> tuple[str, ...]:
    if own_id == engine_id:
        return ()
    warning = f"context engine '{engine_id}' calls itself '{own_id}'; the registered id is used"
    logger.warning("%s", warning)
    return (warning,)


async def _make_default(registry: HostEngineRegistry, context: EngineContext) -> CompatibleEngine:
    registration = registry.find(DEFAULT_ENGINE_ID)
    if registration is None:
        available = ", ".join(registry.engine_ids()) or "none"
        raise ContextEngineError(
            f"the default context engine '{DEFAULT_ENGINE_ID}' is not registered. "
            f"Available engines: {available}",
            hint=f"Run {_INSTALL}",
        )
    try:
        engine = await make_engine(registration["factory"], context)
    except Exception as error:
        raise ContextEngineError(
            f"the default context engine could not be made: {type(error).__name__}: {error}",
            where=f"context engine '{DEFAULT_ENGINE_ID}'",
            hint=f"Run {_INSTALL} --force-reinstall",
        ) from error
    return CompatibleEngine(
        validate_engine(engine, engine_id=DEFAULT_ENGINE_ID), engine_id=DEFAULT_ENGINE_ID
    )


async def _dispose(engine: Any, engine_id: str) -> None:
    """Call ``dispose`` of anything that has it, half-built engines included."""
    if not has_method(engine, "dispose"):
        return
    try:
        result = engine.dispose()
        if hasattr(result, "__await__"):
            await result
    except Exception:
        logger.warning("context engine '%s' failed in dispose", engine_id, exc_info=True)
