"""Patches of session entries, labels, and what counts as activity."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.config.names import snake_case
from hermitcrab.errors import SessionError, SessionLabelTakenError, SessionNotFoundError
from hermitcrab.sessions.entries import SessionEntries, SessionEntry, from_json, to_json
from hermitcrab.sessions.entry import FIELD_NAMES, merge
from hermitcrab.sessions.patching import parse_patch

KEY = "agent:main:main"
CHILD = "agent:main:subagent:1"
ENTRY = SessionEntry(
    key=KEY, session_id="s1", updated_at=100, session_started_at=50, last_interaction_at=80
)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[SessionEntries]:
    made = SessionEntries(tmp_path / "sessions.sqlite")
    made.put(ENTRY)
    yield made
    made.close()


class TestPatches:
    def test_absent_leaves_null_deletes_and_a_value_sets(self, table: SessionEntries) -> None:
        """Sessions 5.1."""
        table.patch(KEY, {"label": "Ports", "sendPolicy": "deny"})
        patched = table.patch(KEY, {"sendPolicy": None, "thinkingLevel": "think harder"})
        assert (patched.label, patched.send_policy) == ("Ports", None)
        assert patched.thinking_level == "medium"
        assert table.get(KEY) == patched

    @pytest.mark.parametrize(
        ("field", "given", "stored"),
        [
            ("label", "  Ports ", "Ports"),
            ("label", "x" * 512, "x" * 512),
            ("displayName", " Ann ", "Ann"),
            ("chatType", "dm", "direct"),
            ("chatType", "GROUP", "group"),
            ("channel", "telegram", "telegram"),
            ("origin", {"from": "ann", "threadId": 5}, {"from": "ann", "threadId": 5}),
            ("thinkingLevel", "ultrathink", "high"),
            ("thinkingLevel", "off", "off"),
            ("thinkingLevel", "inherit", None),
            ("fastMode", "auto", "auto"),
            ("fastMode", "off", False),
            ("fastMode", True, True),
            ("verboseLevel", True, "on"),
            ("verboseLevel", "everything", "full"),
            ("reasoningLevel", "hidden", "off"),
            ("sendPolicy", "Allow", "allow"),
            ("groupActivation", "always", "always"),
            ("archivedAt", 5, 5),
            ("pinnedAt", 0, 0),
            ("status", "killed", "killed"),
            ("abortedLastRun", False, False),
            ("inputTokens", 12, 12),
            ("outputTokens", 0, 0),
            ("modelOverride", " m ", "m"),
            ("modelOverride", " ", None),
            ("providerOverride", "", None),
        ],
    )
    def test_values_are_brought_into_their_stored_form(
        self, table: SessionEntries, field: str, given: Any, stored: Any
    ) -> None:
        table.patch(KEY, {field: given})
        entry = table.get(KEY)
        assert getattr(entry, snake_case(field)) == stored

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("label", ""),
            ("label", "   "),
            ("label", "x" * 513),
            ("label", 5),
            ("chatType", "thread"),
            ("channel", ""),
            ("origin", "telegram"),
            ("thinkingLevel", "very"),
            ("thinkingLevel", 1),
            ("fastMode", "slow"),
            ("verboseLevel", []),
            ("sendPolicy", "maybe"),
            ("groupActivation", True),
            ("archivedAt", -1),
            ("archivedAt", True),
            ("pinnedAt", "now"),
            ("status", "asleep"),
            ("abortedLastRun", "yes"),
            ("inputTokens", 1.5),
            ("modelOverride", 7),
            ("spawnDepth", 1),
            ("spawnedBy", "agent:main:main"),
        ],
    )
    def test_an_invalid_value_changes_nothing_of_the_patch(
        self, table: SessionEntries, field: str, value: Any
    ) -> None:
        """Sessions 5.1: an error text, and nothing applied."""
        with pytest.raises(SessionError, match=field):
            table.patch(KEY, {"displayName": "Ann", field: value})
        assert table.get(KEY) == ENTRY

    @pytest.mark.parametrize(
        ("name", "near"),
        [("thinkinglevel", "thinkingLevel"), ("lable", "label"), ("send_policy", "sendPolicy")],
    )
    def test_an_unknown_field_is_an_error_with_the_nearest_name(
        self, table: SessionEntries, name: str, near: str
    ) -> None:
        with pytest.raises(SessionError, match=f"Did you mean {near}"):
            table.patch(KEY, {name: "x", "displayName": "Ann"})
        assert table.get(KEY) == ENTRY

    @pytest.mark.parametrize("name", ["sessionId", "updatedAt", "compactionCount", "messageCount"])
    def test_what_the_program_keeps_cannot_be_set_by_hand(
        self, table: SessionEntries, name: str
    ) -> None:
        with pytest.raises(SessionError, match=f"{name} cannot be set by hand"):
            table.patch(KEY, {name: 1})

    def test_a_parent_is_stated_once_and_for_subagents_only(self, table: SessionEntries) -> None:
        """Sessions 2.10."""
        table.put(evolve(ENTRY, key=CHILD))
        child = table.patch(CHILD, {"spawnedBy": KEY, "spawnDepth": 1})
        assert (child.spawned_by, child.spawn_depth) == (KEY, 1)
        assert table.patch(CHILD, {"spawnedBy": KEY}) == child
        for changed in (CHILD, None):
            with pytest.raises(SessionError, match="cannot be changed"):
                table.patch(CHILD, {"spawnedBy": changed})

    def test_what_is_not_there_cannot_be_patched(self, table: SessionEntries) -> None:
        with pytest.raises(SessionNotFoundError):
            table.patch("agent:main:none", {"label": "x"})

    @given(st.data())
    def test_any_value_of_any_field_is_taken_or_refused(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(FIELD_NAMES)))
        value = data.draw(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text()
            | st.lists(st.text())
        )
        changes: dict[str, Any] = {}
        with contextlib.suppress(SessionError):
            changes = parse_patch(ENTRY, {name: value})
        entry = merge(ENTRY, changes)
        assert from_json(KEY, to_json(entry)) == entry


class TestLabels:
    def test_a_label_names_one_session(self, table: SessionEntries) -> None:
        table.put(evolve(ENTRY, key=CHILD))
        table.patch(KEY, {"label": "Ports"})
        with pytest.raises(SessionLabelTakenError, match=KEY) as caught:
            table.patch(CHILD, {"label": " Ports ", "displayName": "Ann"})
        assert caught.value.key == KEY
        child = table.get(CHILD)
        assert child is not None
        assert (child.label, child.display_name) == (None, None)
        with pytest.raises(SessionLabelTakenError):
            table.update(CHILD, label="Ports")

    def test_its_own_label_can_be_set_again_and_passed_on(self, table: SessionEntries) -> None:
        table.put(evolve(ENTRY, key=CHILD))
        table.patch(KEY, {"label": "Ports"})
        assert table.patch(KEY, {"label": "Ports", "channel": "x"}).channel == "x"
        table.patch(KEY, {"label": None})
        assert table.patch(CHILD, {"label": "Ports"}).label == "Ports"

    async def test_a_refused_label_is_not_recorded(self, open_sessions: Any) -> None:
        sessions = open_sessions()
        first, second = await sessions.open(KEY), await sessions.open(CHILD)
        await sessions.patch(KEY, {"label": "Ports"})
        before = second.file.read_bytes()
        with pytest.raises(SessionLabelTakenError, match=KEY):
            await sessions.patch(CHILD, {"label": "Ports"})
        assert second.file.read_bytes() == before
        assert first.entry.label == "Ports"


class TestActivity:
    def test_a_touch_never_lies_in_the_future(self) -> None:
        """Sessions 2.3."""
        assert merge(ENTRY, {}, now=150).updated_at == 150
        assert merge(ENTRY, {"updated_at": 120}).updated_at == 120
        assert merge(ENTRY, {"updated_at": 60}).updated_at == 100
        assert merge(ENTRY, {"updated_at": 900}, now=150).updated_at == 150
        assert merge(evolve(ENTRY, updated_at=900), {}, now=150).updated_at == 150

    def test_bookkeeping_moves_a_time_only_where_none_is_known(self) -> None:
        new = evolve(ENTRY, updated_at=0, last_interaction_at=None)
        changes = {"last_interaction_at": 7}
        merged = merge(new, changes, policy="preserve-activity", now=9)
        assert (merged.updated_at, merged.last_interaction_at) == (9, 7)

    @pytest.mark.parametrize("fault", ["#11520", "#51991", "#49515"])
    def test_noting_the_last_route_does_not_keep_a_session_from_going_idle(
        self, table: SessionEntries, fault: str
    ) -> None:
        """#11520, #51991, #49515: the write of the last route moved updatedAt before freshness was judged."""
        route = {"channel": "telegram", "origin": {"to": "ann", "fault": fault}}
        entry = table.patch(KEY, route, policy="preserve-activity", now=10_000_000)
        times = (entry.updated_at, entry.session_started_at, entry.last_interaction_at)
        assert times == (100, 50, 80)
        assert entry.channel == "telegram"

    def test_bookkeeping_cannot_move_the_last_interaction(self, table: SessionEntries) -> None:
        """#11520."""
        entry = table.update(
            KEY, policy="preserve-activity", now=900, last_interaction_at=900, flush_failures=1
        )
        assert (entry.last_interaction_at, entry.updated_at, entry.flush_failures) == (80, 100, 1)

    def test_activity_moves_neither_the_start_nor_the_last_interaction(
        self, table: SessionEntries
    ) -> None:
        """#49515: daily resets look at the start, idle ones at the last interaction."""
        entry = table.update(KEY, now=900, label="Ports")
        times = (entry.updated_at, entry.session_started_at, entry.last_interaction_at)
        assert times == (900, 50, 80)

    def test_another_model_drops_a_provider_that_is_not_its_own(
        self, table: SessionEntries
    ) -> None:
        """Sessions 2.3: no stale pair of model and provider."""
        table.patch(KEY, {"providerOverride": "openai", "modelOverride": "a"})
        assert table.patch(KEY, {"modelOverride": "a"}).provider_override == "openai"
        changed = table.patch(KEY, {"modelOverride": "b"})
        assert (changed.provider_override, changed.model_override) == (None, "b")
        both = table.patch(KEY, {"providerOverride": "x", "modelOverride": "c"})
        assert (both.provider_override, both.model_override) == ("x", "c")
        gone = table.patch(KEY, {"modelOverride": ""})
        assert (gone.provider_override, gone.model_override) == (None, None)


