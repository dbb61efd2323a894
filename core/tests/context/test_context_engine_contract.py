"""The contract tests for third parties: engines that keep the contract pass, and each breach is caught."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab.context import (
    AssembleResult,
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    SubagentPreparation,
    delegate_compaction,
)
from hermitcrab.context.compatibility import CompatibleEngine
from hermitcrab.context.validation import validate_engine
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.testing import (
    ContextEngineContract,
    RecordingCompactionRuntime,
    plain_conversation,
    tool_conversation,
    wire_problems,
)


class RecentTurnsEngine(ContextEngine):
    """Owns compaction: keeps the messages since the last user message but one."""

    info = ContextEngineInfo(id="recent", name="Recent turns", owns_compaction=True)

    async def ingest(self, **_: Any) -> IngestResult:
        await asyncio.sleep(0)
        return IngestResult(ingested=True)

    async def assemble(self, *, messages: list[Any], **_: Any) -> AssembleResult:
        starts = [index for index, message in enumerate(messages) if message["role"] == "user"]
        return AssembleResult(messages[starts[-2:][0] :])

    async def compact(self, **_: Any) -> CompactResult:
        return CompactResult(ok=True, compacted=False, reason="the window is kept at each turn")

    async def prepare_subagent_spawn(self, **_: Any) -> SubagentPreparation:
        return SubagentPreparation(rollback=lambda: None)

    async def after_turn(self, **_: Any) -> None:
        return None


class ForeignEngine:
    """Does not know hermitcrab's classes; stores, and forgets duplicates."""

    def __init__(self) -> None:
        self.info = {"id": "foreign", "name": "Foreign"}
        self.stored: list[Any] = []

    async def bootstrap(self, session_id: str) -> Any:
        return {"bootstrapped": True}

    async def ingest(self, message: Any) -> Any:
        new = message not in self.stored
        self.stored += [message] if new else []
        return {"ingested": new}

    async def ingest_batch(self, messages: list[Any]) -> Any:
        return {"ingestedCount": len(messages)}

    async def assemble(self, messages: list[Any]) -> Any:
        return {"messages": messages, "estimatedTokens": 0}

    async def compact(self, **params: Any) -> Any:
        return await delegate_compaction(**params)


class TestRecentTurnsEngine(ContextEngineContract):
    def make_engine(self) -> Any:
        return RecentTurnsEngine()


class TestForeignEngine(ContextEngineContract):
    async def make_engine(self) -> Any:
        return ForeignEngine()


def wrapped(engine: Any) -> CompatibleEngine:
    return CompatibleEngine(validate_engine(engine, engine_id="broken"), engine_id="broken")


def assembling(change: Any, **fields: Any) -> CompatibleEngine:
    """An engine that owns compaction and whose ``assemble`` returns ``change(messages)``."""

    class Broken(RecentTurnsEngine):
        async def assemble(self, *, messages: list[Any], **_: Any) -> AssembleResult:
            return AssembleResult(change(messages), **fields)

    return wrapped(Broken())


class TestBreachesAreCaught:
    contract = ContextEngineContract()

    async def test_dropping_the_current_user_message(self) -> None:
        engine = assembling(lambda messages: messages[:-1])
        with pytest.raises(AssertionError):
            await self.contract.test_assemble_keeps_the_current_user_message_last(
                engine, plain_conversation()
            )

    async def test_orphaned_tool_results(self) -> None:
        engine = assembling(lambda messages: [m for m in messages if not tool_calls_of(m)])
        with pytest.raises(AssertionError):
            await self.contract.test_assembled_messages_are_fit_for_a_model(
                engine, tool_conversation()
            )
        with pytest.raises(AssertionError):
            await self.contract.test_a_tool_round_in_progress_stays_whole(engine)

    async def test_changing_the_messages_of_the_host(self) -> None:
        def change(messages: list[Any]) -> list[Any]:
            messages[0]["content"] = "[removed]"
            return messages

        with pytest.raises(AssertionError, match="read-only"):
            await self.contract.test_assemble_leaves_the_messages_of_the_host_alone(
                assembling(change), plain_conversation()
            )

    async def test_hiding_that_the_budget_is_exceeded(self) -> None:
        with pytest.raises(AssertionError):
            await self.contract.test_a_context_over_the_budget_is_not_hidden(
                assembling(lambda messages: messages)
            )

    @pytest.mark.parametrize(
        "fields", [{"estimated_tokens": 9999}, {"prompt_authority": "preassembly_may_overflow"}]
    )
    async def test_saying_that_the_budget_is_exceeded_is_fine(self, fields: dict[str, Any]) -> None:
        engine = assembling(lambda messages: messages, **fields)
        await self.contract.test_a_context_over_the_budget_is_not_hidden(engine)

    async def test_claiming_a_compaction_that_nobody_made(self) -> None:
        class Claiming(ForeignEngine):
            async def compact(self, **params: Any) -> Any:
                return {"ok": True, "compacted": True}

        with pytest.raises(AssertionError, match="only the host's runtime"):
            await self.contract.test_compact_reports_what_it_did(
                wrapped(Claiming()), RecordingCompactionRuntime()
            )

    async def test_failing_without_a_reason(self) -> None:
        class Silent(RecentTurnsEngine):
            async def compact(self, **_: Any) -> CompactResult:
                return CompactResult(ok=False, compacted=False)

        with pytest.raises(AssertionError, match="reason"):
            await self.contract.test_compact_reports_what_it_did(
                wrapped(Silent()), RecordingCompactionRuntime()
            )

    async def test_swallowing_the_cancelling(self) -> None:
        class Swallowing(RecentTurnsEngine):
            async def compact(self, **_: Any) -> CompactResult:
                try:
                    return await delegate_compaction(session_id="s")
                except asyncio.CancelledError:
                    return CompactResult(ok=False, compacted=False, reason="stopped")

        with pytest.raises(AssertionError, match="CancelledError"):
            await self.contract.test_cancelling_goes_through(wrapped(Swallowing()), "compact")

    async def test_missing_methods(self) -> None:
        from hermitcrab.errors import ContextEngineError

        with pytest.raises(ContextEngineError, match="'compact' is missing"):
            await self.contract.test_info_methods_and_signatures_fulfil_the_contract(
                SimpleNamespace(info={"id": "x", "name": "X"})
            )

    def test_a_contract_without_an_engine_says_what_to_write(self) -> None:
        with pytest.raises(NotImplementedError, match="def make_engine"):
            self.contract.make_engine()


class TestWireProblems:
    def test_the_samples_have_none(self) -> None:
        assert wire_problems(tool_conversation()) == []

    @pytest.mark.parametrize(
        ("message", "part"),
        [
            ("text", "is a str"),
            ({"role": "system", "content": "x"}, "role 'system'"),
            ({"role": "user"}, "NoneType as content"),
            ({"role": "user", "content": [{"text": "x"}]}, "block without a type"),
        ],
    )
    def test_a_malformed_message_is_named(self, message: Any, part: str) -> None:
        assert part in wire_problems([*plain_conversation(), message])[0]

    def test_a_call_without_a_result_is_named(self) -> None:
        problems = wire_problems(tool_conversation()[:3])
        assert problems == ["call 'call_2' has no result"]


def test_without_pytest_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None; import hermitcrab.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install pytest pytest-asyncio" in done.stderr


def test_importing_the_room_loads_nothing_heavy() -> None:
    code = (
        "import sys; import hermitcrab.context; "
        "heavy = {'httpx', 'tiktoken', 'sqlite3', 'numpy', 'rich', 'click', 'pluggy', 'yaml', 'pytest'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
