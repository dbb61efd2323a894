"""``hermitcrab memory copy``."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore

HOUSE = """
from hermitcrab import hookimpl
from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore
from hermitcrab_memory_core.backend import MemoryCore

class House(MemoryCore):
    def __init__(self, context):
        super().__init__(context)
        self.long_term = JsonLongTermStore(
            context.home / f"{NAME}-{context.agent_id}.json", HashedEmbeddings()
        )

@hookimpl
def register_memory_backends(registry):
    registry.register(NAME, House)
"""


@pytest.fixture
def houses(cli, distribution):
    """Two memory plugins that keep single memories; the first one knows two."""
    for name in ("old-house", "new-house"):
        points = {"hermitcrab.memory": f"{name} = {name.replace('-', '_')}"}
        distribution(name, points, HOUSE + f"\nNAME = {name!r}\n")
    notes = cli.home / "workspace" / "MEMORY.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("- the harbour code is 4711\n", encoding="utf-8")
    cli.configure("plugins: {slots: {memory: old-house}}\n")
    store = JsonLongTermStore(cli.home / "old-house-main.json", HashedEmbeddings())
    for text in ("tea, not coffee", "port 5433"):
        asyncio.run(store.add(text))
    return cli


def test_a_copy_says_what_it_did_and_leaves_the_configuration_alone(houses):
    before = (houses.home / "config.yaml").read_bytes()
    printed = houses("memory", "copy", "--from", "old-house", "--to", "new-house").stdout
    assert "1 file in the index" in printed
    assert "2 of 2 single memories moved, 0 there already; 2 counted in new-house" in printed
    assert (houses.home / "config.yaml").read_bytes() == before
    old, new = (
        json.loads((houses.home / f"{name}-house-main.json").read_text()) for name in ("old", "new")
    )
    assert old == new


def test_a_copy_as_json_and_again(houses):
    arguments = ("memory", "copy", "--from", "old-house", "--to", "new-house")
    first, again = houses.json(*arguments), houses.json(*arguments)
    assert first["complete"] is again["complete"] is True
    assert first["memories"] == {
        "source": 2,
        "moved": 2,
        "already": 0,
        "found": 2,
        "refused": [],
        "notes": None,
    }
    assert (again["memories"]["moved"], again["memories"]["already"]) == (0, 2)
    assert (again["agent"], again["from"], again["to"]) == ("main", "old-house", "new-house")


def test_a_memory_of_files_alone_gets_a_file(houses):
    arguments = ("memory", "copy", "--from", "old-house", "--to", "memory-core")
    result = houses(*arguments)
    assert "memory/memories-of-old-house.md" in result.stderr
    assert "2 files in the index" in result.stdout
    houses.configure("plugins: {slots: {memory: memory-core}}\n")
    found = houses.json("memory", "search", "coffee or tea")
    assert found["results"][0]["path"] == "memory/memories-of-old-house.md"


def test_an_agent_of_its_own_has_memories_of_its_own(houses):
    report = houses.json(
        "memory", "copy", "--from", "old-house", "--to", "new-house", "--agent", "work"
    )
    assert (report["agent"], report["memories"]["source"], report["complete"]) == ("work", 0, True)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("old-house", "old-house", "already"),
        ("old-house", "no-house", "no-house"),
        ("no-house", "old-house", "no-house"),
    ],
)
def test_a_place_that_is_none_is_an_error(houses, source, target, said):
    result = houses("memory", "copy", "--from", source, "--to", target, code=1)
    assert said in result.stderr
    assert not (houses.home / "new-house-main.json").exists()


def test_a_target_that_does_not_start_gets_no_copy_and_nothing_else_stands_in(houses, distribution):
    distribution(
        "ruined-house",
        {"hermitcrab.memory": "ruined-house = ruined_house"},
        """
        from hermitcrab import hookimpl
        from hermitcrab.errors import MemoryBackendError

        def build(context):
            raise MemoryBackendError("the roof is off")

        @hookimpl
        def register_memory_backends(registry):
            registry.register("ruined-house", build)
        """,
    )
    arguments = ("memory", "copy", "--from", "old-house", "--to", "ruined-house")
    result = houses(*arguments, code=1)
    assert "the roof is off" in result.stderr
    assert not (houses.home / "workspace" / "memory").exists()