async def test_of_two_resets_at_once_neither_loses_a_transcript(open_sessions: Any) -> None:
    """#116712: what was displaced could not be reached any more."""
    first, second = open_sessions(), open_sessions()
    old = (await first.open(KEY)).session_id
    await second.open(KEY)
    new = [
        log.session_id
        for log in await asyncio.gather(*(one.start_new(KEY) for one in (first, second)))
    ]
    entry = (await open_sessions().open(KEY)).entry
    assert entry.session_id in new
    assert {entry.session_id, *entry.previous_session_ids} == {old, *new}


async def test_a_reset_carries_over_what_the_user_set(open_sessions: Any) -> None:
    """Sessions 9.6: #90119, #69301, #92562."""
    sessions = open_sessions()
    await sessions.open(KEY)
    chosen = {
        "label": "Ports",
        "displayName": "Ann",
        "providerOverride": "p",
        "modelOverride": "m",
        "thinkingLevel": "high",
        "fastMode": False,
        "verboseLevel": "full",
        "reasoningLevel": "off",
        "sendPolicy": "deny",
        "groupActivation": "always",
        "pinnedAt": 5,
    }
    passing = {"status": "failed", "inputTokens": 5, "abortedLastRun": True}
    await sessions.patch(KEY, {**chosen, **passing})
    entry = (await sessions.start_new(KEY)).entry
    changes = parse_patch(entry, chosen)
    assert {name: getattr(entry, name) for name in changes} == changes
    assert (entry.status, entry.input_tokens, entry.aborted_last_run) == (None, None, None)
