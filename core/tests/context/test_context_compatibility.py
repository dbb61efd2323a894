"""Engines that know fewer parameters than the host passes: context 2.5 and the end of design 3."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.context import AssembleResult, ContextEngineInfo, IngestResult
from hermitcrab.context.compatibility import CompatibleEngine, rejected_parameters
from hermitcrab.context.contract import OPTIONAL_HOST_PARAMETERS
from hermitcrab.context.validation import validate_engine

MESSAGE: Any = {"role": "user", "content": "hello"}


def compatible(engine: Any) -> CompatibleEngine:
    return CompatibleEngine(validate_engine(engine, engine_id="mine"), engine_id="mine")


def refusing(base: Any, *refused: str, error: Any = None, info: Any = None) -> Any:
    """An engine that takes ``**kwargs``, records its calls, and refuses some parameters one by one."""

    class Refusing(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[str, set[str]]] = []

        def _check(self, method: str, params: dict[str, Any]) -> None:
            self.seen.append((method, set(params)))
            for name in refused:
                if name in params:
                    raise error or TypeError(f"{method}() got an unexpected argument '{name}'")

        async def ingest(self, **params: Any) -> Any:
            self._check("ingest", params)
            return IngestResult(ingested=True)

        async def assemble(self, **params: Any) -> Any:
            self._check("assemble", params)
            return AssembleResult(params["messages"])

        async def compact(self, **params: Any) -> Any:
            self._check("compact", params)
            return {"ok": True, "compacted": False}

    if info is not None:
        Refusing.info = info
    return Refusing()


class TestSignatures:
    async def test_parameters_that_a_method_does_not_take_are_not_passed(
        self, plain_engine: Any
    ) -> None:
        class Old(plain_engine):  # type: ignore[misc]
            async def assemble(self, *, messages: list[Any]) -> Any:
                return AssembleResult(messages)

            async def compact(self, *, session_id: str) -> Any:
                return {"ok": True, "compacted": False, "reason": session_id}

        engine = compatible(Old())
        result = await engine.assemble(session_id="s", messages=[MESSAGE], prompt="hello")
        assert result.messages == [MESSAGE]
        assert (await engine.compact(session_id="s", force=True)).reason == "s"

    async def test_a_required_parameter_without_a_value_gets_the_contracts_default(
        self, plain_engine: Any
    ) -> None:
        class Demanding(plain_engine):  # type: ignore[misc]
            async def ingest(
                self, *, message: Any, is_heartbeat: bool, session_key: str | None, **rest: Any
            ) -> Any:
                assert (is_heartbeat, session_key) == (False, None)
                return IngestResult(ingested=True)

        assert (await compatible(Demanding()).ingest(session_id="s", message=MESSAGE)).ingested

    async def test_plain_functions_and_foreign_shapes_are_fine(self) -> None:
        class Foreign:
            info = {"id": "foreign", "name": "Foreign", "ownsCompaction": True}  # noqa: RUF012

            def ingest(self, message: Any) -> Any:
                return {"ingested": message == MESSAGE}

            def assemble(self, messages: list[Any]) -> Any:
                return {"messages": tuple(messages), "estimatedTokens": 3}

            async def compact(self, **_: Any) -> Any:
                return {"ok": True, "compacted": True, "result": {"tokensBefore": 9}}

        engine = compatible(Foreign())
        assert engine.info == ContextEngineInfo("mine", "Foreign", owns_compaction=True)
        assert (await engine.ingest(session_id="s", message=MESSAGE)).ingested
        assembled = await engine.assemble(session_id="s", messages=[MESSAGE])
        assert assembled == AssembleResult([MESSAGE], estimated_tokens=3)
        compacted = await engine.compact(session_id="s")
        assert compacted.result is not None
        assert compacted.result.tokens_before == 9

    async def test_the_list_of_messages_goes_through_unchanged(self, plain_engine: Any) -> None:
        messages = [MESSAGE]
        result = await compatible(plain_engine()).assemble(session_id="s", messages=messages)
        assert result.messages is messages


class TestAcceptedHostParams:
    @pytest.mark.parametrize(
        ("accepted", "passed"),
        [
            (None, {"session_key", "prompt", "runtime_context"}),
            ([], set()),
            (("prompt",), {"prompt"}),
            (("sessionKey", "abortSignal"), {"session_key"}),
        ],
    )
    async def test_a_declared_list_is_honoured(
        self, plain_engine: Any, accepted: Any, passed: set[str]
    ) -> None:
        info = ContextEngineInfo("mine", "Mine", accepted_host_params=accepted)
        engine = refusing(plain_engine, info=info)
        optional = {"session_key": "k", "prompt": "p", "runtime_context": {}}
        await compatible(engine).assemble(session_id="s", messages=[], token_budget=9, **optional)
        assert engine.seen == [("assemble", {"session_id", "messages", "token_budget", *passed})]

    async def test_it_holds_for_compact_too(self, plain_engine: Any) -> None:
        info = ContextEngineInfo("mine", "Mine", accepted_host_params=())
        engine = refusing(plain_engine, info=info)
        await compatible(engine).compact(session_id="s", session_key="k", force=True)
        assert engine.seen == [("compact", {"session_id", "force"})]


class TestLearning:
    async def test_a_refused_parameter_is_dropped_and_the_call_repeated_once(
        self, plain_engine: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        engine = refusing(plain_engine, "session_key")
        await compatible(engine).ingest(session_id="s", session_key="k", message=MESSAGE)
        assert [("session_key" in names) for _, names in engine.seen] == [True, False]
        assert "refuses session_key in ingest" in caplog.text

    async def test_there_is_one_retry_for_each_newly_named_parameter(
        self, plain_engine: Any
    ) -> None:
        engine = refusing(plain_engine, "session_key", "prompt")
        params: Any = {"session_id": "s", "session_key": "k", "prompt": "p", "messages": []}
        await compatible(engine).assemble(**params)
        assert [len(names) for _, names in engine.seen] == [4, 3, 2]

    async def test_it_is_remembered_for_the_instance(self, plain_engine: Any) -> None:
        engine = refusing(plain_engine, "session_key")
        wrapped = compatible(engine)
        await wrapped.ingest(session_id="s", session_key="k", message=MESSAGE)
        await wrapped.ingest(session_id="s", session_key="k", message=MESSAGE)
        await wrapped.assemble(session_id="s", session_key="k", messages=[])
        assert len(engine.seen) == 4
        other = refusing(plain_engine)
        await compatible(other).ingest(session_id="s", session_key="k", message=MESSAGE)
        assert "session_key" in other.seen[0][1], "another instance learns for itself"

    async def test_compact_is_never_called_again(self, plain_engine: Any) -> None:
        engine = refusing(plain_engine, "session_key")
        with pytest.raises(TypeError):
            await compatible(engine).compact(session_id="s", session_key="k")
        assert len(engine.seen) == 1

    async def test_what_other_methods_taught_holds_for_compact(self, plain_engine: Any) -> None:
        engine = refusing(plain_engine, "session_key")
        wrapped = compatible(engine)
        await wrapped.ingest(session_id="s", session_key="k", message=MESSAGE)
        assert (await wrapped.compact(session_id="s", session_key="k")).ok
        assert [method for method, _ in engine.seen] == ["ingest", "ingest", "compact"]

    async def test_a_required_parameter_is_never_dropped(self, plain_engine: Any) -> None:
        engine = refusing(plain_engine, "token_budget")
        with pytest.raises(TypeError):
            await compatible(engine).assemble(session_id="s", messages=[], token_budget=9)
        assert len(engine.seen) == 1

    async def test_an_error_of_another_kind_is_not_retried(self, plain_engine: Any) -> None:
        error = OSError("unexpected argument 'session_key'")
        engine = refusing(plain_engine, "session_key", error=error)
        with pytest.raises(OSError, match="unexpected"):
            await compatible(engine).ingest(session_id="s", session_key="k", message=MESSAGE)
        assert len(engine.seen) == 1

    async def test_a_retry_that_fails_teaches_nothing(self, plain_engine: Any) -> None:
        class Unlucky(plain_engine):  # type: ignore[misc]
            calls_seen: list[set[str]] = []  # noqa: RUF012

            async def ingest(self, **params: Any) -> Any:
                self.calls_seen.append(set(params))
                if "session_key" in params:
                    raise ValueError("unknown field 'session_key'")
                raise OSError("disk full")

        wrapped = compatible(Unlucky())
        for _ in range(2):
            with pytest.raises(OSError, match="disk full"):
                await wrapped.ingest(session_id="s", session_key="k", message=MESSAGE)
        assert [("session_key" in names) for names in Unlucky.calls_seen] == [True, False] * 2


class SchemaValidationError(Exception):
    """A validation error that is no ValueError."""


class ListingError(ValueError):
    """Names fields in a list, as model validators do."""

    def errors(self) -> list[dict[str, Any]]:
        return [{"loc": ("body", "prompt"), "msg": "Extra inputs are not permitted"}]


class TestEvidence:
    @pytest.mark.parametrize(
        "error",
        [
            TypeError("f() got an unexpected keyword argument 'prompt'"),
            ValueError('Unrecognized key(s) in object: "prompt"'),
            ValueError("Object contains unknown field `prompt`"),
            SchemaValidationError(
                "Additional properties are not allowed ('prompt' was unexpected)"
            ),
            SchemaValidationError("{'prompt': ['Unknown field.']}"),
            ValueError("'prompt' is not a valid parameter"),
            ListingError("1 validation error"),
        ],
    )
    def test_a_validator_that_names_the_parameter(self, error: Exception) -> None:
        assert rejected_parameters(error, OPTIONAL_HOST_PARAMETERS) == {"prompt"}

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("'prompt' must not be empty"),
            TypeError("unexpected keyword argument prompt"),
            TypeError("unexpected keyword argument 'prompt_text'"),
            RuntimeError("unexpected keyword argument 'prompt'"),
            KeyError("prompt"),
        ],
    )
    def test_anything_else_is_no_evidence(self, error: Exception) -> None:
        assert rejected_parameters(error, OPTIONAL_HOST_PARAMETERS) == frozenset()

    @given(text=st.text(), candidates=st.sets(st.sampled_from(sorted(OPTIONAL_HOST_PARAMETERS))))
    def test_only_candidates_are_ever_named(self, text: str, candidates: set[str]) -> None:
        error = TypeError(f"unexpected {text} 'session_key'")
        assert rejected_parameters(error, candidates) <= candidates
