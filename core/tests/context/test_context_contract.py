"""The base class, and which methods count as present: context 1 and design 4."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import hermitcrab.context
from hermitcrab.context import ContextEngine, ContextEngineInfo, has_method
from hermitcrab.context.contract import OPTIONAL_METHODS, REQUIRED_METHODS

METHODS = [*REQUIRED_METHODS, *OPTIONAL_METHODS]


@pytest.mark.parametrize("missing", ["info", "ingest", "assemble", "compact"])
def test_an_engine_without_a_required_part_cannot_be_made(missing: str, plain_engine: Any) -> None:
    body = {
        name: plain_engine.__dict__[name]
        for name in ("info", "ingest", "assemble", "compact")
        if name != missing
    }
    with pytest.raises(TypeError, match=missing):
        type("Partial", (ContextEngine,), body)()


@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_is_keyword_only(method: str) -> None:
    parameters = list(inspect.signature(getattr(ContextEngine, method)).parameters.values())[1:]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    assert "abort_signal" not in [parameter.name for parameter in parameters]


def test_optional_methods_count_only_when_overridden(plain_engine: Any) -> None:
    class WithBatch(plain_engine):  # type: ignore[misc]
        async def ingest_batch(self, **params: Any) -> Any: ...

    plain, batch = plain_engine(), WithBatch()
    assert [name for name in METHODS if has_method(plain, name)] == list(REQUIRED_METHODS)
    assert has_method(batch, "ingest_batch")
    assert not has_method(batch, "after_turn")
    assert not has_method(batch, "commit_turn")


def test_methods_of_other_objects_count_when_they_can_be_called() -> None:
    class Foreign:
        bootstrap = None

        def maintain(self) -> None: ...

    assert has_method(Foreign(), "maintain")
    assert not has_method(Foreign(), "bootstrap")
    assert not has_method(Foreign(), "ingest")


async def test_optional_methods_may_be_called_through_super(plain_engine: Any) -> None:
    engine = plain_engine()
    assert not (await engine.bootstrap(session_id="s")).bootstrapped
    assert not (await engine.maintain(session_id="s")).changed
    assert (await engine.ingest_batch(session_id="s", messages=[])).ingested_count == 0
    assert await engine.dispose() is None


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "", "name": "x"},
        {"id": "x", "name": ""},
        {"id": 3, "name": "x"},
        {"id": "x", "name": "x", "owns_compaction": "yes"},
        {"id": "x", "name": "x", "turn_maintenance_mode": "later"},
        {"id": "x", "name": "x", "accepted_host_params": "prompt"},
    ],
)
def test_info_checks_its_fields(fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        ContextEngineInfo(**fields)


def test_public_names_are_sorted_and_all_there_is() -> None:
    names = hermitcrab.context.__all__
    assert names == sorted(names)
    source = Path(inspect.getfile(hermitcrab.context)).read_text()
    imported = {
        alias.asname or alias.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert set(names) == imported
