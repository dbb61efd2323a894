"""Who registered which context engine, and which engines are set aside (context 2.1, 2.2, 2.4).

There are two tiers. The process-global one holds what the core and callers of :func:`register_context_engine`
registered; each host's :class:`HostEngineRegistry` stands before it and holds the registrations of plugins and the
quarantine. No factory is called here.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TypedDict, cast

from attrs import frozen

from hermitcrab.context.contract import DEFAULT_ENGINE_ID
from hermitcrab.context.factory import EngineFactory
from hermitcrab.errors import ContextEngineError
from hermitcrab.plugins.loading_context import plugin_being_loaded
from hermitcrab.plugins.registry import RegistrationResult

logger = logging.getLogger("hermitcrab.context")

CORE_OWNER = "core"
PUBLIC_OWNER = "public-sdk"

_GLOBAL_TIER = "_hermitcrab_context_engines"
_REASON_LIMIT = 500


class Registration(TypedDict):
    """One registered engine. A plain dictionary, because copies of this module share it."""

    engine_id: str
    factory: EngineFactory
    owner: str


@frozen
class QuarantineRecord:
    """Why an engine is set aside; ``failed_at`` is in milliseconds since the epoch.

    ``operation`` is ``resolve``, ``factory``, ``contract-validation`` or the name of the method that failed.
    """

    engine_id: str
    owner: str | None
    operation: str
    reason: str
    failed_at: int


Engines = dict[str, Registration]


def global_engines() -> Engines:
    """The process-global tier: one per process, even where this module is imported twice."""
    holder = sys.modules.get(_GLOBAL_TIER)
    if holder is None:
        fresh = ModuleType(_GLOBAL_TIER, "Context engines registered in this process.")
        fresh.__dict__["engines"] = {}
        holder = sys.modules.setdefault(_GLOBAL_TIER, fresh)
    return cast(Engines, holder.__dict__["engines"])


def register_context_engine(engine_id: str, factory: EngineFactory) -> RegistrationResult:
    """Register an engine for every host of this process.

    Called while a plugin is being loaded, it registers for that plugin, and is undone if loading fails. Otherwise an
    id that is taken stays with its first registration.

    :raises ContextEngineError: an empty id, or a factory that cannot be called.
    """
    engine_id = _checked_id(engine_id, current_owner())
    engines = global_engines()
    before = engines.get(engine_id)
    result = _register(engines, before, engine_id, factory, current_owner())
    loading = plugin_being_loaded.get()
    if result.ok and loading is not None:
        loading.on_rollback(lambda: _put_back(engines, engine_id, before))
    return result


def current_owner() -> str:
    """Who a module-level registration belongs to: the plugin being loaded, else ``public-sdk``."""
    loading = plugin_being_loaded.get()
    return PUBLIC_OWNER if loading is None else loading.owner


class HostEngineRegistry:
    """The engines that one host can use, and those of them that are set aside.

    :param on_quarantine: told of each new record, to keep it for other processes; its failure changes nothing.
    :param clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        *,
        on_quarantine: Callable[[QuarantineRecord], None] | None = None,
        clock: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._engines: Engines = {}
        self._quarantined: dict[str, tuple[Registration | None, QuarantineRecord]] = {}
        self._on_quarantine = on_quarantine
        self._clock = clock

    def register(self, engine_id: str, factory: EngineFactory, *, owner: str) -> RegistrationResult:
        """Register an engine for ``owner``: ``core``, ``public-sdk`` or ``plugin:<id>``.

        A plugin and the core may replace their own registration, which also ends a quarantine of the id.

        :raises ContextEngineError: an empty owner or id, or a factory that cannot be called.
        """
        owner = owner.strip()
        if not owner:
            raise ContextEngineError(
                "an engine needs an owner", where=f"context engine '{engine_id}'"
            )
        engine_id = _checked_id(engine_id, owner)
        tier = global_engines() if owner in (CORE_OWNER, PUBLIC_OWNER) else self._engines
        return _register(tier, self.find(engine_id), engine_id, factory, owner)

    def find(self, engine_id: str) -> Registration | None:
        """The registration under an id: the host's own one, else the process-global one."""
        return self._engines.get(engine_id) or global_engines().get(engine_id)

    def engine_ids(self) -> list[str]:
        """All ids that can be selected, sorted."""
        return sorted({*self._engines, *global_engines()})

    def remove_owner(self, owner: str) -> None:
        """Forget the engines of an owner, and their quarantines."""
        for tier in (self._engines, global_engines()):
            for engine_id in _owned(tier, owner):
                del tier[engine_id]

    @contextmanager
    def stage(self, owner: str) -> Iterator[None]:
        """A transaction: an exception inside undoes what ``owner`` registered inside."""
        tiers = (self._engines, global_engines())
        before = [_owned(tier, owner) for tier in tiers]
        try:
            yield
        except BaseException:
            for tier, registrations in zip(tiers, before, strict=True):
                for engine_id in _owned(tier, owner):
                    del tier[engine_id]
                tier.update(registrations)
            raise

    def quarantine_of(self, engine_id: str) -> QuarantineRecord | None:
        """Why an engine is set aside, or None. A record ends with the registration that it is about."""
        entry = self._quarantined.get(engine_id)
        if entry is None or entry[0] is not self.find(engine_id):
            return None
        return entry[1]

    def quarantines(self) -> list[QuarantineRecord]:
        """All engines that are set aside now, by id."""
        records = (self.quarantine_of(engine_id) for engine_id in sorted(self._quarantined))
        return [record for record in records if record is not None]

    def quarantine(
        self,
        engine_id: str,
        operation: str,
        reason: str,
        *,
        registration: Registration | None,
    ) -> QuarantineRecord:
        """Set an engine aside; the first failure wins.

        ``registration`` is the one that failed (None: there was none). Where it has been replaced since, the new one
        is left alone and the record is only returned.
        """
        standing = self.quarantine_of(engine_id)
        is_current = registration is self.find(engine_id)
        if standing is not None and is_current:
            return standing
        record = QuarantineRecord(
            engine_id=engine_id,
            owner=None if registration is None else registration["owner"],
            operation=operation,
            reason=_printable(reason),
            failed_at=self._clock(),
        )
        if is_current:
            self._quarantined[engine_id] = (registration, record)
            self._report(record)
        return record

    def _report(self, record: QuarantineRecord) -> None:
        logger.error(
            "context engine '%s' of %s is set aside, failed in %s: %s",
            record.engine_id,
            record.owner or "no plugin",
            record.operation,
            record.reason,
        )
        if self._on_quarantine is None:
            return
        try:
            self._on_quarantine(record)
        except Exception:
            logger.exception("the quarantine of '%s' could not be kept", record.engine_id)


