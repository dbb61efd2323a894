"""Loading one plugin: it loads as a whole, or leaves nothing behind (sessions 7.5)."""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any

from attrs import frozen

from hermitcrab.errors import PluginError
from hermitcrab.hooks.implementations import HookImplementation, HookImplementations
from hermitcrab.hooks.policy import HookPolicy, refusal
from hermitcrab.hooks.specifications import HOOKS
from hermitcrab.plugins.declarations import DECLARED_HOOKS, FoundHook, read_hooks
from hermitcrab.plugins.failures import failed_record, failure, host_remedy
from hermitcrab.plugins.loading_context import LoadingPlugin, loading
from hermitcrab.plugins.planning import LoadRequest
from hermitcrab.plugins.plugin_config import read_plugin_config
from hermitcrab.plugins.records import NO_HOOK, Diagnostic, Phase, PluginRecord
from hermitcrab.plugins.registration import (
    CONFIG_CLASS_HOOK,
    REGISTRATION_HOOKS,
    PluginRegistries,
    Refusal,
    RegistrationLog,
    owner_in,
)

logger = logging.getLogger("hermitcrab.plugins")


@frozen(kw_only=True)
class LoadOutcome:
    """What became of one plugin; ``plugin_config`` is what its handlers and factories get."""

    record: PluginRecord
    diagnostics: tuple[Diagnostic, ...]
    plugin_config: Any = None


class _Progress:
    """In which phase a plugin is, and what there is to say about it so far."""

    def __init__(self, plugin_id: str) -> None:
        self.plugin_id = plugin_id
        self.phase: Phase = "validation"
        self.diagnostics: list[Diagnostic] = []

    def warn(self, message: str, hint: str | None = None, *, is_error: bool = False) -> None:
        self.diagnostics.append(
            Diagnostic(
                level="error" if is_error else "warning",
                plugin_id=self.plugin_id,
                phase=self.phase,
                message=message,
                hint=hint,
            )
        )


class PluginLoader:
    """Loads plugins into ``registries`` and ``implementations``.

    :param host_version: the version that plugins' requirements on the host are compared with.
    """

    def __init__(
        self,
        registries: PluginRegistries,
        implementations: HookImplementations,
        host_version: str,
    ) -> None:
        self._registries = registries
        self._implementations = implementations
        self._host_version = host_version
        self._order = itertools.count()

    def load(self, request: LoadRequest) -> LoadOutcome:
        """Import and register one plugin. What it raises, ``SystemExit`` included, ends in the record."""
        progress = _Progress(request.id)
        try:
            return self._load(request, progress)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it becomes the plugin's record
            diagnostic = failure(request, progress.phase, error)
            return LoadOutcome(
                record=failed_record(request, progress.phase, error),
                diagnostics=(*progress.diagnostics, diagnostic),
            )

    def unload(self, record: PluginRecord) -> None:
        """Forget everything that a loaded plugin implements and registered."""
        self._implementations.remove(record.id)
        self._registries.remove(record.id, core=record.core)

    def _load(self, request: LoadRequest, progress: _Progress) -> LoadOutcome:
        self._check_host_version(request)
        progress.phase = "load"
        with self._transaction(request):
            objects = [_checked_object(source()) for source in request.sources]
            progress.phase = "register"
            found = [hook for each in objects for hook in _hooks_of(each, progress)]
            progress.phase = "validation"
            plugin_config = _plugin_config(request, found)
            progress.phase = "register"
            log = RegistrationLog(self._registries, request.id, core=request.core)
            _register(found, log, plugin_config)
            for each in log.refusals:
                progress.warn(*_refused_registration(each), is_error=True)
            handlers = self._handlers(request, found, plugin_config, progress)
            self._implementations.add(handlers)
        record = request.record(
            status="loaded",
            hooks=tuple(sorted({handler.hook for handler in handlers})),
            registrations=tuple(log.registrations),
        )
        return LoadOutcome(
            record=record, diagnostics=tuple(progress.diagnostics), plugin_config=plugin_config
        )

    def _check_host_version(self, request: LoadRequest) -> None:
        needed = request.requires_hermitcrab
        if needed is None or needed.contains(self._host_version, prereleases=True):
            return
        raise PluginError(
            f"it needs hermitcrab{needed}, and this is {self._host_version}",
            hint=host_remedy(needed, self._host_version, request.distribution),
        )

    @contextmanager
    def _transaction(self, request: LoadRequest) -> Iterator[None]:
        """An exception inside undoes the registrations, module-level ones included, and the hooks."""
        plugin = LoadingPlugin(
            request.id, owner_in("context_engines", request.id, core=request.core)
        )
        with (
            loading(plugin),
            self._registries.stage(request.id, core=request.core),
        ):
            plugin.on_rollback(partial(self._implementations.remove, request.id))
            yield

    def _handlers(
        self,
        request: LoadRequest,
        found: Sequence[FoundHook],
        plugin_config: Any,
        progress: _Progress,
    ) -> list[HookImplementation]:
        policy = _policy(request)
        handlers = []
        for hook in found:
            if hook.name not in HOOKS:
                continue
            reason = refusal(hook.name, policy)
            if reason is not None:
                path = f"plugins.entries.{request.id}.{reason}"
                progress.warn(f"its {hook.name} handler is not used, because {path}")
                continue
            handlers.append(
                HookImplementation(
                    plugin_id=request.id,
                    hook=hook.name,
                    function=hook.function,
                    priority=hook.options.get("priority", 0),
                    order=next(self._order),
                    blocking=hook.options.get("blocking", False),
                    timeout_ms=hook.options.get("timeout_ms"),
                    argnames=hook.argnames,
                    plugin_config=plugin_config,
                    policy=policy,
                )
            )
        return handlers


