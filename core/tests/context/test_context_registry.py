"""Registration: context 2.1 and 2.2, and the quarantine's life."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.context import RegistrationResult, register_context_engine
from hermitcrab.context.registry import HostEngineRegistry, refused_by
from hermitcrab.errors import ContextEngineError
from hermitcrab.plugins.loading_context import LoadingPlugin, loading
from hermitcrab.plugins.registration import PluginRegistries


def first() -> None: ...


def second() -> None: ...


class UndoneError(Exception):
    """What a failing plugin raises in these tests."""


@contextmanager
def undone(transaction: AbstractContextManager[Any]) -> Iterator[None]:
    """A transaction that fails at its end."""
    with suppress(UndoneError), transaction:
        yield
        raise UndoneError


def factory_of(registry: HostEngineRegistry, engine_id: str) -> Any:
    found = registry.find(engine_id)
    return None if found is None else found["factory"]


def fail(registry: HostEngineRegistry, engine_id: str, reason: str = "boom") -> Any:
    found = registry.find(engine_id)
    return registry.quarantine(engine_id, "assemble", reason, registration=found)


class TestOrderOfChecks:
    def test_an_owner_is_required(self, registry: HostEngineRegistry) -> None:
        with pytest.raises(ContextEngineError, match="owner"):
            registry.register("mine", first, owner="  ")

    @pytest.mark.parametrize("owner", ["plugin:mine", "public-sdk"])
    def test_only_the_core_may_own_the_default_id(
        self, empty_registry: HostEngineRegistry, owner: str
    ) -> None:
        refused = empty_registry.register("legacy", first, owner=owner)
        assert refused == RegistrationResult(ok=False, existing_owner="core")
        assert empty_registry.find("legacy") is None

    def test_an_id_stays_with_its_owner(self, registry: HostEngineRegistry) -> None:
        assert registry.register("mine", first, owner="plugin:one").ok
        refused = registry.register("mine", second, owner="plugin:two")
        assert refused == RegistrationResult(ok=False, existing_owner="plugin:one")
        assert factory_of(registry, "mine") is first

    def test_a_plugin_may_refresh_its_own_engine(self, registry: HostEngineRegistry) -> None:
        """Sessions 9.5, #120180: running a registration again is no conflict."""
        registry.register("mine", first, owner="plugin:one")
        assert registry.register("mine", second, owner="plugin:one") == RegistrationResult(ok=True)
        assert factory_of(registry, "mine") is second

    def test_the_core_may_refresh_the_default_engine(self, registry: HostEngineRegistry) -> None:
        assert registry.register("legacy", second, owner="core").ok
        assert factory_of(registry, "legacy") is second

    def test_a_public_registration_cannot_be_refreshed(self) -> None:
        assert register_context_engine("mine", first).ok
        refused = register_context_engine("mine", second)
        assert refused == RegistrationResult(ok=False, existing_owner="public-sdk")
        assert factory_of(HostEngineRegistry(), "mine") is first

    def test_a_plugin_cannot_take_an_id_of_the_global_tier(
        self, registry: HostEngineRegistry
    ) -> None:
        register_context_engine("mine", first)
        refused = registry.register("mine", second, owner="plugin:one")
        assert refused == RegistrationResult(ok=False, existing_owner="public-sdk")

    def test_ids_and_owners_are_trimmed(self, registry: HostEngineRegistry) -> None:
        registry.register(" mine ", first, owner=" plugin:one ")
        found = registry.find("mine")
        assert found is not None
        assert (found["engine_id"], found["owner"]) == ("mine", "plugin:one")

    @pytest.mark.parametrize("engine_id", ["", "   ", None, 7])
    def test_an_id_is_text_that_is_not_empty(
        self, registry: HostEngineRegistry, engine_id: Any
    ) -> None:
        with pytest.raises(ContextEngineError, match="not empty"):
            registry.register(engine_id, first, owner="plugin:one")
        with pytest.raises(ContextEngineError, match="not empty"):
            register_context_engine(engine_id, first)

    def test_a_factory_can_be_called(self, registry: HostEngineRegistry) -> None:
        with pytest.raises(ContextEngineError, match="cannot be called") as caught:
            registry.register("mine", {"engine": 1}, owner="plugin:one")  # type: ignore[arg-type]
        assert caught.value.hint is not None

    def test_registering_calls_no_factory(self, registry: HostEngineRegistry) -> None:
        """Sessions 9.5, #96335: discovery must not make engines."""

        def explode() -> None:
            raise AssertionError("called")

        assert registry.register("mine", explode, owner="plugin:one").ok

    @given(owner=st.sampled_from(["plugin:a", "plugin:b", "public-sdk"]), taken=st.booleans())
    def test_nobody_but_the_core_ever_holds_the_default_id(self, owner: str, taken: bool) -> None:
        assert refused_by("legacy", owner, "core" if taken else None) == "core"


