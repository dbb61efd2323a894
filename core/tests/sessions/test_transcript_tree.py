"""Branches, labels, settings and entries that are no messages (context 9.2, sessions 3.1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.branch import leaf_after, linked, path_to
from hermitcrab.sessions.branching import SessionTree
from hermitcrab.sessions.format import ENTRY_CHANGE
from hermitcrab.sessions.tree import (
    PathSettings,
    labels_on,
    name_on,
    settings_on,
    transcript_tree,
)

KEY = "agent:main:main"


def texts(log: Any) -> list[str]:
    return [text_of(item.message) for item in log.items()]


@pytest.fixture
async def log(open_sessions: Any) -> Any:
    return await open_sessions().open(KEY)


@pytest.fixture
def tree(log: Any) -> SessionTree:
    return SessionTree(log)


class TestBranching:
    async def test_the_next_entry_continues_at_the_entry_branched_to(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        one, *_ = await log.append_messages([user("one"), assistant("two"), user("three")])
        before = log.file.read_bytes()
        await tree.branch_to(one["id"])
        assert texts(log) == ["one"]
        [other] = await log.append_messages([assistant("other")])
        assert other["parentId"] == one["id"]
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "other"]
        assert log.file.read_bytes().startswith(before)

    async def test_branching_alone_survives_a_restart(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        one, _ = await log.append_messages([user("one"), assistant("two")])
        await tree.branch_to(one["id"])
        assert texts(await open_sessions().open(KEY)) == ["one"]

    async def test_nothing_is_the_place_before_the_first_entry(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        await log.append_messages([user("one")])
        await tree.branch_to(None)
        assert (texts(log), log.leaf_id) == ([], None)
        [first] = await log.append_messages([user("afresh")])
        assert first["parentId"] is None
        assert texts(await open_sessions().open(KEY)) == ["afresh"]

    async def test_one_can_go_back_to_a_branch_that_was_left(
        self, log: Any, tree: SessionTree
    ) -> None:
        one, two = await log.append_messages([user("one"), assistant("two")])
        await tree.branch_to(one["id"])
        await log.append_messages([assistant("other")])
        await tree.branch_to(two["id"])
        assert texts(log) == ["one", "two"]

    async def test_one_can_go_back_behind_a_compaction(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        one, two, _ = await log.append_messages([user("one"), assistant("two"), user("three")])
        made = log.new_entry("compaction", summary="s", firstKeptEntryId=two["id"])
        assert await log.append_compaction(made)
        await tree.branch_to(one["id"])
        await log.append_messages([user("other")])
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "other"]

    async def test_an_id_that_is_nowhere_is_an_error_that_says_where_to_look(
        self, log: Any, tree: SessionTree
    ) -> None:
        before = log.file.read_bytes()
        for branch in (tree.branch_to("nowhere"), tree.branch_with_summary("nowhere", "s")):
            with pytest.raises(TranscriptError, match="no entry 'nowhere'") as caught:
                await branch
            assert "--tree" in str(caught.value.hint)
        assert log.file.read_bytes() == before

    async def test_branching_to_where_one_is_writes_nothing(
        self, log: Any, tree: SessionTree
    ) -> None:
        [one] = await log.append_messages([user("one")])
        before = log.file.read_bytes()
        await tree.branch_to(one["id"])
        assert log.file.read_bytes() == before

    async def test_a_summary_tells_what_happened_on_the_branch_that_is_left(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        one, *_ = await log.append_messages([user("one"), assistant("two"), user("three")])
        summary = await tree.branch_with_summary(one["id"], "two was tried", details={"n": 2})
        assert (summary["parentId"], summary["fromId"]) == (one["id"], one["id"])
        assert summary["details"] == {"n": 2}
        again = await open_sessions().open(KEY)
        assert texts(log) == texts(again)
        assert "two was tried" in texts(log)[1]
        assert [item.is_synthetic for item in log.items()] == [False, True]
        root = await tree.branch_with_summary(None, "all was tried")
        assert (root["parentId"], root["fromId"]) == (None, "root")

    async def test_a_flush_that_saw_another_branch_has_not_seen_this_one(
        self, log: Any, tree: SessionTree
    ) -> None:
        """Design 7: a compaction never removes an entry that the flush did not see."""
        one, two = await log.append_messages([user("one"), user("two")])
        await log.update_entry(flushed_cycle=0, flushed_entry_id=one["id"])
        await tree.branch_to(one["id"])
        assert log.entry.flushed
        await log.update_entry(flushed_cycle=0, flushed_entry_id=two["id"])
        await tree.branch_to(one["id"])
        assert not log.entry.flushed
        assert texts(log) == ["one"]

    async def test_another_process_follows_and_nothing_of_it_is_cut_off(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        [one] = await log.append_messages([user("one")])
        other = await open_sessions().open(KEY)
        await other.append_messages([user("two")])
        await tree.branch_to(one["id"])
        await other.append_messages([user("three")])
        assert texts(other) == ["one", "three"]
        listed = await SessionTree(other).tree()
        assert [text_of(branch.tip["message"]) for branch in listed.branches] == ["two", "three"]


class TestListing:
    async def test_branches_are_listed_with_where_they_fork(
        self, log: Any, tree: SessionTree
    ) -> None:
        one, two = await log.append_messages([user("one"), assistant("two")])
        await tree.branch_to(one["id"])
        *_, four = await log.append_messages([assistant("three"), user("four")])
        found = await tree.tree()
        first, second = found.branches
        assert (first.tip_id, first.fork_id, first.is_active) == (two["id"], None, False)
        assert (first.length, first.depth) == (3, 3)
        assert (second.tip_id, second.fork_id, second.is_active) == (four["id"], one["id"], True)
        assert (second.length, second.depth) == (2, 4)
        assert (found.leaf_id, found.depth) == (four["id"], 4)

    async def test_a_leaf_inside_a_branch_is_listed_too(self, log: Any, tree: SessionTree) -> None:
        one, two = await log.append_messages([user("one"), assistant("two")])
        await tree.branch_to(one["id"])
        found = await tree.tree()
        assert [(b.tip_id, b.length, b.is_active) for b in found.branches] == [
            (one["id"], 2, True),
            (two["id"], 1, False),
        ]

    async def test_before_the_first_entry_no_branch_is_active(
        self, log: Any, tree: SessionTree
    ) -> None:
        await log.append_messages([user("one")])
        await tree.branch_to(None)
        found = await tree.tree()
        assert (found.leaf_id, found.depth) == (None, 0)
        assert not any(branch.is_active for branch in found.branches)

    def test_cycles_repeated_ids_and_missing_ancestors_end_a_branch(self, files: Any) -> None:
        entries = [
            files.message("a", "b"),
            files.message("b", "a"),
            files.message("c", "gone"),
            files.message("c", "c"),
        ]
        found = transcript_tree(entries)
        assert found.leaf_id == "c"
        assert all(branch.depth <= 2 for branch in found.branches)
        assert [branch.tip for branch in found.branches if branch.is_active] == [entries[3]]

    def test_an_empty_transcript_has_no_branches(self) -> None:
        assert transcript_tree(()).branches == ()


@settings(max_examples=200, deadline=None)
@given(moves=st.lists(st.none() | st.integers(0, 30), max_size=30))
def test_any_interleaving_of_appends_and_branches_is_one_well_formed_tree(
    moves: list[int | None],
) -> None:
    """``None`` appends, a number branches to one of the entries so far or before the first."""
    entries: list[Any] = []
    for number, move in enumerate(moves):
        entry: Any = {"type": "custom", "id": f"e{number}"}
        if move is not None:
            ids = [None, *(each["id"] for each in entries if each["type"] != "leaf")]
            entry = {"type": "leaf", "id": f"e{number}", "targetId": ids[move % len(ids)]}
        entries += linked([entry], leaf_after(entries, None))
    found = transcript_tree(entries)
    written = [entry for entry in entries if entry["type"] != "leaf"]
    assert sum(branch.length for branch in found.branches) == len(written)
    for branch in found.branches:
        path, missing = path_to(branch.tip_id, entries)
        assert missing is None
        assert len(path) == branch.depth
        inside = [None, *(entry["id"] for entry in path)]
        assert branch.fork_id == inside[branch.depth - branch.length]
    active = [branch for branch in found.branches if branch.is_active]
    assert [branch.tip_id for branch in active] == ([found.leaf_id] if found.leaf_id else [])
    assert found.depth == len(path_to(found.leaf_id, entries)[0])


@settings(max_examples=300, deadline=None)
@given(links=st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 7)), min_size=1))
def test_repeated_ids_mean_in_the_tree_what_they_mean_on_the_path(
    links: list[tuple[int, int | None]],
) -> None:
    """Damaged files: an id names the nearest line before the one that names it, and only then a later one."""
    entries: list[Any] = [
        {"type": "custom", "id": f"e{own}", "parentId": None if parent is None else f"e{parent}"}
        for own, parent in links
    ]
    found = transcript_tree(entries)
    [active] = [branch for branch in found.branches if branch.is_active]
    path, missing = path_to(active.tip_id, entries)
    assert active.tip is entries[-1]
    if missing is None:
        assert found.depth == len(path)


class TestLabels:
    async def test_the_later_label_wins_and_an_empty_one_removes(
        self, log: Any, tree: SessionTree
    ) -> None:
        one, two = await log.append_messages([user("one"), user("two")])
        await tree.set_label(one["id"], "start")
        await tree.set_label(two["id"], "second")
        await tree.set_label(one["id"], "begin")
        removed = await tree.set_label(two["id"], None)
        assert removed["label"] == ""
        assert (await tree.labels()).by_entry == {one["id"]: "begin"}
        assert texts(log) == ["one", "two"]

    async def test_a_label_belongs_to_the_branch_that_sets_it(
        self, log: Any, tree: SessionTree
    ) -> None:
        [one] = await log.append_messages([user("one")])
        await tree.set_label(one["id"], "start")
        await tree.branch_to(one["id"])
        assert (await tree.labels()).by_entry == {}

    async def test_labels_behind_a_compaction_are_found(self, log: Any, tree: SessionTree) -> None:
        one, two = await log.append_messages([user("one"), user("two")])
        await tree.set_label(one["id"], "start")
        made = log.new_entry("compaction", summary="s")
        await log.append_compaction({**made, "firstKeptEntryId": made["id"]})
        await tree.set_label(two["id"], "second")
        found = await tree.labels()
        assert found.by_entry == {one["id"]: "start", two["id"]: "second"}
        assert found.unknown == ()

    async def test_a_label_for_an_id_that_is_nowhere_is_refused(self, tree: SessionTree) -> None:
        with pytest.raises(TranscriptError, match="no entry 'nowhere'"):
            await tree.set_label("nowhere", "x")

    def test_labels_whose_target_is_unknown_are_reported(self) -> None:
        path: Any = [
            {"type": "custom", "id": "a"},
            {"type": "label", "id": "b", "targetId": "gone", "label": "x"},
            {"type": "label", "id": "c", "targetId": "a", "label": 7},
            {"type": "label", "id": "d", "label": "without a target"},
        ]
        found = labels_on(path)
        assert (found.by_entry, found.unknown) == ({}, ("gone",))


class TestSettings:
    async def test_a_model_and_a_level_stand_in_the_transcript_and_in_the_entry(
        self, log: Any, tree: SessionTree
    ) -> None:
        written = await tree.set_model("acme", "large")
        assert (written["type"], written["provider"], written["modelId"]) == (
            "model_change",
            "acme",
            "large",
        )
        level = await tree.set_thinking_level("high")
        assert (level["type"], level["thinkingLevel"]) == ("thinking_level_change", "high")
        assert (log.entry.provider_override, log.entry.model_override) == ("acme", "large")
        assert log.entry.thinking_level == "high"
        assert tree.settings() == PathSettings(
            provider="acme", model_id="large", thinking_level="high"
        )
        assert texts(log) == []

    async def test_what_a_compaction_hides_is_known_from_the_session_entry(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        """Design 5."""
        await tree.set_model("acme", "large")
        await tree.set_thinking_level("low")
        made = log.new_entry("compaction", summary="s")
        await log.append_compaction({**made, "firstKeptEntryId": made["id"]})
        again = SessionTree(await open_sessions().open(KEY))
        assert again.settings() == tree.settings()
        assert tree.settings().model_id == "large"
        assert tree.settings().thinking_level == "low"

    async def test_the_settings_of_a_branch_are_its_own(self, log: Any, tree: SessionTree) -> None:
        await tree.set_model("acme", "small")
        [one] = await log.append_messages([user("one")])
        await tree.set_model("acme", "large")
        await tree.branch_to(one["id"])
        assert tree.settings().model_id == "small"

    def test_a_later_change_of_the_session_entry_wins_over_an_older_model_change(self) -> None:
        path: Any = [
            {"type": "model_change", "id": "a", "provider": "acme", "modelId": "large"},
            {"type": "custom", "id": "b", "customType": ENTRY_CHANGE, "data": {"key": KEY}},
        ]
        before = PathSettings(thinking_level="low")
        chosen = PathSettings(provider="acme", model_id="large", thinking_level="low")
        assert settings_on(path, before) == chosen
        path[1]["data"] |= {"providerOverride": None, "modelOverride": None}
        assert settings_on(path, before) == before

    async def test_the_name_of_a_session_is_the_last_one_and_can_be_taken_away(
        self, log: Any, tree: SessionTree
    ) -> None:
        assert await tree.session_name() is None
        await tree.set_session_name("Ports")
        await tree.set_session_name("Harbours")
        made = log.new_entry("compaction", summary="s")
        await log.append_compaction({**made, "firstKeptEntryId": made["id"]})
        assert await tree.session_name() == "Harbours"
        await tree.set_session_name(None)
        assert await tree.session_name() is None
        assert name_on(()) is None


class TestCustomEntries:
    async def test_data_is_kept_and_the_model_does_not_see_it(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        written = await tree.append_custom("crab.index", {"seen": [1, None, "x"]})
        again = await open_sessions().open(KEY)
        assert again.path[-1] == written
        assert written["data"] == {"seen": [1, None, "x"]}
        assert texts(again) == []

    async def test_a_custom_message_is_seen_as_a_user_message_that_no_user_wrote(
        self, log: Any, tree: SessionTree, open_sessions: Any
    ) -> None:
        await log.append_messages([user("hello")])
        blocks = [{"type": "text", "text": "in blocks"}]
        first = await tree.append_custom_message("crab.note", "as text", details={"by": "crab"})
        second = await tree.append_custom_message("crab.note", blocks, display=False)
        assert (first["display"], first["details"]) == (True, {"by": "crab"})
        assert second["display"] is False
        again = await open_sessions().open(KEY)
        assert again.items() == log.items()
        assert texts(again) == ["hello", "as text", "in blocks"]
        assert [item.message["role"] for item in again.items()] == ["user"] * 3
        assert [item.is_synthetic for item in again.items()] == [False, True, True]

    async def test_types_of_the_host_are_its_own(self, tree: SessionTree) -> None:
        """A plugin that wrote one could change what a lost entry table is rebuilt from."""
        with pytest.raises(TranscriptError, match="written by hermitcrab itself"):
            await tree.append_custom(ENTRY_CHANGE, {"key": "agent:main:other"})
        with pytest.raises(TranscriptError, match="written by hermitcrab itself"):
            await tree.append_custom_message("hermitcrab.note", "x")

    async def test_unknown_types_and_fields_survive(self, log: Any, open_sessions: Any) -> None:
        odd: Any = log.new_entry("hologram", beam={"angle": 3}, shade="teal")
        message: Any = {"role": "user", "content": "hi", "mood": {"level": 1}}
        await log.append([odd, log.new_entry("message", message=message, origin="phone")])
        again = await open_sessions().open(KEY)
        hologram, said = again.path[-2:]
        assert {**odd, "parentId": hologram["parentId"]} == hologram
        assert (said["message"], said["origin"]) == (message, "phone")
        assert again.path == log.path
