"""The hooks as pluggy knows them: declared, and checked against what a plugin implements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

import pluggy
from attrs import frozen

from hermitcrab.errors import PluginError
from hermitcrab.hooks.markers import PROJECT
from hermitcrab.hooks.signatures import accepted_arguments
from hermitcrab.hooks.specifications import HANDLER_ARGUMENTS, HOOKS
from hermitcrab.plugins.registration import REGISTRATION_ARGUMENTS

#: Every hook, of events and of registration, with the arguments that it offers.
DECLARED_HOOKS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(HOOKS, HANDLER_ARGUMENTS),
    **REGISTRATION_ARGUMENTS,
}


@frozen(kw_only=True)
class FoundHook:
    """One implementation that a plugin carries; ``options`` are those of its marker."""

    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any]
    argnames: tuple[str, ...]


@frozen(kw_only=True)
class FoundHooks:
    """What a plugin implements; ``unknown`` are names that are no hook."""

    hooks: tuple[FoundHook, ...]
    unknown: tuple[str, ...]


def read_hooks(plugin: Any, plugin_id: str) -> FoundHooks:
    """What ``plugin`` implements, checked against the declarations.

    Each plugin has a manager of its own: pluggy tells plugins apart by equality, keeps those that fail its checks, and
    accepts unknown names without a word, and none of this may reach from one plugin to another (notes 9).

    :raises PluginError: if an implementation takes something that its hook does not offer.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(_declarations())
    try:
        manager.register(plugin, plugin_id)
    except pluggy.PluginValidationError as error:
        raise PluginError(" ".join(str(error).split())) from error
    callers = manager.get_hookcallers(plugin) or ()
    return FoundHooks(
        hooks=tuple(
            _checked(caller.name, each.function, each.opts)
            for caller in callers
            if caller.has_spec()
            for each in caller.get_hookimpls()
        ),
        unknown=tuple(sorted(caller.name for caller in callers if not caller.has_spec())),
    )


def _checked(name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> FoundHook:
    if options.get("wrapper") or options.get("hookwrapper"):
        raise PluginError(f"{name}: wrappers are not supported")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise PluginError(f"{name}: a generator cannot implement a hook")
    try:
        argnames = accepted_arguments(function, DECLARED_HOOKS[name])
    except PluginError as error:
        raise PluginError(f"{name}: {error.message}") from error
    return FoundHook(name=name, function=function, options=options, argnames=argnames)


@cache
def _declarations() -> ModuleType:
    mark = pluggy.HookspecMarker(PROJECT)
    templates = {HANDLER_ARGUMENTS: _handler, ("registry",): _registrar, (): _provider}
    declarations = ModuleType("hermitcrab_hooks", "The declared hooks.")
    for name, arguments in DECLARED_HOOKS.items():
        setattr(declarations, name, mark(templates[arguments]()))
    return declarations


def _handler() -> Callable[..., Any]:
    def declared(event: Any, ctx: Any) -> Any: ...

    return declared


def _registrar() -> Callable[..., Any]:
    def declared(registry: Any) -> Any: ...

    return declared


def _provider() -> Callable[..., Any]:
    def declared() -> Any: ...

    return declared
