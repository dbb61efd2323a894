"""Checking what a factory made against the contract, before it is called for the first time (context 2.3).

All problems are collected, so that an author sees them at once.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Any

import attrs
from attrs import frozen

from hermitcrab.context.contract import (
    OPTIONAL_HOST_PARAMETERS,
    OPTIONAL_METHODS,
    REQUIRED_METHODS,
    ContextEngine,
    ContextEngineInfo,
    has_method,
)
from hermitcrab.context.results import read_field
from hermitcrab.errors import ContextEngineError


@frozen
class MethodSignature:
    """What a method takes by keyword; ``takes_any`` is true for ``**kwargs`` and for unreadable signatures."""

    accepted: frozenset[str]
    required: frozenset[str]
    positional_only: tuple[str, ...] = ()
    takes_any: bool = False


@frozen
class ValidEngine:
    """An engine that fulfils the contract, with what was read from it once."""

    engine: Any
    info: ContextEngineInfo
    signatures: dict[str, MethodSignature]


def validate_engine(engine: Any, *, engine_id: str) -> ValidEngine:
    """Read the info and the signatures of an engine.

    :raises ContextEngineError: the contract is broken; the message lists all problems.
    """
    problems = _object_problems(engine)
    if not problems:
        info, problems = _read_info(engine)
        signatures = _signatures(engine)
        problems += _method_problems(engine)
        for method, signature in signatures.items():
            problems += _signature_problems(method, signature)
        if info is not None and not problems:
            return ValidEngine(engine, info, signatures)
    raise ContextEngineError(
        f"the contract of context engines is broken: {'; '.join(problems)}",
        where=f"context engine '{engine_id}'",
        hint="hermitcrab.testing.ContextEngineContract checks an engine against the contract",
    )


def read_signature(function: Any) -> MethodSignature:
    """What ``function`` takes by keyword."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return MethodSignature(frozenset(), frozenset(), takes_any=True)
    by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return MethodSignature(
        accepted=frozenset(p.name for p in by_name),
        required=frozenset(p.name for p in by_name if p.default is p.empty),
        positional_only=tuple(
            p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty
        ),
        takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def contract_parameters(method: str) -> dict[str, Any]:
    """The parameters that the contract gives ``method``, with their defaults (None for required ones)."""
    parameters = inspect.signature(getattr(ContextEngine, method)).parameters.values()
    return {
        p.name: None if p.default is p.empty else p.default for p in parameters if p.name != "self"
    }


def _object_problems(engine: Any) -> list[str]:
    if engine is None:
        return ["the factory returned nothing"]
    if isinstance(engine, type):
        return [f"the factory returned the class {engine.__name__}, not an instance of it"]
    return []


def _read_info(engine: Any) -> tuple[ContextEngineInfo | None, list[str]]:
    try:
        source = read_field(engine, "info")
    except Exception as error:  # noqa: BLE001 - foreign code; the problem is reported
        return None, [f"'info' raises {type(error).__name__}: {error}"]
    if isinstance(source, ContextEngineInfo):
        return source, []
    if source is None or isinstance(source, str | type) or callable(source):
        return None, ["'info' must be a ContextEngineInfo, as a property or an attribute"]
    values = {a.name: read_field(source, a.name) for a in attrs.fields(ContextEngineInfo)}
    problems = [
        f"'info.{name}' must be a non-empty text, got {values[name]!r}"
        for name in ("id", "name")
        if not isinstance(values[name], str) or not values[name]
    ]
    if problems:
        return None, problems
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return ContextEngineInfo(**given), []
    except (TypeError, ValueError) as error:
        return None, [f"info: {error.args[0]}"]


def _method_problems(engine: Any) -> list[str]:
    missing = [
        f"the method '{name}' is missing" if not hasattr(engine, name) else f"'{name}' is no method"
        for name in REQUIRED_METHODS
        if not callable(getattr(engine, name, None))
    ]
    odd = [
        f"'{name}' is no method"
        for name in OPTIONAL_METHODS
        if (value := getattr(engine, name, None)) is not None and not callable(value)
    ]
    return missing + odd


def _signatures(engine: Any) -> dict[str, MethodSignature]:
    return {
        name: read_signature(getattr(engine, name))
        for name in (*REQUIRED_METHODS, *OPTIONAL_METHODS)
        if has_method(engine, name)
    }


def _signature_problems(method: str, signature: MethodSignature) -> list[str]:
    known = {*contract_parameters(method), *OPTIONAL_HOST_PARAMETERS}
    problems = [
        f"{method} takes '{name}' by position only; parameters are passed by keyword"
        for name in signature.positional_only
    ]
    for name in sorted(signature.required - known):
        near = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
        advice = f"; did you mean '{near[0]}'?" if near else ""
        problems.append(f"{method} requires '{name}', which the host does not pass{advice}")
    return problems
