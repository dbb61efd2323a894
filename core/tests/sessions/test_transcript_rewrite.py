"""Replacing messages on the active branch: nothing on disk changes, the context does (context 1.2)."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.errors import ContextEngineError, TranscriptError
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.branch import leaf_after, linked, path_to, without_repeats
from hermitcrab.sessions.branching import SessionTree
from hermitcrab.sessions.context import context_items
from hermitcrab.sessions.format import encode_line
from hermitcrab.sessions.rewrite import RewritePlan, plan_rewrite, rewrite_transcript_entries

KEY = "agent:main:main"


def texts(log: Any) -> list[str]:
    return [text_of(item.message) for item in log.items()]


def replacing(entry: Any, text: str) -> Any:
    return {"entry_id": entry["id"], "message": {**entry["message"], "content": text}}


@pytest.fixture
async def log(open_sessions: Any) -> Any:
    return await open_sessions().open(KEY)


@pytest.fixture
async def entries(log: Any) -> Any:
    """A short conversation with one long tool result, the third entry."""
    call: Any = {"id": "c1", "name": "read", "arguments": {"path": "notes.md"}}
    messages = [
        user("read"),
        assistant("", tool_calls=[call]),
        tool_result("c1", "read", "long " * 100),
    ]
    return await log.append_messages([*messages, assistant("done"), user("thanks")])


class TestWhatARewriteDoes:
    async def test_the_context_holds_the_replacement_and_everything_else(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        result = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert result.changed
        assert result.reason is None
        assert result.rewritten_entries == 1
        assert texts(log) == ["read", "", "short", "done", "thanks"]
        again = await open_sessions().open(KEY)
        assert again.path == log.path
        assert texts(again) == texts(log)

    async def test_no_line_on_disk_is_touched_and_all_is_one_write(
        self, log: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Design 5: nothing is ever rewritten in place."""
        before = log.file.read_bytes()
        sizes: list[int] = []
        write = os.write

        def counting(descriptor: int, data: Any) -> int:
            written: int = write(descriptor, data)
            if b'"type"' in bytes(data):
                sizes.append(written)
            return written

        monkeypatch.setattr("os.write", counting)
        await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        after = log.file.read_bytes()
        assert after.startswith(before)
        assert sizes == [len(after) - len(before)]

    async def test_the_whole_suffix_gets_new_ids_and_nothing_before_it_does(
        self, log: Any, entries: Any
    ) -> None:
        result = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        old = [entry["id"] for entry in entries[2:]]
        assert list(result.id_map) == old
        assert [entry["id"] for entry in log.path[-5:]] == [
            *(entry["id"] for entry in entries[:2]),
            *(result.id_map[entry_id] for entry_id in old),
        ]
        assert log.path[-3]["parentId"] == entries[1]["id"]
        assert not {*result.id_map.values()} & {*old}

    async def test_the_bytes_freed_are_those_of_messages_that_became_smaller(
        self, log: Any, entries: Any
    ) -> None:
        shorter, longer = replacing(entries[2], "short"), replacing(entries[4], "thanks " * 50)
        result = await rewrite_transcript_entries(log, [shorter, longer])
        old, new = encode_line(entries[2]["message"]), encode_line(shorter["message"])
        assert result.bytes_freed == len(old) - len(new) > 400
        assert result.rewritten_entries == 2

    async def test_times_unknown_types_and_unknown_fields_are_kept(self, log: Any) -> None:
        [first] = await log.append_messages([user("one")])
        odd: Any = log.new_entry("hologram", beam={"angle": 3}, shade="teal")
        [odd] = await log.append([odd])
        result = await rewrite_transcript_entries(log, [replacing(first, "1")])
        anew = log.path[-1]
        assert anew == {
            **odd,
            "id": result.id_map[odd["id"]],
            "parentId": result.id_map[first["id"]],
            "rewriteOf": odd["id"],
        }
        assert log.path[-2]["timestamp"] == first["timestamp"]

    async def test_a_rewrite_of_the_very_first_entry_begins_at_the_root(self, log: Any) -> None:
        await SessionTree(log).branch_to(None)
        [first] = await log.append_messages([user("one")])
        await log.append_messages([assistant("two")])
        result = await rewrite_transcript_entries(log, [replacing(first, "1")])
        assert result.changed
        assert log.path[0]["parentId"] is None
        assert texts(log) == ["1", "two"]

    async def test_messages_that_are_said_again_are_not_counted(
        self, log: Any, entries: Any
    ) -> None:
        await rewrite_transcript_entries(log, [replacing(entries[0], "look")])
        await log.append_messages([assistant("six")])
        await log.end_turn()
        assert log.entry.message_count == 6

    async def test_a_table_that_is_made_again_counts_nothing_twice(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        """Design 5: the session entries can be rebuilt from the transcripts."""
        await log.update_entry(label="Ports", flushed_cycle=0, flushed_entry_id=entries[3]["id"])
        made = log.new_entry("compaction", summary="s", firstKeptEntryId=entries[2]["id"])
        assert await log.append_compaction(made)
        await log.update_entry(label="Harbours", record=True)
        await log.end_turn()
        for text in ("short", "shorter"):
            item = next(each for each in log.items() if each.message["role"] == "toolResult")
            one: Any = {"entry_id": item.entry_id, "message": tool_result("c1", "read", text)}
            assert (await rewrite_transcript_entries(log, [one])).changed
        for file in log.file.parent.glob("sessions.sqlite*"):
            file.unlink()
        again = (await open_sessions().open(KEY)).entry
        assert (again.message_count, again.compaction_count, again.label) == (5, 1, "Harbours")
        assert again.flushed_entry_id == log.entry.flushed_entry_id

    async def test_a_second_rewrite_works_on_the_new_ids(self, log: Any, entries: Any) -> None:
        first = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        old = await rewrite_transcript_entries(log, [replacing(entries[2], "shorter")])
        assert not old.changed
        moved = {**entries[2], "id": first.id_map[entries[2]["id"]]}
        assert (await rewrite_transcript_entries(log, [replacing(moved, "shorter")])).changed
        assert texts(log)[2] == "shorter"


class TestLinks:
    async def test_labels_and_branch_summaries_follow(self, log: Any, entries: Any) -> None:
        tree = SessionTree(log)
        label = await tree.set_label(entries[2]["id"], "long one")
        earlier = await tree.set_label(entries[0]["id"], "start")
        summary = log.new_entry("branch_summary", fromId=entries[3]["id"], summary="left")
        await log.append([summary])
        ids = (await rewrite_transcript_entries(log, [replacing(entries[2], "short")])).id_map
        by_id = {entry["id"]: entry for entry in log.path}
        assert by_id[ids[label["id"]]]["targetId"] == ids[entries[2]["id"]]
        assert by_id[ids[earlier["id"]]]["targetId"] == entries[0]["id"]
        assert by_id[ids[summary["id"]]]["fromId"] == ids[entries[3]["id"]]
        assert (await tree.labels()).by_entry == {
            ids[entries[2]["id"]]: "long one",
            entries[0]["id"]: "start",
        }

    async def test_a_compaction_still_keeps_what_it_kept(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        kept = log.new_entry("compaction", summary="s", firstKeptEntryId=entries[2]["id"])
        assert await log.append_compaction(kept)
        await log.append_messages([user("more")])
        before = texts(log)
        result = await rewrite_transcript_entries(log, [replacing(entries[3], "well done")])
        assert result.changed
        assert texts(log) == [*before[:2], "well done", *before[3:]]
        assert texts(await open_sessions().open(KEY)) == texts(log)
        result = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert texts(log)[1:3] == ["short", "well done"]
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_a_compaction_that_keeps_nothing_still_keeps_nothing(
        self, log: Any, entries: Any
    ) -> None:
        made = log.new_entry("compaction", summary="s")
        made["firstKeptEntryId"] = made["id"]
        assert await log.append_compaction(made)
        before = texts(log)
        result = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert result.changed
        assert texts(log) == before
        assert log.path[0]["firstKeptEntryId"] == log.path[0]["id"] == result.id_map[made["id"]]

    async def test_what_the_flush_saw_stays_known_under_its_new_id(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        """Design 7: a compaction never removes an entry that the flush did not see."""
        await log.update_entry(flushed_cycle=0, flushed_entry_id=entries[3]["id"])
        ids = (await rewrite_transcript_entries(log, [replacing(entries[2], "short")])).id_map
        assert log.entry.flushed_entry_id == ids[entries[3]["id"]]
        assert log.path[-1]["data"] == {"key": KEY, "flushedEntryId": ids[entries[3]["id"]]}
        stored = (await open_sessions().open(KEY)).entry
        assert stored.flushed_entry_id == ids[entries[3]["id"]]
        assert stored.flushed


class TestRefusals:
    @pytest.mark.parametrize("given_replacements", [[], ()])
    async def test_no_replacements(self, log: Any, entries: Any, given_replacements: Any) -> None:
        result = await rewrite_transcript_entries(log, given_replacements)
        assert (result.changed, result.reason) == (False, "no replacements")

    async def test_an_empty_session(self, log: Any) -> None:
        one: Any = {"entry_id": "x", "message": user("hi")}
        result = await rewrite_transcript_entries(log, [one])
        assert (result.changed, result.reason) == (False, "the session is empty")

    async def test_an_id_that_is_no_message_of_the_branch(self, log: Any, entries: Any) -> None:
        custom = await SessionTree(log).append_custom("crab.note", {"x": 1})
        for entry_id in ("nowhere", custom["id"]):
            one: Any = {"entry_id": entry_id, "message": user("hi")}
            result = await rewrite_transcript_entries(log, [one])
            assert not result.changed
            assert "no replacement matches" in str(result.reason)

    async def test_an_entry_that_would_have_to_be_appended_anew_and_may_not(
        self, log: Any, entries: Any
    ) -> None:
        allowed = {entry["id"] for entry in entries[2:4]}
        one = replacing(entries[2], "short")
        before = log.file.read_bytes()
        result = await rewrite_transcript_entries(
            log, [one], allowed_rewrite_suffix_entry_ids=allowed
        )
        assert not result.changed
        assert entries[4]["id"] in str(result.reason)
        assert log.file.read_bytes() == before
        allowed.add(entries[4]["id"])
        result = await rewrite_transcript_entries(
            log, [one], allowed_rewrite_suffix_entry_ids=list(allowed)
        )
        assert result.changed

    async def test_a_first_target_behind_an_entry_that_is_missing(
        self, files: Any, open_sessions: Any, log: Any
    ) -> None:
        lost = files.message("m1", "gone", "one")
        files.write(lost, files.message("m2", "m1", "two"), session_id=log.session_id)
        damaged = await open_sessions().open(KEY)
        assert damaged.faults.missing_ancestor == "gone"
        result = await rewrite_transcript_entries(damaged, [replacing(lost, "1")])
        assert not result.changed
        assert "missing" in str(result.reason)

    async def test_replacements_that_change_nothing(self, log: Any, entries: Any) -> None:
        """An engine that tidies up after each turn must not make the file grow each time."""
        same: Any = {"entry_id": entries[2]["id"], "message": entries[2]["message"]}
        before = log.file.read_bytes()
        result = await rewrite_transcript_entries(log, [same])
        assert (result.changed, result.reason) == (False, "the replacements change nothing")
        assert log.file.read_bytes() == before

    @pytest.mark.parametrize("message", [None, "text", {}, {"role": 3}])
    async def test_a_replacement_that_is_no_message(
        self, log: Any, entries: Any, message: Any
    ) -> None:
        one: Any = {"entry_id": entries[2]["id"], "message": message}
        result = await rewrite_transcript_entries(log, [one])
        assert not result.changed
        assert "is not a message" in str(result.reason)

    async def test_a_replacement_without_its_fields_is_an_error_that_names_them(
        self, log: Any, entries: Any
    ) -> None:
        one: Any = {"entryId": entries[2]["id"], "message": user("hi")}
        with pytest.raises(ContextEngineError, match=r"`entry_id` and `message`.*'entryId'"):
            await rewrite_transcript_entries(log, [one])

    async def test_a_replacement_that_is_not_json_leaves_the_file_alone(
        self, log: Any, entries: Any
    ) -> None:
        before = log.file.read_bytes()
        with pytest.raises(TranscriptError, match="cannot be written as JSON"):
            await rewrite_transcript_entries(log, [replacing(entries[2], object())])  # type: ignore[arg-type]
        assert log.file.read_bytes() == before
        assert texts(log)[-1] == "thanks"


class TestOthers:
    async def test_what_another_process_appended_before_is_part_of_the_suffix(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        other = await open_sessions().open(KEY)
        await other.append_messages([user("and this")])
        result = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert result.changed
        assert texts(log) == ["read", "", "short", "done", "thanks", "and this"]
        await other.append_messages([user("and that")])
        assert texts(other) == [*texts(log), "and that"]

    @pytest.mark.parametrize(("rivals", "changed"), [(1, True), (2, False)])
    async def test_a_rival_that_appends_meanwhile_is_never_cut_off(
        self,
        log: Any,
        entries: Any,
        open_sessions: Any,
        monkeypatch: pytest.MonkeyPatch,
        rivals: int,
        changed: bool,
    ) -> None:
        """Design 5: one more attempt on the new leaf, then the rewrite gives way."""
        other = await open_sessions().open(KEY)
        append, rival_texts = type(log).append_decided, iter(range(rivals))

        async def late(self: Any, make: Any, **options: Any) -> Any:
            number = next(rival_texts, None)
            if number is not None:
                await other.append_messages([user(f"rival {number}")])
            return await append(self, make, **options)

        monkeypatch.setattr(type(log), "append_decided", late)
        result = await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert result.changed is changed
        if not changed:
            assert "another process appended" in str(result.reason)
            assert result.id_map == {}
        assert texts(log)[2] == ("short" if changed else "long " * 100)
        assert texts(log)[5:] == [f"rival {number}" for number in range(rivals)]
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_appends_at_the_same_time_stand_behind_the_rewrite_or_in_it(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        result, *_ = await asyncio.gather(
            rewrite_transcript_entries(log, [replacing(entries[2], "short")]),
            *(log.append_messages([user(f"late {number}")]) for number in range(10)),
        )
        assert result.changed
        assert texts(log)[:5] == ["read", "", "short", "done", "thanks"]
        assert sorted(texts(log)[5:]) == [f"late {number}" for number in range(10)]
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_a_compaction_that_was_planned_before_a_rewrite_does_not_lose_what_it_keeps(
        self, log: Any, entries: Any
    ) -> None:
        planned = log.new_entry("compaction", summary="s", firstKeptEntryId=entries[3]["id"])
        await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert not await log.append_compaction(planned)
        assert texts(log) == ["read", "", "short", "done", "thanks"]

    async def test_a_compaction_of_another_process_planned_before_a_rewrite_neither(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        other = await open_sessions().open(KEY)
        planned = other.new_entry("compaction", summary="s", firstKeptEntryId=entries[3]["id"])
        await rewrite_transcript_entries(log, [replacing(entries[2], "short")])
        assert not await other.append_compaction(planned)
        assert texts(other) == texts(log)

    async def test_a_rewrite_every_moment_loses_nothing_of_what_another_process_says(
        self, log: Any, entries: Any, open_sessions: Any
    ) -> None:
        other = await open_sessions().open(KEY)
        said = [f"said {number}" for number in range(30)]

        async def rewrite_again_and_again() -> list[bool]:
            changed = []
            for number in range(30):
                first = next(item for item in log.items() if item.message["role"] == "user")
                one: Any = {"entry_id": first.entry_id, "message": user(f"version {number}")}
                changed.append((await rewrite_transcript_entries(log, [one])).changed)
            return changed

        async def talk() -> None:
            for text in said:
                await other.append_messages([user(text)])

        changed, _ = await asyncio.gather(rewrite_again_and_again(), talk())
        assert any(changed)
        await log.refresh()
        assert texts(log)[5:] == said
        assert texts(log)[0].startswith("version")
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_a_transcript_of_version_2_is_copied_and_left_alone(
        self, files: Any, open_sessions: Any, log: Any
    ) -> None:
        """Design 7."""
        header = {**files.header, "id": log.session_id, "version": 2}
        path = files.write(*files.chain("m1", "m2"), header=header, session_id=log.session_id)
        before = path.read_bytes()
        old = await open_sessions().open(KEY)
        one: Any = {"entry_id": "m1", "message": user("new text")}
        none: Any = {"entry_id": "m9", "message": user("new text")}
        assert not (await rewrite_transcript_entries(old, [none])).changed
        assert old.file == path
        assert (await rewrite_transcript_entries(old, [one])).changed
        assert old.file != path
        assert path.read_bytes() == before
        assert texts(old) == ["new text", "text of m2"]
        assert texts(await open_sessions().open(KEY)) == texts(old)


@pytest.mark.parametrize("seed", range(6))
async def test_appends_branches_compactions_and_rewrites_in_any_order_agree_with_the_disk(
    log: Any, open_sessions: Any, seed: int
) -> None:
    """What a log knows is what a second one reads, and a rewrite changes the named messages of the context alone."""
    choose = random.Random(seed)
    tree = SessionTree(log)
    for number in range(40):
        whole = (await log.read_all()).branch()
        messages = [entry for entry in whole if entry["type"] == "message"]
        kind = choose.choice(["append"] * 4 + ["branch", "compact", "rewrite", "rewrite"])
        if kind == "append" or not messages:
            await log.append_messages([user(f"text {number}"), assistant(f"reply {number}")])
        elif kind == "branch":
            await tree.branch_to(choose.choice(messages[-8:])["id"])
        elif kind == "compact":
            kept = choose.choice(log.path)["id"]
            made = log.new_entry("compaction", summary=f"sum {number}", firstKeptEntryId=kept)
            assert await log.append_compaction(made)
        else:
            chosen = {one["id"]: f"new {number}" for one in choose.sample(messages, 1)}
            wanted: Any = [{"entry_id": key, "message": user(chosen[key])} for key in chosen]
            before = [(item.entry_id, text_of(item.message)) for item in log.items()]
            result = await rewrite_transcript_entries(log, wanted)
            assert result.changed
            assert [(item.entry_id, text_of(item.message)) for item in log.items()] == [
                (result.id_map.get(key, key), chosen.get(key, text)) for key, text in before
            ]
        again = await open_sessions().open(KEY)
        assert (again.path, again.leaf_id) == (log.path, log.leaf_id)
        assert again.items() == log.items() == context_items((await log.read_all()).branch())


# -- the law ----------------------------------------------------------------------------------

KINDS = st.sampled_from(
    ["message"] * 6 + ["compaction", "label", "custom", "custom_message", "branch_summary", "leaf"]
)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Any]:
    """Entries in file order, with branches, compactions that keep something or nothing, and links."""
    made: list[Any] = []
    for number in range(draw(st.integers(1, 25))):
        ids = [entry["id"] for entry in made if entry["type"] != "leaf"]
        anything = st.sampled_from([*ids, "nowhere", f"e{number}"])
        kind = draw(KINDS)
        entry: Any = {"type": kind, "id": f"e{number}", "timestamp": "2026-03-01T12:00:00.000Z"}
        if kind == "message":
            entry["message"] = {"role": draw(st.sampled_from(["user", "assistant"]))}
            entry["message"]["content"] = f"text {number}"
        elif kind == "compaction":
            entry |= {"summary": f"sum {number}", "firstKeptEntryId": draw(anything)}
        elif kind in {"label", "leaf"}:
            entry["targetId"] = draw(st.sampled_from([*ids, None]))
            entry |= {"label": "x"} if kind == "label" else {}
        elif kind == "branch_summary":
            entry |= {"summary": f"left {number}", "fromId": draw(anything)}
        else:
            entry |= {"customType": "crab.x", "content": f"note {number}", "data": number}
        made += linked([entry], leaf_after(made, None))
    return made


def whole_path(entries: list[Any]) -> tuple[Any, ...]:
    return without_repeats(path_to(leaf_after(entries, None), entries)[0])


def shown(entries: list[Any]) -> list[Any]:
    return context_items(whole_path(entries))


@settings(max_examples=400, deadline=None)
@given(made=transcripts(), data=st.data())
def test_after_a_rewrite_the_context_is_the_old_one_with_the_messages_replaced(
    made: list[Any], data: st.DataObject
) -> None:
    path = whole_path(made)
    ids = [entry["id"] for entry in path if entry["type"] == "message"]
    if not ids:
        return
    chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    wanted: Any = [
        {"entry_id": one, "message": {"role": "user", "content": f"new {one}"}} for one in chosen
    ]
    new_ids = (f"n{number}" for number in itertools.count())
    plan = plan_rewrite(path, wanted, new_id=lambda: next(new_ids))
    assert isinstance(plan, RewritePlan)
    leaf: Any = {"type": "leaf", "id": "moved", "targetId": plan.parent_id}
    after = [*made, *linked([leaf, *plan.entries], leaf_after(made, None))]
    id_map, messages = plan.result.id_map, {one["entry_id"]: one["message"] for one in wanted}
    assert [
        (item.entry_id, item.message, item.is_summary, item.is_synthetic) for item in shown(after)
    ] == [
        (
            id_map.get(item.entry_id, item.entry_id),
            messages.get(item.entry_id, item.message),
            item.is_summary,
            item.is_synthetic,
        )
        for item in shown(made)
    ]
    assert whole_path(after)[: -len(plan.entries)] == path[: -len(plan.entries)]
    assert plan.result.rewritten_entries == len(chosen)


@settings(max_examples=40, deadline=None)
@given(made=transcripts(), data=st.data())
def test_a_rewrite_on_disk_is_read_backwards_as_it_is_planned(
    made: list[Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The reader of a turn stops at what the last compaction kept; both readers must agree on the new branch."""
    from hermitcrab.sessions.reading import read_branch, read_transcript

    ids = [entry["id"] for entry in whole_path(made) if entry["type"] == "message"]
    if not ids:
        return
    one: Any = {"entry_id": data.draw(st.sampled_from(ids)), "message": user("new")}
    new_ids = (f"n{number}" for number in itertools.count())
    plan = plan_rewrite(whole_path(made), [one], new_id=lambda: next(new_ids))
    assert isinstance(plan, RewritePlan)
    leaf: Any = {"type": "leaf", "id": "moved", "targetId": plan.parent_id}
    after = [*made, *linked([leaf, *plan.entries], leaf_after(made, None))]
    header = {"type": "session", "version": 3, "id": "s1"}
    file = tmp_path_factory.mktemp("rewritten") / "s1.jsonl"
    file.write_bytes(b"".join(encode_line(each) for each in (header, *after)))
    assert context_items(read_branch(file).entries) == shown(after)
    assert read_transcript(file).branch() == whole_path(after)
