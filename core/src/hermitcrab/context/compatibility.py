"""Calling an engine with just those parameters that it takes, and reading what it returns (context 2.5, design 3)."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterable, Iterator, Set
from typing import Any

from attrs import evolve

from hermitcrab.config.names import camel_case
from hermitcrab.context.contract import OPTIONAL_HOST_PARAMETERS, ContextEngineInfo
from hermitcrab.context.proxy import EngineProxy
from hermitcrab.context.results import convert_result, neutral_result
from hermitcrab.context.validation import (
    MethodSignature,
    ValidEngine,
    contract_parameters,
)

logger = logging.getLogger("hermitcrab.context")

#: A compaction has effects that must not happen twice.
_NEVER_CALLED_AGAIN = frozenset({"compact"})

_REJECTION = re.compile(
    r"unexpected|unknown|unrecogni[sz]ed|unsupported|extraneous|\bextra\b|additional propert|forbidden"
    r"|no such|not (?:a valid|allowed|permitted|accepted|supported|expected|recogni[sz]ed|known)"
    r"|(?:does not|doesn't|cannot|can't) (?:accept|take|support)"
    r"|invalid (?:property|field|key|keyword|name|option|parameter|argument)",
    re.IGNORECASE,
)


class CompatibleEngine(EngineProxy):
    """An engine as the host calls it.

    Parameters that a method's signature does not take are not passed; a required one that the host has no value for
    gets the contract's default. For methods that take ``**kwargs``, an optional host parameter that the engine's own
    validation names is dropped and the call repeated, once for each newly named parameter and never for ``compact``.
    """

    def __init__(self, valid: ValidEngine, *, engine_id: str) -> None:
        self.engine = valid.engine
        self.engine_id = engine_id
        self._info = evolve(valid.info, id=engine_id)
        self._signatures = valid.signatures
        self._withheld = withheld_parameters(valid.info)
        self._refused: frozenset[str] = frozenset()

    @property
    def info(self) -> ContextEngineInfo:
        """The engine's info, under the id that it is registered with."""
        return self._info

    def offers_method(self, name: str) -> bool:
        return name in self._signatures

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        signature = self._signatures.get(method)
        if signature is None:
            return neutral_result(method, f"context engine '{self.engine_id}' has no {method}")
        selected = select_parameters(method, signature, params, withheld=self._withheld)
        if signature.takes_any and method not in _NEVER_CALLED_AGAIN:
            result = await self._call_learning(method, selected)
        else:
            result = await self._call_once(method, _without(selected, self._refused))
        return convert_result(method, result, engine_id=self.engine_id)

    async def _call_learning(self, method: str, params: dict[str, Any]) -> Any:
        refused = self._refused
        while True:
            try:
                result = await self._call_once(method, _without(params, refused))
            except Exception as error:
                candidates = (OPTIONAL_HOST_PARAMETERS & params.keys()) - refused
                named = rejected_parameters(error, candidates)
                if not named:
                    raise
                refused |= named
            else:
                self._remember(method, refused)
                return result

    async def _call_once(self, method: str, params: dict[str, Any]) -> Any:
        result = getattr(self.engine, method)(**params)
        return await result if inspect.isawaitable(result) else result

    def _remember(self, method: str, refused: frozenset[str]) -> None:
        # Kept after a call that succeeded without them only: a failing call proves nothing.
        learned = refused - self._refused
        self._refused |= learned
        if learned:
            names = ", ".join(sorted(learned))
            logger.warning(
                "context engine '%s' refuses %s in %s; it is no longer passed to this instance",
                self.engine_id,
                names,
                method,
            )


def withheld_parameters(info: ContextEngineInfo) -> frozenset[str]:
    """The optional host parameters that an engine declares it does not take (context 1.1)."""
    if info.accepted_host_params is None:
        return frozenset()
    accepted = set(info.accepted_host_params)
    return frozenset(
        name
        for name in OPTIONAL_HOST_PARAMETERS
        if name not in accepted and camel_case(name) not in accepted
    )


def select_parameters(
    method: str, signature: MethodSignature, params: dict[str, Any], *, withheld: Set[str]
) -> dict[str, Any]:
    """The parameters of ``params`` that the method takes, and the contract's defaults for what it requires besides."""
    selected = {
        name: value
        for name, value in params.items()
        if name not in withheld and (signature.takes_any or name in signature.accepted)
    }
    lacking = signature.required - selected.keys()
    if lacking:
        defaults = contract_parameters(method)
        selected |= {name: defaults.get(name) for name in lacking}
    return selected


def rejected_parameters(error: BaseException, candidates: Iterable[str]) -> frozenset[str]:
    """Those of ``candidates`` that a validation error quotes as unknown; empty for any other error."""
    if not _is_validation_error(error):
        return frozenset()
    texts = [text for text in _texts(error) if _REJECTION.search(text)]
    return frozenset(
        name
        for name in candidates
        if any(re.search(rf"['\"`‘“]{re.escape(name)}['\"`’”]", text) for text in texts)
    )


def _is_validation_error(error: BaseException) -> bool:
    return isinstance(error, TypeError | ValueError) or any(
        base.__name__.endswith("ValidationError") for base in type(error).__mro__
    )


def _texts(error: BaseException) -> Iterator[str]:
    """The error's text, and the entries of validators that list ``loc`` and ``msg`` for each problem."""
    yield str(error)
    listed = getattr(error, "errors", None)
    entries = listed() if callable(listed) else listed
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("loc"):
            yield f"'{entry['loc'][-1]}': {entry.get('msg')}"


def _without(params: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in names}