class TestTwoTiers:
    def test_plugins_of_one_host_are_unknown_to_another(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")
        assert HostEngineRegistry().find("mine") is None

    def test_public_and_core_engines_are_there_for_every_host(
        self, registry: HostEngineRegistry
    ) -> None:
        register_context_engine("mine", first)
        assert HostEngineRegistry().engine_ids() == ["legacy", "mine"]

    def test_the_hosts_own_registration_comes_first(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")
        register_context_engine("mine", second)
        assert factory_of(registry, "mine") is first
        assert factory_of(HostEngineRegistry(), "mine") is second

    def test_a_module_that_is_imported_twice_shares_the_global_tier(self) -> None:
        original = sys.modules["hermitcrab.context.registry"]
        assert original.__file__ is not None
        spec = importlib.util.spec_from_file_location("registry_again", original.__file__)
        assert spec is not None
        assert spec.loader is not None
        copy = importlib.util.module_from_spec(spec)
        sys.modules["registry_again"] = copy
        try:
            spec.loader.exec_module(copy)
        finally:
            del sys.modules["registry_again"]
        assert copy.HostEngineRegistry is not HostEngineRegistry
        assert copy.register_context_engine("mine", first).ok
        assert factory_of(HostEngineRegistry(), "mine") is first
        assert register_context_engine("mine", second).existing_owner == "public-sdk"

    def test_removing_an_owner_takes_its_engines_alone(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")
        registry.register("other", second, owner="plugin:two")
        registry.remove_owner("plugin:one")
        assert registry.engine_ids() == ["legacy", "other"]
        assert registry.register("mine", second, owner="plugin:two").ok


class TestTransactions:
    def test_an_exception_undoes_what_its_owner_registered(
        self, registry: HostEngineRegistry
    ) -> None:
        with undone(registry.stage("plugin:one")):
            registry.register("mine", first, owner="plugin:one")
        assert registry.engine_ids() == ["legacy"]

    def test_an_exception_puts_back_what_was_refreshed(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")

        def leave() -> None:
            with registry.stage("plugin:one"):
                registry.register("mine", second, owner="plugin:one")
                raise SystemExit

        with pytest.raises(SystemExit):
            leave()
        assert factory_of(registry, "mine") is first

    def test_other_owners_are_left_alone(self, registry: HostEngineRegistry) -> None:
        with undone(registry.stage("plugin:one")):
            registry.register("other", second, owner="plugin:two")
        assert registry.engine_ids() == ["legacy", "other"]

    def test_without_an_exception_everything_stays(self, registry: HostEngineRegistry) -> None:
        with registry.stage("plugin:one"):
            registry.register("mine", first, owner="plugin:one")
        assert factory_of(registry, "mine") is first

    @pytest.mark.parametrize(("core", "owner"), [(True, "core"), (False, "plugin:one")])
    def test_it_takes_part_in_the_transaction_of_the_plugin_host(
        self, empty_registry: HostEngineRegistry, core: bool, owner: str
    ) -> None:
        registries = PluginRegistries(context_engines=empty_registry)
        with undone(registries.stage("one", core=core)):
            assert registries.of("context_engines").register("mine", first, owner=owner).ok
        assert empty_registry.engine_ids() == []

    def test_undoing_a_refresh_keeps_the_quarantine(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")
        fail(registry, "mine")
        with undone(registry.stage("plugin:one")):
            registry.register("mine", second, owner="plugin:one")
            assert registry.quarantine_of("mine") is None
        assert registry.quarantine_of("mine") is not None

    def test_a_failing_plugin_takes_its_module_level_registration_along(
        self, registry: HostEngineRegistry
    ) -> None:
        with undone(loading(LoadingPlugin("one", "plugin:one"))):
            assert register_context_engine("mine", first).ok
            found = registry.find("mine")
            assert found is not None
            assert found["owner"] == "plugin:one"
        assert registry.find("mine") is None

    def test_a_failing_plugin_leaves_what_it_refreshed_as_it_was(
        self, registry: HostEngineRegistry
    ) -> None:
        with loading(LoadingPlugin("one", "plugin:one")):
            register_context_engine("mine", first)
        with undone(loading(LoadingPlugin("one", "plugin:one"))):
            assert register_context_engine("mine", second).ok
        assert factory_of(registry, "mine") is first

    def test_a_refused_registration_is_not_undone(self, registry: HostEngineRegistry) -> None:
        register_context_engine("mine", first)
        with undone(loading(LoadingPlugin("one", "plugin:one"))):
            assert register_context_engine("mine", second).existing_owner == "public-sdk"
        assert factory_of(registry, "mine") is first


class TestQuarantine:
    def test_a_record_says_what_failed_and_when(
        self, registry: HostEngineRegistry, records: list[Any]
    ) -> None:
        registry.register("mine", first, owner="plugin:one")
        record = fail(registry, "mine")
        assert (record.engine_id, record.owner, record.operation) == (
            "mine",
            "plugin:one",
            "assemble",
        )
        assert (record.reason, record.failed_at) == ("boom", 1_700_000_000_000)
        assert records == [record] == registry.quarantines()

    def test_the_first_failure_wins(self, registry: HostEngineRegistry, records: list[Any]) -> None:
        registry.register("mine", first, owner="plugin:one")
        assert fail(registry, "mine", "one") == fail(registry, "mine", "two")
        assert [record.reason for record in records] == ["one"]

    def test_registering_anew_ends_it(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")
        fail(registry, "mine")
        registry.register("mine", second, owner="plugin:one")
        assert registry.quarantine_of("mine") is None
        assert registry.quarantines() == []

    def test_a_refused_registration_does_not_end_it(self, registry: HostEngineRegistry) -> None:
        register_context_engine("mine", first)
        fail(registry, "mine")
        register_context_engine("mine", second)
        assert registry.quarantine_of("mine") is not None

    def test_a_missing_engine_is_free_once_it_is_registered(
        self, registry: HostEngineRegistry
    ) -> None:
        registry.quarantine("mine", "resolve", "not registered", registration=None)
        assert registry.quarantine_of("mine") is not None
        register_context_engine("mine", first)
        assert registry.quarantine_of("mine") is None

    def test_removing_the_owner_ends_it(self, registry: HostEngineRegistry) -> None:
        registry.register("mine", first, owner="plugin:one")
        fail(registry, "mine")
        registry.remove_owner("plugin:one")
        assert registry.quarantine_of("mine") is None

    def test_a_late_failure_of_a_replaced_engine_spares_the_new_one(
        self, registry: HostEngineRegistry, records: list[Any]
    ) -> None:
        registry.register("mine", first, owner="plugin:one")
        old = registry.find("mine")
        registry.register("mine", second, owner="plugin:one")
        record = registry.quarantine("mine", "ingest", "late", registration=old)
        assert record.reason == "late"
        assert registry.quarantine_of("mine") is None
        assert records == []

    def test_a_host_that_cannot_keep_the_record_goes_on(
        self, plain_engine: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(record: Any) -> None:
            raise OSError("disk full")

        registry = HostEngineRegistry(on_quarantine=broken)
        registry.register("mine", plain_engine, owner="plugin:one")
        assert fail(registry, "mine") == registry.quarantine_of("mine")
        assert "disk full" in caplog.text

    def test_the_reason_is_one_line_of_bounded_length(
        self, registry: HostEngineRegistry, caplog: pytest.LogCaptureFixture
    ) -> None:
        registry.register("mine", first, owner="plugin:one")
        record = fail(registry, "mine", "\x1b[31mred\n" + "x" * 5000)
        assert record.reason.startswith(" [31mred x")
        assert len(record.reason) == 500
        assert "\x1b" not in caplog.text
