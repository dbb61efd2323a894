"""Delegating a compaction to the host: context 3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.context import CompactResult, delegate_compaction
from hermitcrab.context.delegation import (
    compaction_runtime,
    runtime_parameters,
    using_compaction_runtime,
)
from hermitcrab.errors import ContextEngineError
from hermitcrab.testing import RecordingCompactionRuntime


async def test_outside_of_a_call_of_the_host_it_says_so() -> None:
    with pytest.raises(ContextEngineError, match="outside an engine call") as caught:
        await delegate_compaction(session_id="s")
    assert caught.value.hint is not None


async def test_the_runtime_gets_what_compact_was_called_with() -> None:
    runtime = RecordingCompactionRuntime()
    with using_compaction_runtime(runtime):
        result = await delegate_compaction(
            session_id="s",
            session_key="agent:main:main",
            session_file="s.jsonl",
            token_budget=900,
            force=True,
            current_token_count=1500,
            compaction_target="threshold",
            custom_instructions="keep ports",
            runtime_context={"trigger": "manual"},
            invented_later=1,
        )
    assert result is runtime.result
    assert runtime.calls == [
        {
            "session_id": "s",
            "session_key": "agent:main:main",
            "session_file": "s.jsonl",
            "token_budget": 900,
            "force": True,
            "current_token_count": 1500,
            "custom_instructions": "keep ports",
            "runtime_context": {"trigger": "manual"},
        }
    ]


async def test_the_runtime_is_gone_after_the_call_and_found_in_child_tasks() -> None:
    runtime = RecordingCompactionRuntime()
    with using_compaction_runtime(runtime):
        await asyncio.create_task(delegate_compaction(session_id="s"))
    assert len(runtime.calls) == 1
    assert compaction_runtime.get() is None


async def test_sessions_compacting_at_once_find_their_own_runtime() -> None:
    async def compact(name: str) -> Any:
        runtime = RecordingCompactionRuntime(CompactResult(True, False, reason=name))
        with using_compaction_runtime(runtime):
            await asyncio.sleep(0)
            return (await delegate_compaction(session_id=name)).reason

    assert [*await asyncio.gather(compact("a"), compact("b"))] == ["a", "b"]


def test_explicit_parameters_win_over_the_runtime_context() -> None:
    context = {"tokenBudget": 1, "session_id": "other", "currentTokenCount": 77.9}
    params = runtime_parameters({"session_id": "s", "runtime_context": context})
    assert (params["session_id"], params["token_budget"]) == ("s", 1)
    assert params["current_token_count"] == 77
    assert params["runtime_context"] == context


@pytest.mark.parametrize("count", [0, -5, float("nan"), float("inf"), "many", True, None])
def test_a_count_that_is_no_finite_positive_number_is_unknown(count: Any) -> None:
    params = runtime_parameters({"runtime_context": {"currentTokenCount": count}})
    assert params["current_token_count"] is None


@given(params=st.dictionaries(st.text(), st.none() | st.integers() | st.text()))
def test_the_runtime_is_always_called_with_the_same_names(params: dict[str, Any]) -> None:
    assert runtime_parameters(params).keys() == runtime_parameters({}).keys()
