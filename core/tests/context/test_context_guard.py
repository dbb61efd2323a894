"""Runtime failures: context 2.4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermitcrab.context import EngineContext, MaintainResult, delegate_compaction, has_method
from hermitcrab.context.delegation import using_compaction_runtime
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord
from hermitcrab.context.resolve import ResolvedEngine, resolve_engine
from hermitcrab.context.results import BootstrapResult, IngestBatchResult, IngestResult
from hermitcrab.errors import CompactionError, ContextEngineError

REASON = "context engine downgraded to legacy"
PARAMS: dict[str, dict[str, Any]] = {
    "bootstrap": {"session_id": "s"},
    "maintain": {"session_id": "s"},
    "ingest": {"session_id": "s", "message": {"role": "user"}},
    "ingest_batch": {"session_id": "s", "messages": []},
    "after_turn": {"session_id": "s", "messages": [], "pre_prompt_message_count": 0},
    "assemble": {"session_id": "s", "messages": [{"role": "user"}]},
    "compact": {"session_id": "s"},
    "prepare_subagent_spawn": {"parent_session_key": "p", "child_session_key": "c"},
    "on_subagent_ended": {"child_session_key": "c", "reason": "deleted"},
}


def failing(base: Any, *methods: str, error: BaseException | None = None) -> Any:
    """An engine class whose ``methods`` raise."""

    def raiser(method: str) -> Any:
        async def fail(self: Any, **params: Any) -> Any:
            self.calls.append(method)
            raise error or OSError(f"{method} is broken")

        return fail

    return type("Failing", (base,), {method: raiser(method) for method in methods})


async def resolve(
    registry: HostEngineRegistry, context: EngineContext, engine: Any
) -> ResolvedEngine:
    registry.register("mine", lambda: engine, owner="plugin:mine")
    return await resolve_engine(registry, "mine", context)


async def call(resolved: ResolvedEngine, method: str) -> Any:
    return await getattr(resolved.engine, method)(**PARAMS[method])


@pytest.mark.parametrize("method", sorted(PARAMS))
async def test_the_first_failure_of_any_method_sets_the_engine_aside(
    method: str,
    registry: HostEngineRegistry,
    context: EngineContext,
    plain_engine: Any,
    records: list[QuarantineRecord],
) -> None:
    engine = failing(plain_engine, method)()
    resolved = await resolve(registry, context, engine)
    if method in ("compact", "prepare_subagent_spawn"):
        with pytest.raises(OSError, match=f"{method} is broken"):
            await call(resolved, method)
    else:
        await call(resolved, method)
    await call(resolved, "assemble")
    assert engine.calls == [method]
    assert [(r.operation, r.owner, r.reason) for r in records] == [
        (method, "plugin:mine", f"{method} is broken")
    ]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("bootstrap", BootstrapResult(bootstrapped=False, reason=REASON)),
        ("maintain", MaintainResult(changed=False, reason=REASON)),
        ("ingest", IngestResult(ingested=True)),
        ("ingest_batch", IngestBatchResult(ingested_count=0)),
        ("after_turn", None),
        ("on_subagent_ended", None),
    ],
)
async def test_the_default_engine_or_a_neutral_result_answers_instead(
    method: str,
    expected: Any,
    registry: HostEngineRegistry,
    context: EngineContext,
    plain_engine: Any,
) -> None:
    resolved = await resolve(registry, context, failing(plain_engine, method)())
    assert await call(resolved, method) == expected


async def test_a_prepared_child_is_nothing_once_the_engine_is_set_aside(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    resolved = await resolve(
        registry, context, failing(plain_engine, "ingest", "prepare_subagent_spawn")()
    )
    await call(resolved, "ingest")
    assert await call(resolved, "prepare_subagent_spawn") is None


async def test_assembly_and_compaction_agree_on_the_engine(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    """Context 10, P9: after a failed assembly the default engine compacts as well."""
    resolved = await resolve(registry, context, failing(plain_engine, "assemble")())
    assert (await call(resolved, "assemble")).system_prompt_addition == "default"
    assert (await call(resolved, "compact")).reason == "default"
    assert resolved.engine.info.name == "Default for tests"


async def test_a_compaction_that_failed_is_not_hidden_by_the_default_engine(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    engine = failing(plain_engine, "compact")()
    resolved = await resolve(registry, context, engine)
    with pytest.raises(OSError, match="compact is broken"):
        await call(resolved, "compact")
    assert (await call(resolved, "compact")).reason == "default"
    assert (await call(resolved, "assemble")).system_prompt_addition == "default"
    assert engine.calls == ["compact"]


async def test_what_now_answers_is_reported(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    resolved = await resolve(registry, context, failing(plain_engine, "ingest")())
    assert resolved.degradation() is None
    assert resolved.engine.info.id == "mine"
    await call(resolved, "ingest")
    degraded = resolved.degradation()
    assert degraded is not None
    assert "failed in ingest: ingest is broken" in degraded.reason
    assert degraded.hint


async def test_a_failure_reaches_the_other_sessions_too(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    engines = [failing(plain_engine, "ingest")(), plain_engine("healthy")]
    made = iter(engines)
    registry.register("mine", lambda: next(made), owner="plugin:mine")
    one = await resolve_engine(registry, "mine", context)
    two = await resolve_engine(registry, "mine", context)
    await call(one, "ingest")
    assert two.engine.info.id == "legacy"
    assert (await call(two, "assemble")).system_prompt_addition == "default"
    assert engines[1].calls == []


async def test_registering_anew_frees_new_sessions_and_leaves_the_failed_instance_aside(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    failed = await resolve(registry, context, failing(plain_engine, "assemble")())
    await call(failed, "assemble")
    fresh = await resolve(registry, context, plain_engine("repaired"))
    assert (await call(fresh, "assemble")).system_prompt_addition == "repaired"
    assert (await call(failed, "assemble")).system_prompt_addition == "default"


async def test_a_stale_instance_does_not_set_its_successor_aside(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    old = await resolve(registry, context, failing(plain_engine, "ingest")())
    new = await resolve(registry, context, plain_engine("new"))
    await call(old, "ingest")
    assert (await call(old, "assemble")).system_prompt_addition == "default"
    assert (await call(new, "assemble")).system_prompt_addition == "new"


async def test_if_the_default_engine_fails_too_the_first_error_is_raised(
    empty_registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    empty_registry.register("legacy", failing(plain_engine, "assemble"), owner="core")
    error = KeyError("first")
    error.__cause__ = ValueError("its own cause")
    engine = failing(plain_engine, "assemble", error=error)()
    resolved = await resolve(empty_registry, context, engine)
    with pytest.raises(KeyError, match="first") as caught:
        await call(resolved, "assemble")
    assert isinstance(caught.value.__cause__, ValueError)
    assert "assemble is broken" in caught.value.__notes__[0]


async def test_without_a_default_engine_the_first_error_is_raised(
    empty_registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    resolved = await resolve(empty_registry, context, failing(plain_engine, "ingest")())
    assert resolved.engine.info.id == "mine"
    with pytest.raises(OSError, match="ingest is broken") as caught:
        await call(resolved, "ingest")
    assert "hermitcrab[standard]" in caught.value.__notes__[0]
    assert resolved.engine.info.id == "legacy"


async def test_a_result_of_the_wrong_shape_is_a_failure(
    registry: HostEngineRegistry,
    context: EngineContext,
    plain_engine: Any,
    records: list[QuarantineRecord],
) -> None:
    class Wrong(plain_engine):  # type: ignore[misc]
        async def assemble(self, **params: Any) -> Any:
            return {"messages": "hello"}

    resolved = await resolve(registry, context, Wrong())
    assert (await call(resolved, "assemble")).system_prompt_addition == "default"
    assert "'messages' must be a list" in records[0].reason
    assert "'mine'" in records[0].reason


async def test_messages_that_a_failing_engine_took_away_still_reach_the_default_engine(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    class Greedy(plain_engine):  # type: ignore[misc]
        async def assemble(self, *, messages: list[Any], **params: Any) -> Any:
            messages.clear()
            raise OSError

    resolved = await resolve(registry, context, Greedy())
    messages: Any = [{"role": "user", "content": "hello"}]
    result = await resolved.engine.assemble(session_id="s", messages=messages)
    assert result.messages == [{"role": "user", "content": "hello"}]


class TestFailuresOfTheHost:
    class FailingRuntime:
        async def compact(self, **params: Any) -> Any:
            raise CompactionError("the summariser is unreachable")

    async def test_a_failed_delegation_is_not_held_against_the_engine(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Delegating(plain_engine):  # type: ignore[misc]
            async def compact(self, **params: Any) -> Any:
                try:
                    return await delegate_compaction(**params)
                except CompactionError as error:
                    raise RuntimeError("could not compact") from error

        resolved = await resolve(registry, context, Delegating())
        with using_compaction_runtime(self.FailingRuntime()), pytest.raises(RuntimeError):
            await call(resolved, "compact")
        assert registry.quarantines() == []
        assert resolved.engine.info.id == "mine"

    async def test_delegating_outside_a_call_of_the_host_is_the_engines_fault(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Delegating(plain_engine):  # type: ignore[misc]
            async def assemble(self, **params: Any) -> Any:
                return await delegate_compaction(**params)

        resolved = await resolve(registry, context, Delegating())
        await call(resolved, "assemble")
        assert registry.quarantine_of("mine") is not None


class TestCancelling:
    async def test_cancelling_never_sets_the_engine_aside(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Slow(plain_engine):  # type: ignore[misc]
            async def assemble(self, **params: Any) -> Any:
                await asyncio.Event().wait()

        resolved = await resolve(registry, context, Slow())
        task = asyncio.ensure_future(call(resolved, "assemble"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert registry.quarantines() == []

    async def test_an_engine_that_dresses_up_the_cancelling_is_not_set_aside(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Wrapping(plain_engine):  # type: ignore[misc]
            async def assemble(self, **params: Any) -> Any:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError as error:
                    raise RuntimeError("stopped") from error

        resolved = await resolve(registry, context, Wrapping())
        task = asyncio.ensure_future(call(resolved, "assemble"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(RuntimeError, match="stopped"):
            await task
        assert registry.quarantines() == []

    async def test_an_ordinary_failure_with_the_word_cancelled_is_a_failure(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        engine = failing(plain_engine, "ingest", error=RuntimeError("cancelled by the server"))()
        resolved = await resolve(registry, context, engine)
        await call(resolved, "ingest")
        assert registry.quarantine_of("mine") is not None

    async def test_a_timeout_inside_the_engine_is_a_failure(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Late(plain_engine):  # type: ignore[misc]
            async def ingest(self, **params: Any) -> Any:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()

        resolved = await resolve(registry, context, Late())
        await call(resolved, "ingest")
        record = registry.quarantine_of("mine")
        assert record is not None
        assert record.reason == "TimeoutError"


class TestOptionalMethods:
    async def test_what_the_engine_overrides_is_offered(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Rich(plain_engine):  # type: ignore[misc]
            async def after_turn(self, **params: Any) -> None:
                raise OSError

        resolved = await resolve(registry, context, Rich())
        assert has_method(resolved.engine, "after_turn")
        assert not has_method(resolved.engine, "bootstrap")
        await call(resolved, "after_turn")
        assert not has_method(resolved.engine, "after_turn"), "the default engine has none"
        assert has_method(resolved.engine, "ingest")

    async def test_dispose_is_not_guarded_and_reaches_both_engines(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        disposed: list[str] = []

        class Closing(failing(plain_engine, "ingest")):  # type: ignore[misc]
            async def dispose(self) -> None:
                disposed.append(self.mark)

        registry.register("legacy", lambda: Closing("default"), owner="core")
        resolved = await resolve(registry, context, Closing("mine"))
        with pytest.raises(OSError, match="ingest is broken"):
            await call(resolved, "ingest")
        await resolved.dispose()
        assert disposed == ["mine", "default"]

    async def test_many_failing_calls_make_one_default_engine(
        self, empty_registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        made: list[int] = []

        async def default() -> Any:
            made.append(1)
            await asyncio.sleep(0)
            return plain_engine("default")

        empty_registry.register("legacy", default, owner="core")
        resolved = await resolve(empty_registry, context, failing(plain_engine, "ingest")())
        await asyncio.gather(*(call(resolved, "ingest") for _ in range(5)))
        assert made == [1]


async def test_errors_of_the_contract_name_engine_and_method(
    registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
) -> None:
    class Wrong(plain_engine):  # type: ignore[misc]
        async def compact(self, **params: Any) -> Any:
            return None

    resolved = await resolve(registry, context, Wrong())
    with pytest.raises(ContextEngineError, match="context engine 'mine', compact: nothing"):
        await call(resolved, "compact")
