"""Reading results of foreign shapes: context 1.2."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from hermitcrab.context import (
    AssembleResult,
    BootstrapResult,
    CompactionDetails,
    CompactResult,
    IngestBatchResult,
    MaintainResult,
    SubagentPreparation,
)
from hermitcrab.context.results import convert_result
from hermitcrab.errors import ContextEngineError

MESSAGE: Any = {"role": "user", "content": "你好", "x-own": 1}


def convert(method: str, value: Any) -> Any:
    return convert_result(method, value, engine_id="mine")


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        ("bootstrap", {"bootstrapped": True, "importedMessages": 3}, BootstrapResult(True, 3)),
        ("ingest_batch", {"ingested_count": 2, "extra": 1}, IngestBatchResult(2)),
        ("maintain", {"changed": True, "bytesFreed": 9}, MaintainResult(True, 9)),
        (
            "assemble",
            SimpleNamespace(messages=[MESSAGE], system_prompt_addition="note"),
            AssembleResult([MESSAGE], system_prompt_addition="note"),
        ),
        (
            "assemble",
            {"messages": [MESSAGE], "promptAuthority": None, "estimatedTokens": 5},
            AssembleResult([MESSAGE], estimated_tokens=5),
        ),
        (
            "compact",
            {"ok": True, "compacted": True, "result": {"firstKeptEntryId": "a1", "summary": "s"}},
            CompactResult(True, True, result=CompactionDetails("s", "a1")),
        ),
        ("after_turn", {"anything": 1}, None),
        ("prepare_subagent_spawn", None, None),
    ],
)
def test_both_spellings_and_objects_are_read(method: str, value: Any, expected: Any) -> None:
    assert convert(method, value) == expected


@pytest.mark.parametrize(
    ("method", "value", "part"),
    [
        ("ingest", None, "nothing was returned"),
        ("ingest", {}, "'ingested' is missing"),
        ("ingest", {"ingested": "yes"}, "'ingested'"),
        ("ingest", True, "'ingested' is missing from the result (a bool)"),
        ("assemble", [MESSAGE], "'messages' is missing from the result (a list)"),
        ("assemble", {"messages": "text"}, "'messages' must be a list"),
        ("assemble", {"messages": [MESSAGE, "text"]}, "'messages[1]'"),
        ("assemble", {"messages": [{"content": "x"}]}, "'messages[0]'"),
        ("assemble", {"messages": [], "estimatedTokens": 1.5}, "'estimated_tokens'"),
        ("assemble", {"messages": [], "estimated_tokens": -1}, "'estimated_tokens'"),
        ("assemble", {"messages": [], "prompt_authority": "mine"}, "'prompt_authority'"),
        ("compact", {"ok": True}, "'compacted' is missing"),
        (
            "compact",
            {"ok": True, "compacted": True, "result": {"tokensBefore": "9"}},
            "tokens_before",
        ),
        ("compact", {"ok": True, "compacted": True, "result": {"details": 1}}, "'details'"),
        ("prepare_subagent_spawn", {"rollback": 3}, "'rollback'"),
    ],
)
def test_a_wrong_shape_names_engine_method_and_field(method: str, value: Any, part: str) -> None:
    with pytest.raises(ContextEngineError) as caught:
        convert(method, value)
    assert part in str(caught.value)
    assert f"context engine 'mine', {method}" in str(caught.value)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Return ")


def test_results_of_the_right_class_go_through_as_they_are() -> None:
    result = AssembleResult([MESSAGE])
    assert convert("assemble", result) is result
    preparation = SubagentPreparation(lambda: None)
    assert convert("prepare_subagent_spawn", preparation) is preparation


def test_results_are_frozen_and_check_their_fields() -> None:
    result = CompactResult(ok=True, compacted=False)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        result.ok = False  # type: ignore[misc]
    with pytest.raises(TypeError, match="'messages' must be a list"):
        AssembleResult("hello")