def _hooks_of(plugin: Any, progress: _Progress) -> tuple[FoundHook, ...]:
    found = read_hooks(plugin, progress.plugin_id)
    for name in found.unknown:
        progress.warn(*_unknown_hook(name))
    if not found.hooks and not found.unknown:
        progress.warn(NO_HOOK, "Mark its functions with @hookimpl")
    return found.hooks


def _checked_object(plugin: Any) -> Any:
    if inspect.isclass(plugin):
        raise PluginError(
            f"its entry point is the class {plugin.__name__}, and must be a module or an instance",
            hint=f"Let the entry point name an instance: {plugin.__name__.lower()} = {plugin.__name__}()",
        )
    if plugin is None:
        raise PluginError("its entry point is None, and must be a module or an instance")
    return plugin


def _unknown_hook(name: str) -> tuple[str, str | None]:
    near = get_close_matches(name, DECLARED_HOOKS, n=1)
    return f'unknown hook "{name}" ignored', f'Did you mean "{near[0]}"?' if near else None


def _refused_registration(refused: Refusal) -> tuple[str, str]:
    each = refused.registration
    owner = refused.existing_owner or "another owner"
    message = f'its registration of "{each.id}" in {each.registry} is refused: {owner} has this id'
    return message, "Disable one of the two, or ask an author to choose another id"


def _plugin_config(request: LoadRequest, found: Sequence[FoundHook]) -> Any:
    config = {} if request.entry is None else request.entry.config
    for hook in found:
        if hook.name == CONFIG_CLASS_HOOK:
            return read_plugin_config(request.id, config, _synchronous(hook, hook.function()))
    return config


def _register(found: Sequence[FoundHook], log: RegistrationLog, plugin_config: Any) -> None:
    for name, registry in REGISTRATION_HOOKS.items():
        for hook in found:
            if hook.name == name:
                bound = log.bound(registry, plugin_config)
                try:
                    offered = {"registry": bound}
                    arguments = {argument: offered[argument] for argument in hook.argnames}
                    _synchronous(hook, hook.function(**arguments))
                finally:
                    bound.close()


def _synchronous(hook: FoundHook, value: Any) -> Any:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise PluginError(f"{hook.name} must be synchronous")
    return value


def _policy(request: LoadRequest) -> HookPolicy:
    if request.entry is None:
        return HookPolicy()
    hooks = request.entry.hooks
    return HookPolicy(
        allow_prompt_injection=hooks.allow_prompt_injection,
        allow_conversation_access=hooks.allow_conversation_access,
        timeout_ms=hooks.timeout_ms,
        timeouts=hooks.timeouts,
    )
