"""Registries: one owner per id, and transactions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import PluginError
from hermitcrab.plugins.registry import RegistrationResult, Registry


def test_an_id_stays_with_its_owner_who_may_refresh_it() -> None:
    """Sessions 9.5, #77092: registering again was refused, and the plugin switched itself off."""
    registry = Registry[int]("number")
    assert registry.register("a", 1, owner="plugin:x") == RegistrationResult(True)
    assert registry.register("a", 2, owner="plugin:x") == RegistrationResult(True)
    assert registry.register(" a ", 3, owner="plugin:y") == RegistrationResult(False, "plugin:x")
    assert registry.find("a") == 2
    assert registry.owner_of("a") == "plugin:x"
    assert registry.find("b") is None


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(PluginError, match="a number needs an id"):
        Registry[int]("number").register("  ", 1, owner="plugin:x")


def test_removing_an_owner_frees_its_ids() -> None:
    registry = Registry[int]("number")
    registry.register("a", 1, owner="plugin:x")
    registry.register("b", 2, owner="plugin:y")
    registry.remove_owner("plugin:x")
    assert registry.values() == {"b": 2}
    assert registry.register("a", 3, owner="plugin:y").ok


operations = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(), st.sampled_from(["x", "y"])), max_size=6
)


@given(operations, operations)
def test_a_failed_transaction_leaves_the_registry_as_it_was(
    before: list[tuple[str, int, str]], inside: list[tuple[str, int, str]]
) -> None:
    registry = Registry[int]("number")
    for id, value, owner in before:
        registry.register(id, value, owner=owner)
    values = dict(registry.values())
    owners = {id: registry.owner_of(id) for id in values}

    def fail_half_way() -> None:
        with registry.stage("x"):
            for id, value, _ in inside:
                registry.register(id, value, owner="x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert dict(registry.values()) == values
    assert {id: registry.owner_of(id) for id in values} == owners


def test_a_transaction_that_ends_well_stays() -> None:
    registry = Registry[int]("number")
    with registry.stage("x"):
        registry.register("a", 1, owner="x")
    assert registry.find("a") == 1
