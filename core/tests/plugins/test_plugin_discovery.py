"""Finding plugins without importing them, and who gets an id that several claim."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import pytest

from hermitcrab.plugins.discovery import CORE_DISTRIBUTIONS, discover


def explode() -> Any:
    raise AssertionError("a plugin was imported")


def test_discovery_imports_no_plugin(bench: Any) -> None:
    """C101: listing plugins took seconds, because it imported them."""
    found = discover([bench.entry_point("a", loader=explode)])
    assert [plugin.id for plugin in found.plugins] == ["a"]


def test_the_group_tells_the_kind_and_one_distribution_may_offer_an_id_in_several(
    bench: Any,
) -> None:
    groups = ("hermitcrab.plugins", "hermitcrab.memory")
    found = discover([bench.entry_point("notes", group=group) for group in groups])
    (plugin,) = found.plugins
    assert plugin.kind == "memory"
    assert sorted(plugin.groups) == sorted(groups)
    assert (plugin.distribution, plugin.version) == ("notes-distribution", "1.0")
    assert "hermitcrab.memory: notes = notes_module" in plugin.entry_points
    assert found.diagnostics == ()


def test_other_groups_are_no_plugins_and_commands_are_kept_apart(bench: Any) -> None:
    found = discover(
        [
            bench.entry_point("a", group="console_scripts"),
            bench.entry_point("export", group="hermitcrab.commands"),
        ]
    )
    assert found.plugins == ()
    assert [command.id for command in found.commands] == ["export"]


@pytest.mark.parametrize("core_name", CORE_DISTRIBUTIONS)
def test_nobody_can_claim_an_id_of_the_core_not_even_while_it_is_not_installed(
    bench: Any, core_name: str
) -> None:
    plugin_id = CORE_DISTRIBUTIONS[core_name]
    imposter = bench.entry_point(plugin_id, distribution="imposter")
    real = bench.entry_point(plugin_id, distribution=core_name)
    for source in ([imposter, real], [real, imposter]):
        found = discover(source)
        assert [(plugin.distribution, plugin.core) for plugin in found.plugins] == [
            (core_name, True)
        ]
        assert "imposter" in found.diagnostics[0].message
        assert core_name in found.diagnostics[0].message
    alone = discover([imposter])
    assert alone.plugins == ()
    assert [plugin.distribution for plugin in alone.refused] == ["imposter"]


def test_a_distribution_is_core_by_its_normalised_name(bench: Any) -> None:
    found = discover([bench.entry_point("memory-core", distribution="Hermitcrab_Memory.Core")])
    assert found.plugins[0].core is True


def test_two_third_parties_with_one_id_are_both_refused_and_named(bench: Any) -> None:
    """Notes 9.3: pluggy skips the second one without a word."""
    offers = [bench.entry_point("notes", distribution=name) for name in ("alpha", "beta")]
    for source in itertools.permutations(offers):
        found = discover(source)
        assert found.plugins == ()
        assert [plugin.distribution for plugin in found.refused] == [
            offer.dist.name for offer in source
        ]
        (diagnostic,) = found.diagnostics
        assert "alpha and beta" in diagnostic.message


def test_the_order_is_core_first_then_by_id_whatever_was_installed_first(bench: Any) -> None:
    offers = [
        bench.entry_point("zebra"),
        bench.entry_point("memory-core", distribution="hermitcrab-memory-core"),
        bench.entry_point("ant"),
    ]
    for source in itertools.permutations(offers):
        assert [plugin.id for plugin in discover(source).plugins] == ["memory-core", "ant", "zebra"]


def test_the_requirement_on_the_host_is_read_from_the_distribution(bench: Any) -> None:
    requires = [
        "not a requirement!",
        "httpx>=0.27",
        'Hermitcrab>=9; extra == "later"',
        "hermitcrab[tokens]>=0.1,<2",
    ]
    found = discover([bench.entry_point("a", requires=requires)])
    assert str(found.plugins[0].requires_hermitcrab) in ("<2,>=0.1", ">=0.1,<2")
    assert discover([bench.entry_point("a")]).plugins[0].requires_hermitcrab is None


def test_what_is_really_installed_can_be_read() -> None:
    found = discover()
    assert all(plugin.distribution for plugin in found.plugins)
    assert {"legacy", "memory-core"} <= {plugin.id for plugin in found.plugins if plugin.core}


def test_reading_what_is_installed_imports_no_plugin_and_nothing_heavy() -> None:
    """C101: what is not selected is never imported."""
    code = (
        "import sys\n"
        "from hermitcrab.plugins.discovery import discover\n"
        "discover()\n"
        "print([m for m in sys.modules if m.startswith('hermitcrab_')\n"
        "       or m in ('pluggy', 'sqlite3', 'httpx', 'numpy', 'click', 'rich')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