def _checked_id(engine_id: object, owner: str) -> str:
    if not isinstance(engine_id, str) or not engine_id.strip():
        raise ContextEngineError("a context engine needs an id that is not empty", where=owner)
    return engine_id.strip()


def _register(
    tier: Engines,
    existing: Registration | None,
    engine_id: str,
    factory: EngineFactory,
    owner: str,
) -> RegistrationResult:
    if not callable(factory):
        raise ContextEngineError(
            f"the factory is a {type(factory).__name__}, which cannot be called",
            where=f"context engine '{engine_id}'",
            hint="Register a class, or a function that returns an engine",
        )
    holder = refused_by(engine_id, owner, None if existing is None else existing["owner"])
    if holder is not None:
        return RegistrationResult(ok=False, existing_owner=holder)
    tier[engine_id] = {"engine_id": engine_id, "factory": factory, "owner": owner}
    return RegistrationResult(ok=True)


def _put_back(tier: Engines, engine_id: str, before: Registration | None) -> None:
    if before is None:
        tier.pop(engine_id, None)
    else:
        tier[engine_id] = before


def refused_by(engine_id: str, owner: str, existing_owner: str | None) -> str | None:
    """The owner because of whom ``owner`` may not register ``engine_id``, or None (context 2.2)."""
    if engine_id == DEFAULT_ENGINE_ID and owner != CORE_OWNER:
        return CORE_OWNER
    if existing_owner is None:
        return None
    may_refresh = existing_owner == owner and owner != PUBLIC_OWNER
    return None if may_refresh else existing_owner


def _owned(tier: Engines, owner: str) -> Engines:
    return {engine_id: entry for engine_id, entry in tier.items() if entry["owner"] == owner}


def _printable(text: str) -> str:
    """Text of foreign origin on one line and of bounded length."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= _REASON_LIMIT else line[: _REASON_LIMIT - 1] + "…"
