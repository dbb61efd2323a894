"""The contract of context engines as tests (context 1)."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from hermitcrab.context.compatibility import CompatibleEngine
from hermitcrab.context.contract import ContextEngine, has_method
from hermitcrab.context.delegation import using_compaction_runtime
from hermitcrab.context.results import (
    AssembleResult,
    BootstrapResult,
    CompactResult,
    IngestBatchResult,
    IngestResult,
    MaintainResult,
    SubagentPreparation,
)
from hermitcrab.context.validation import contract_parameters, validate_engine
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.testing.conversations import (
    chinese_conversation,
    long_conversation,
    plain_conversation,
    rough_tokens,
    tool_conversation,
    wire_problems,
)
from hermitcrab.testing.runtimes import RecordingCompactionRuntime

_SESSION: dict[str, Any] = {"session_id": "2f6f1c9e-contract", "session_key": "agent:main:main"}
_AMPLE_BUDGET = 100_000
_TIGHT_BUDGET = 1_000
_SAMPLES = {
    "plain": plain_conversation,
    "tools": tool_conversation,
    "chinese": chinese_conversation,
    "long": long_conversation,
}


class ContextEngineContract:
    """Subclass as ``class TestMyEngine(ContextEngineContract)`` and say how to make an engine.

    The engine is called as the host calls it: parameters that its signatures do not take are left out, and what it
    returns is read into the result classes.
    """

    def make_engine(self) -> Any:
        """A new engine, or an awaitable of one."""
        raise NotImplementedError(
            "a contract test says how to make the engine: def make_engine(self)"
        )

    @pytest_asyncio.fixture
    async def made_engine(self) -> Any:
        """The engine as the factory made it."""
        made = self.make_engine()
        return await made if inspect.isawaitable(made) else made

    @pytest_asyncio.fixture
    async def engine(self, made_engine: Any) -> AsyncIterator[ContextEngine]:
        """The engine as the host calls it."""
        valid = validate_engine(made_engine, engine_id=_own_id(made_engine))
        engine = CompatibleEngine(valid, engine_id=valid.info.id)
        yield engine
        await engine.dispose()

    @pytest.fixture
    def runtime(self) -> RecordingCompactionRuntime:
        """A compaction runtime for engines that delegate."""
        return RecordingCompactionRuntime()

    @pytest.fixture(params=sorted(_SAMPLES))
    def conversation(self, request: pytest.FixtureRequest) -> list[Message]:
        """A sample conversation that ends with the current user message."""
        return _SAMPLES[request.param]()

    @pytest.mark.asyncio
    async def test_info_methods_and_signatures_fulfil_the_contract(self, made_engine: Any) -> None:
        valid = validate_engine(made_engine, engine_id=_own_id(made_engine))
        assert valid.info.id.strip() == valid.info.id, "an id has no spaces around it"

    @pytest.mark.asyncio
    async def test_ingest_says_whether_it_stored_the_message(
        self, engine: ContextEngine, conversation: list[Message]
    ) -> None:
        for message in conversation:
            first = await engine.ingest(**_SESSION, message=message)
            again = await engine.ingest(**_SESSION, message=message)
            assert isinstance(first, IngestResult)
            assert isinstance(again, IngestResult)

    @pytest.mark.asyncio
    async def test_assemble_keeps_the_current_user_message_last(
        self, engine: ContextEngine, conversation: list[Message]
    ) -> None:
        prompt = text_of(conversation[-1])
        result = await _assemble(engine, conversation)
        assert result.messages, "the model needs at least the current user message"
        assert result.messages[-1]["role"] == "user"
        assert prompt in text_of(result.messages[-1])

    @pytest.mark.asyncio
    async def test_assembled_messages_are_fit_for_a_model(
        self, engine: ContextEngine, conversation: list[Message]
    ) -> None:
        result = await _assemble(engine, conversation)
        assert wire_problems(result.messages) == []

    @pytest.mark.asyncio
    async def test_a_tool_round_in_progress_stays_whole(self, engine: ContextEngine) -> None:
        in_progress = tool_conversation()[:4]
        result = await _assemble(engine, in_progress, prompt=text_of(in_progress[0]))
        assert wire_problems(result.messages) == []
        assert result.messages[-1]["role"] == "toolResult", "the newest tool result comes last"

    @pytest.mark.asyncio
    async def test_assemble_leaves_the_messages_of_the_host_alone(
        self, engine: ContextEngine, conversation: list[Message]
    ) -> None:
        before = copy.deepcopy(conversation)
        await _assemble(engine, conversation, token_budget=_TIGHT_BUDGET)
        assert conversation == before, "messages are shared and read-only"

    @pytest.mark.asyncio
    async def test_a_context_over_the_budget_is_not_hidden(self, engine: ContextEngine) -> None:
        """An engine that owns compaction keeps to the budget, or says that its context may overflow."""
        result = await _assemble(engine, long_conversation(), token_budget=_TIGHT_BUDGET)
        said = (
            result.estimated_tokens > _TIGHT_BUDGET
            or result.prompt_authority == "preassembly_may_overflow"
            or not engine.info.owns_compaction
        )
        assert said or rough_tokens(result.messages) <= _TIGHT_BUDGET

    @pytest.mark.asyncio
    async def test_parameters_that_the_engine_does_not_know_do_no_harm(
        self, engine: ContextEngine
    ) -> None:
        extra: dict[str, Any] = {"runtime_settings": {"schema_version": 1}, "session_target": {}}
        result = await _assemble(engine, plain_conversation(), **extra)
        assert isinstance(result, AssembleResult)

    @pytest.mark.asyncio
    async def test_required_parameters_alone_suffice(self, engine: ContextEngine) -> None:
        messages = plain_conversation()
        ingested = await engine.ingest(session_id=_SESSION["session_id"], message=messages[0])
        assembled = await engine.assemble(session_id=_SESSION["session_id"], messages=messages)
        assert isinstance(ingested, IngestResult)
        assert isinstance(assembled, AssembleResult)

    @pytest.mark.asyncio
    async def test_compact_reports_what_it_did(
        self, engine: ContextEngine, runtime: RecordingCompactionRuntime
    ) -> None:
        await _ingest(engine, long_conversation())
        result = await _compact(engine, runtime)
        assert isinstance(result, CompactResult)
        assert result.ok or result.reason, "a failure gives its reason"
        if result.compacted and not engine.info.owns_compaction:
            assert runtime.calls, "without owning compaction, only the host's runtime can compact"

    @pytest.mark.parametrize("method", ["ingest", "assemble", "compact"])
    @pytest.mark.asyncio
    async def test_cancelling_goes_through(self, engine: ContextEngine, method: str) -> None:
        runtime = RecordingCompactionRuntime(gate=asyncio.Event())
        messages = plain_conversation()
        params_of: dict[str, dict[str, Any]] = {
            "ingest": {"message": messages[0]},
            "assemble": {"messages": messages, "token_budget": _AMPLE_BUDGET},
            "compact": {"token_budget": _TIGHT_BUDGET, "force": True},
        }
        with using_compaction_runtime(runtime):
            task: asyncio.Future[Any] = asyncio.ensure_future(
                getattr(engine, method)(**_SESSION, **params_of[method])
            )
            await asyncio.sleep(0)
        if task.done():
            assert task.exception() is None
            return
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled(), "CancelledError has to leave the engine"

    @pytest.mark.asyncio
    async def test_optional_methods_return_their_results(
        self, engine: ContextEngine, runtime: RecordingCompactionRuntime
    ) -> None:
        batch: dict[str, Any] = {**_SESSION, "messages": plain_conversation()}
        turn: dict[str, Any] = {**batch, "pre_prompt_message_count": 4}
        calls: dict[str, tuple[dict[str, Any], type]] = {
            "bootstrap": (_SESSION, BootstrapResult),
            "ingest_batch": (batch, IngestBatchResult),
            "after_turn": (turn, type(None)),
            "maintain": (_SESSION, MaintainResult),
        }
        with using_compaction_runtime(runtime):
            for method, (params, expected) in calls.items():
                if has_method(engine, method):
                    assert isinstance(await _call(engine, method, **params), expected), method

    @pytest.mark.asyncio
    async def test_a_child_session_can_be_prepared_and_rolled_back(
        self, engine: ContextEngine
    ) -> None:
        keys = {
            "parent_session_key": "agent:main:main",
            "child_session_key": "agent:main:subagent:contract",
        }
        prepared = await _call(engine, "prepare_subagent_spawn", **keys)
        assert prepared is None or isinstance(prepared, SubagentPreparation)
        if prepared is not None:
            undone = prepared.rollback()
            if inspect.isawaitable(undone):
                await undone
        await _call(
            engine,
            "on_subagent_ended",
            child_session_key=keys["child_session_key"],
            reason="deleted",
        )

    @pytest.mark.asyncio
    async def test_dispose_may_be_called_twice(self, engine: ContextEngine) -> None:
        await engine.dispose()
        await engine.dispose()


def _own_id(engine: Any) -> str:
    """The engine's own id for messages, as far as it can be read."""
    return str(getattr(getattr(engine, "info", None), "id", type(engine).__name__))


