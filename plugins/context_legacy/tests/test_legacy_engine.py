"""The default engine: context 3."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest

from hermitcrab.context import has_method
from hermitcrab.context.contract import OPTIONAL_METHODS
from hermitcrab.context.delegation import using_compaction_runtime
from hermitcrab.errors import ContextEngineError
from hermitcrab.testing import ContextEngineContract, RecordingCompactionRuntime, plain_conversation
from hermitcrab_context_legacy import LegacyContextEngine, register_context_engines


class TestLegacyContextEngine(ContextEngineContract):
    def make_engine(self) -> Any:
        return LegacyContextEngine()


async def test_the_model_sees_the_messages_as_they_are() -> None:
    messages = plain_conversation()
    result = await LegacyContextEngine().assemble(session_id="s", messages=messages, token_budget=1)
    assert result.messages is messages
    assert (result.estimated_tokens, result.system_prompt_addition) == (0, None)


async def test_nothing_is_stored() -> None:
    message = plain_conversation()[0]
    assert not (await LegacyContextEngine().ingest(session_id="s", message=message)).ingested


async def test_the_host_compacts() -> None:
    runtime = RecordingCompactionRuntime()
    with using_compaction_runtime(runtime):
        result = await LegacyContextEngine().compact(
            session_id="s", token_budget=900, custom_instructions="keep ports"
        )
    assert result is runtime.result
    assert runtime.calls[0]["token_budget"] == 900
    assert runtime.calls[0]["custom_instructions"] == "keep ports"


async def test_it_cannot_compact_without_a_host() -> None:
    with pytest.raises(ContextEngineError, match="outside an engine call"):
        await LegacyContextEngine().compact(session_id="s")


def test_it_does_not_own_compaction_and_has_no_optional_methods() -> None:
    """C34: an engine that does not own compaction leaves it to the host."""
    engine = LegacyContextEngine()
    assert engine.info.id == "legacy"
    assert not engine.info.owns_compaction
    assert [name for name in OPTIONAL_METHODS if has_method(engine, name)] == []


def test_it_registers_under_its_reserved_id() -> None:
    registered: dict[str, Any] = {}

    class Registry:
        def register(self, engine_id: str, factory: Any) -> None:
            registered[engine_id] = factory

    register_context_engines(Registry())
    assert registered == {"legacy": LegacyContextEngine}


def test_its_entry_point_names_the_module() -> None:
    (found,) = entry_points(group="hermitcrab.context_engines", name="legacy")
    assert found.value == "hermitcrab_context_legacy"
