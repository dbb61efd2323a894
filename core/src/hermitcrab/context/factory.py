"""Making an engine from what a plugin registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hermitcrab.context.contract import EngineContext
from hermitcrab.errors import ContextEngineError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_CONTEXT_NAMES = frozenset({"context", "ctx", "engine_context"})

#: A class or function that returns an engine or an awaitable of one; it takes an :class:`EngineContext` or nothing.
EngineFactory = Callable[..., Any]


async def make_engine(factory: EngineFactory, context: EngineContext) -> Any:
    """Call ``factory`` with the context, or with nothing if it takes nothing; await the result if need be.

    :raises ContextEngineError: the factory cannot be called in either way.
    """
    made = factory(**{name: context}) if (name := _keyword(factory)) else _call(factory, context)
    return await made if inspect.isawaitable(made) else made


def _call(factory: EngineFactory, context: EngineContext) -> Any:
    return factory(context) if _takes_context(factory) else factory()


def _takes_context(factory: EngineFactory) -> bool:
    parameters = _parameters(factory)
    if parameters is None:
        return True
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in _POSITIONAL]
    if len(needed) > 1:
        raise ContextEngineError(
            f"the factory needs {len(needed)} arguments ({', '.join(needed)})",
            where=getattr(factory, "__qualname__", repr(factory)),
            hint="A factory is called with one EngineContext, or with nothing",
        )
    if needed:
        return True
    first = next((p for p in parameters if p.kind in _POSITIONAL), None)
    if first is None:
        return any(p.kind is p.VAR_POSITIONAL for p in parameters)
    # A default means that the parameter may be anything, a path say: only a context's name claims the context.
    return first.name in _CONTEXT_NAMES or first.annotation in (EngineContext, "EngineContext")


def _keyword(factory: EngineFactory) -> str | None:
    """The name of a keyword-only parameter for the context, if there is one."""
    for parameter in _parameters(factory) or ():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in _CONTEXT_NAMES:
            return parameter.name
    return None


def _parameters(factory: EngineFactory) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return None
