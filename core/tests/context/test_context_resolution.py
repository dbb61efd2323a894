"""From the slot to an engine: context 2.3 and design 3."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab.context import EngineContext
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord
from hermitcrab.context.resolve import ResolvedEngine, resolve_engine, selected_engine_id
from hermitcrab.errors import ContextEngineError


def is_default(resolved: ResolvedEngine) -> bool:
    return (resolved.engine_id, resolved.engine.info.name) == ("legacy", "Default for tests")


class TestSlot:
    @pytest.mark.parametrize("slot", [None, "", "  ", "none", "None", " NONE ", "legacy"])
    async def test_nothing_and_none_mean_the_default_engine(
        self, registry: HostEngineRegistry, context: EngineContext, slot: str | None
    ) -> None:
        resolved = await resolve_engine(registry, slot, context)
        assert is_default(resolved)
        assert resolved.degraded is None

    def test_the_slot_is_trimmed(self) -> None:
        assert selected_engine_id("  mine ") == "mine"


class TestSelectedEngine:
    async def test_it_is_made_with_the_context(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        seen: list[EngineContext] = []

        async def factory(context: EngineContext) -> Any:
            seen.append(context)
            return plain_engine()

        registry.register("plain", factory, owner="plugin:plain")
        resolved = await resolve_engine(registry, "plain", context)
        assert (resolved.engine_id, resolved.selected_id) == ("plain", "plain")
        assert (resolved.degraded, resolved.warnings) == (None, ())
        assert seen == [context]

    async def test_each_session_gets_an_instance_of_its_own(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        made: list[Any] = []

        def factory() -> Any:
            made.append(plain_engine())
            return made[-1]

        registry.register("plain", factory, owner="plugin:plain")
        one = await resolve_engine(registry, "plain", context)
        await resolve_engine(registry, "plain", context)
        await one.engine.ingest(session_id="s", message={"role": "user"})
        assert [engine.calls for engine in made] == [["ingest"], []]

    async def test_another_id_in_its_info_is_a_warning(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        """C97: an engine that calls itself otherwise still answers, under the registered id."""
        registry.register("mine", plain_engine, owner="plugin:mine")
        resolved = await resolve_engine(registry, "mine", context)
        assert resolved.engine.info.id == resolved.engine_id == "mine"
        assert resolved.degraded is None
        assert "'plain'" in resolved.warnings[0]
        assert "'mine'" in resolved.warnings[0]

    async def test_the_default_engine_is_made_when_it_is_needed(
        self, empty_registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        empty_registry.register("plain", plain_engine, owner="plugin:plain")
        resolved = await resolve_engine(empty_registry, "plain", context)
        assert resolved.engine_id == "plain"


class TestNotRegistered:
    async def test_it_is_loud_and_names_the_candidates(
        self,
        registry: HostEngineRegistry,
        context: EngineContext,
        plain_engine: Any,
        records: list[QuarantineRecord],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """C98: the default engine answers, and status can say why and what to do."""
        registry.register("lossless", plain_engine, owner="plugin:lossless")
        resolved = await resolve_engine(registry, "losless", context)
        assert is_default(resolved)
        assert resolved.selected_id == "losless"
        assert resolved.degraded is not None
        assert "'losless' is not registered" in resolved.degraded.reason
        assert "legacy, lossless" in resolved.degraded.reason
        assert "'lossless'" in resolved.degraded.hint
        assert "hermitcrab plugins doctor" in resolved.degraded.hint
        assert [(r.operation, r.reason) for r in records] == [("resolve", "not registered")]
        assert "losless" in caplog.text

    async def test_without_a_similar_name_the_hint_is_to_install(
        self, registry: HostEngineRegistry, context: EngineContext
    ) -> None:
        resolved = await resolve_engine(registry, "zebra", context)
        assert resolved.degraded is not None
        assert "pip install" in resolved.degraded.hint

    async def test_every_turn_says_so_again(
        self, registry: HostEngineRegistry, context: EngineContext
    ) -> None:
        first = await resolve_engine(registry, "zebra", context)
        assert (await resolve_engine(registry, "zebra", context)).degraded == first.degraded

    async def test_registering_it_later_suffices(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        await resolve_engine(registry, "plain", context)
        registry.register("plain", plain_engine, owner="plugin:plain")
        assert (await resolve_engine(registry, "plain", context)).engine_id == "plain"


class TestBrokenEngines:
    async def test_a_factory_that_raises_sets_the_engine_aside(
        self, registry: HostEngineRegistry, context: EngineContext, records: list[QuarantineRecord]
    ) -> None:
        calls: list[int] = []

        def factory() -> Any:
            calls.append(1)
            raise OSError("no database")

        registry.register("mine", factory, owner="plugin:mine")
        first = await resolve_engine(registry, "mine", context)
        second = await resolve_engine(registry, "mine", context)
        assert is_default(first)
        assert first.degraded == second.degraded
        assert first.degraded is not None
        assert "failed in factory: OSError: no database" in first.degraded.reason
        assert "plugin:mine" in first.degraded.reason
        assert "pip install --upgrade" in first.degraded.hint
        assert [record.operation for record in records] == ["factory"]
        assert calls == [1], "a quarantined engine is not made again"

    async def test_all_problems_of_the_contract_come_in_one_message(
        self, registry: HostEngineRegistry, context: EngineContext
    ) -> None:
        broken = SimpleNamespace(
            info={"id": "", "name": 7}, ingest=lambda *, message: None, compact="no", bootstrap=3
        )
        registry.register("mine", lambda: broken, owner="plugin:mine")
        resolved = await resolve_engine(registry, "mine", context)
        assert is_default(resolved)
        assert resolved.degraded is not None
        for part in ("contract-validation", "info.id", "info.name", "'assemble' is missing"):
            assert part in resolved.degraded.reason
        for part in ("'compact' is no method", "'bootstrap' is no method"):
            assert part in resolved.degraded.reason

    async def test_a_half_built_engine_is_disposed(
        self, registry: HostEngineRegistry, context: EngineContext
    ) -> None:
        disposed: list[int] = []
        broken = SimpleNamespace(info={"id": "x", "name": "X"}, dispose=lambda: disposed.append(1))
        registry.register("mine", lambda: broken, owner="plugin:mine")
        await resolve_engine(registry, "mine", context)
        assert disposed == [1]

    @pytest.mark.parametrize(
        ("made", "problem"),
        [(None, "returned nothing"), (SimpleNamespace, "the class SimpleNamespace")],
    )
    async def test_a_factory_has_to_return_an_instance(
        self, registry: HostEngineRegistry, context: EngineContext, made: Any, problem: str
    ) -> None:
        registry.register("mine", lambda: made, owner="plugin:mine")
        resolved = await resolve_engine(registry, "mine", context)
        assert resolved.degraded is not None
        assert problem in resolved.degraded.reason

    async def test_parameters_that_the_host_does_not_pass_are_found_before_the_first_call(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        """C102: an engine written for other argument names is refused, with the right name."""

        class Foreign(plain_engine):  # type: ignore[misc]
            async def assemble(self, *, sessionId: str, history: list[Any]) -> Any:  # noqa: N803
                raise AssertionError("called")

            async def ingest(self, message: Any, /) -> Any:
                raise AssertionError("called")

        registry.register("mine", Foreign, owner="plugin:mine")
        resolved = await resolve_engine(registry, "mine", context)
        assert resolved.degraded is not None
        assert "did you mean 'session_id'?" in resolved.degraded.reason
        assert "assemble requires 'history'" in resolved.degraded.reason
        assert "ingest takes 'message' by position only" in resolved.degraded.reason

    async def test_info_that_raises_is_a_problem_of_the_contract(
        self, registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Broken(plain_engine):  # type: ignore[misc]
            @property
            def info(self) -> Any:
                raise KeyError("name")

        registry.register("mine", Broken, owner="plugin:mine")
        resolved = await resolve_engine(registry, "mine", context)
        assert resolved.degraded is not None
        assert "'info' raises KeyError" in resolved.degraded.reason


class TestPluginPolicy:
    async def test_a_disabled_plugin_yields_the_default_without_quarantine(
        self,
        registry: HostEngineRegistry,
        context: EngineContext,
        plain_engine: Any,
        records: list[QuarantineRecord],
    ) -> None:
        registry.register("mine", plain_engine, owner="plugin:owner")
        resolved = await resolve_engine(
            registry,
            "mine",
            context,
            plugin_refusal=lambda plugin: "disabled in config" if plugin == "owner" else None,
        )
        assert is_default(resolved)
        assert resolved.degraded is not None
        assert "disabled in config" in resolved.degraded.reason
        assert "Enable the plugin 'owner'" in resolved.degraded.hint
        assert records == []

    async def test_a_plugin_that_was_never_loaded_is_judged_by_the_engine_id(
        self, registry: HostEngineRegistry, context: EngineContext, records: list[QuarantineRecord]
    ) -> None:
        resolved = await resolve_engine(
            registry, "mine", context, plugin_refusal=lambda plugin: f"{plugin} is denied"
        )
        assert resolved.degraded is not None
        assert "mine is denied" in resolved.degraded.reason
        assert records == []


class TestDefaultEngine:
    @pytest.mark.parametrize("slot", [None, "zebra"])
    async def test_a_missing_default_engine_names_the_command(
        self, empty_registry: HostEngineRegistry, context: EngineContext, slot: str | None
    ) -> None:
        with pytest.raises(ContextEngineError) as caught:
            await resolve_engine(empty_registry, slot, context)
        assert "pip install 'hermitcrab[standard]'" in str(caught.value)

    async def test_a_missing_default_engine_lists_what_there_is(
        self, empty_registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        empty_registry.register("plain", plain_engine, owner="plugin:plain")
        with pytest.raises(ContextEngineError, match="Available engines: plain"):
            await resolve_engine(empty_registry, None, context)

    async def test_a_default_engine_that_cannot_be_made_raises(
        self,
        empty_registry: HostEngineRegistry,
        context: EngineContext,
        records: list[QuarantineRecord],
    ) -> None:
        def factory() -> Any:
            raise OSError("unreadable")

        empty_registry.register("legacy", factory, owner="core")
        with pytest.raises(ContextEngineError, match="unreadable") as caught:
            await resolve_engine(empty_registry, None, context)
        assert isinstance(caught.value.__cause__, OSError)
        assert records == []

    async def test_a_default_engine_that_breaks_the_contract_raises(
        self, empty_registry: HostEngineRegistry, context: EngineContext
    ) -> None:
        empty_registry.register("legacy", lambda: object(), owner="core")
        with pytest.raises(ContextEngineError, match="'assemble' is missing"):
            await resolve_engine(empty_registry, None, context)

    async def test_failures_of_the_default_engine_reach_the_caller(
        self, empty_registry: HostEngineRegistry, context: EngineContext, plain_engine: Any
    ) -> None:
        class Failing(plain_engine):  # type: ignore[misc]
            async def assemble(self, **params: Any) -> Any:
                raise OSError("broken")

        empty_registry.register("legacy", Failing, owner="core")
        resolved = await resolve_engine(empty_registry, None, context)
        for _ in range(2):
            with pytest.raises(OSError, match="broken"):
                await resolved.engine.assemble(session_id="s", messages=[])


class TestDisposing:
    async def test_a_failing_dispose_is_logged_and_does_not_reach_the_reply(
        self,
        registry: HostEngineRegistry,
        context: EngineContext,
        plain_engine: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        class Failing(plain_engine):  # type: ignore[misc]
            async def dispose(self) -> None:
                raise OSError("still open")

        registry.register("mine", Failing, owner="plugin:mine")
        resolved = await resolve_engine(registry, "mine", context)
        await resolved.dispose()
        assert "still open" in caplog.text
        assert registry.quarantine_of("mine") is None