async def _call(engine: ContextEngine, method: str, **params: Any) -> Any:
    """Call a method with all parameters of the contract, defaults included, as the host does."""
    return await getattr(engine, method)(**contract_parameters(method) | params)


async def _ingest(engine: ContextEngine, messages: list[Message]) -> None:
    for message in messages:
        await _call(engine, "ingest", **_SESSION, message=message)


async def _assemble(
    engine: ContextEngine,
    messages: list[Message],
    *,
    token_budget: int = _AMPLE_BUDGET,
    prompt: str | None = None,
    **extra: Any,
) -> AssembleResult:
    """What the engine makes of a conversation whose last message is new to it."""
    await _ingest(engine, messages[:-1])
    result: AssembleResult = await _call(
        engine,
        "assemble",
        **_SESSION,
        messages=messages,
        token_budget=token_budget,
        prompt=text_of(messages[-1]) if prompt is None else prompt,
        **extra,
    )
    return result


async def _compact(engine: ContextEngine, runtime: RecordingCompactionRuntime) -> CompactResult:
    with using_compaction_runtime(runtime):
        result: CompactResult = await _call(
            engine,
            "compact",
            **_SESSION,
            session_file="transcript.jsonl",
            token_budget=_TIGHT_BUDGET,
            current_token_count=9000,
        )
    return result
