from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from hermitcrab.compaction import SummaryWish, asking
from hermitcrab.compaction.structure import ASKS, HEADINGS, has_all_headings, split_sections
from hermitcrab.errors import ModelOverflowError, ModelRequestError, ModelUnavailableError
from hermitcrab.hooks import (
    AfterCompaction,
    BeforeCompaction,
    CompactionDecision,
    SessionBeforeCompact,
)
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.identifiers import missing_identifiers
from hermitcrab.messages.pairing import find_faults
from hermitcrab.messages.text import text_of
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_RETRY_MINIMUM_S", 0.0)
    monkeypatch.setattr(asking, "_RETRY_MAXIMUM_S", 0.0)


@pytest.fixture
async def full(bench: Any, work: Any) -> Any:
    """A session of 25 turns."""
    await bench.log.append_messages(work(25))
    return bench


def assert_stored_well(bench: Any, outcome: Any, window: int = 8_000) -> None:
    """What every compaction promises, whatever the model did."""
    assert outcome.status == "compacted"
    budget = bench.budget(window)
    entry = bench.compaction_entry()
    summary = entry["summary"]
    assert outcome.summary == summary
    assert has_all_headings(summary)
    assert bench.counter.text(summary) == outcome.summary_tokens <= budget.summary
    assert len(summary) <= 16_000
    assert outcome.tokens_after < outcome.tokens_before
    assert outcome.tokens_after <= budget.usable
    assert outcome.identifiers_kept == outcome.identifiers_required > 0
    details = entry["details"]
    assert details["identifiersRequired"] == outcome.identifiers_required
    assert details["messagesSummarized"] == outcome.messages_summarized > 0
    assert details["mode"] == outcome.mode
    assert entry["tokensBefore"] == outcome.tokens_before
    assert entry["tokensAfter"] == outcome.tokens_after
    assert entry["firstKeptEntryId"] == outcome.first_kept_entry_id
    items = bench.log.items()
    assert items[0].is_summary
    assert summary in text_of(items[0].message)
    assert items[1].entry_id == outcome.first_kept_entry_id
    faults = find_faults([item.message for item in items])
    assert (faults.orphan_results, faults.missing_results) == (0, 0)


@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
async def test_a_compaction_replaces_old_messages_by_a_summary(
    full: Any, scripted: Any, notes: str, window: int
) -> None:
    await full.log.append_messages(
        [user(f"and /srv/{n}/a.txt? " + "word " * 400) for n in range(30)]
    )
    outcome = await full.compact(scripted(notes), window=window)
    assert_stored_well(full, outcome, window)
    assert outcome.mode == "model"
    assert "The port is 8443." in outcome.summary
    assert outcome.trigger == "manual"
    assert outcome.duration_ms >= 0


async def test_the_offline_model_compacts_too(full: Any) -> None:
    outcome = await full.compact(OfflineModel())
    assert_stored_well(full, outcome)
    assert "We decided to use port" in outcome.summary


async def test_nothing_before_a_compaction_is_touched(full: Any, scripted: Any) -> None:
    before = full.log.file.read_bytes()
    kept = [item.message for item in full.log.items()]
    outcome = await full.compact(scripted())
    after = full.log.file.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == before.count(b"\n") + 1
    tail = [item.message for item in full.log.items()[1:]]
    assert tail == kept[-len(tail) :]
    assert len(kept) == len(tail) + outcome.messages_summarized


async def test_the_session_entry_counts_compactions(full: Any, scripted: Any) -> None:
    outcome = await full.compact(scripted())
    entry = full.log.entry
    assert entry.compaction_count == 1
    assert entry.context_tokens == outcome.tokens_after
    assert entry.last_compaction["status"] == "compacted"
    assert "summary" not in entry.last_compaction


async def test_a_reopened_session_sees_the_same_context(full: Any, scripted: Any) -> None:
    await full.compact(scripted())
    again = Sessions(
        store=JsonlTranscriptStore(full.folder / "sessions"),
        entries=SessionEntries(full.folder / "sessions.sqlite"),
        clock=lambda: datetime.now(UTC),
        cwd="/",
    )
    reopened = await again.open("agent:main:main")
    assert [i.message for i in reopened.items()] == [i.message for i in full.log.items()]
    assert reopened.entry.compaction_count == 1
    await again.close()


async def test_compacting_twice_in_a_row_does_nothing_the_second_time(
    full: Any, scripted: Any
) -> None:
    first = scripted()
    await full.compact(first)
    size = full.log.file.stat().st_size
    second = scripted()
    outcome = await full.compact(second)
    assert outcome.status == "not_needed"
    assert outcome.benign
    assert second.requests == []
    assert full.log.file.stat().st_size == size
    assert full.log.entry.last_compaction["status"] == "not_needed"


async def test_a_short_conversation_costs_no_model_call(
    bench: Any, scripted: Any, work: Any
) -> None:
    """C29: attempts were spent on compactions that removed nothing."""
    await bench.log.append_messages(work(1)[:3])
    model = scripted()
    outcome = await bench.compact(model, must_fit=True)
    assert outcome.status == "not_needed"
    assert (model.requests, bench.events) == ([], [])


async def test_an_empty_session_needs_no_compaction(bench: Any, scripted: Any) -> None:
    assert (await bench.compact(scripted())).status == "not_needed"


async def test_a_second_compaction_updates_the_summary_of_the_first(
    full: Any, scripted: Any, work: Any, notes: str
) -> None:
    await full.compact(
        scripted("## Decisions\n- Only the first knew it.\n## Exact identifiers\n- PROJ-77")
    )
    await full.log.append_messages(work(25))
    model = scripted(notes)
    outcome = await full.compact(model)
    assert outcome.status == "compacted"
    assert "- Only the first knew it." in "\n".join(model.texts)
    assert not any("Earlier messages of this conversation were compacted" in t for t in model.texts)
    assert missing_identifiers(outcome.summary, ["PROJ-77"]) == []
    assert full.log.entry.compaction_count == 2
    assert len([item for item in full.log.items() if item.is_summary]) == 1


async def test_a_split_turn_is_summarised_apart_and_its_ask_stays(
    bench: Any, scripted: Any
) -> None:
    turn: list[Any] = [user("Older question. " * 30), assistant("Older answer. " * 30)]
    turn.append(user("Migrate /srv/app/db.sqlite to the new schema, please."))
    for number in range(12):
        call: Any = {"id": f"c{number}", "name": "run", "arguments": {"step": number}}
        turn += [assistant("", tool_calls=[call]), tool_result(f"c{number}", "run", "ok " * 700)]
    await bench.log.append_messages(turn)
    main, prefix = "## Decisions\n- Old things.", "## Decisions\n- Step 3 is done."
    model = scripted(lambda request: main if "Older question" in str(request.messages) else prefix)
    outcome = await bench.compact(model)
    assert_stored_well(bench, outcome)
    assert split_sections(outcome.summary)[ASKS].startswith("- Migrate /srv/app/db.sqlite")
    assert "- Old things." in outcome.summary
    assert "**Turn Context (split turn):**\n### Decisions\n- Step 3 is done." in outcome.summary


async def test_the_focus_reaches_the_model(full: Any, scripted: Any) -> None:
    model = scripted()
    await full.compact(model, focus="the login")
    assert all("Additional focus: the login" in text for text in model.texts)


async def test_the_focus_of_the_configuration_is_the_default(
    full: Any, scripted: Any, settings: Any
) -> None:
    full.settings = settings(custom_instructions="the database")
    model = scripted()
    await full.compact(model)
    assert "Additional focus: the database" in model.texts[0]


HOSTILE = {
    "empty": "",
    "blank": " \n ",
    "too long": "words and words\n" * 20_000,
    "one long word": "x" * 200_000,
    "drops identifiers": "\n".join(HEADINGS),
    "invents": "## Exact identifiers\n" + "\n".join(f"- /opt/lie/{n}.txt" for n in range(3_000)),
    "ignores the format": "Sure! Here is a summary of what we did.",
    "repeats the headings": ("\n".join(HEADINGS) + "\n") * 50,
    "reverses the headings": "\n- x\n".join(reversed(HEADINGS)),
    "raises": ModelUnavailableError("gone"),
    "raises something else": RuntimeError("boom"),
    "overflows": ModelOverflowError("too long"),
    "hangs": None,
}


@pytest.mark.parametrize("must_fit", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
async def test_no_model_can_lose_identifiers_or_break_the_shape(
    full: Any, scripted: Any, name: str, must_fit: bool
) -> None:
    """C38, C52, C56, notes 7: identifier survival is 1.0, the size is within the budget on the stored text."""
    full.timeout_s = 0.25 if name == "hangs" else 20.0
    model = scripted(HOSTILE[name])
    outcome = await full.compact(model, must_fit=must_fit)
    if outcome.status == "failed":
        assert not must_fit
        assert outcome.reason
        assert full.kinds().count("compaction") == 0
        outcome = await full.compact(model, must_fit=False)
    assert_stored_well(full, outcome)


async def test_a_model_that_fails_midway_leaves_a_partial_summary_with_a_note(
    full: Any, scripted: Any
) -> None:
    """C39: nothing is half written."""
    bad = ModelRequestError("bad")

    def answer(request: Any) -> Any:
        return bad if "Please look at module 9." in str(request.messages) else "- The first half."

    outcome = await full.compact(scripted(answer), window=4_000)
    assert_stored_well(full, outcome, 4_000)
    assert outcome.mode == "partial"
    assert "- The first half." in outcome.summary
    assert "messages could not be summarised.]" in outcome.summary


async def test_where_the_context_must_fit_rules_replace_a_failing_model(
    full: Any, scripted: Any
) -> None:
    """P14: a session can never be stuck."""
    outcome = await full.compact(scripted(ModelUnavailableError("gone")), must_fit=True)
    assert_stored_well(full, outcome)
    assert outcome.mode == "deterministic"
    count = outcome.messages_summarized
    assert f"Written by rules alone: {count} messages, 0 of them too large." in outcome.summary


async def test_even_without_the_offline_model_the_last_summary_survives(
    full: Any, scripted: Any, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P14"""
    await full.compact(scripted("## Decisions\n- Only the first knew it."))
    await full.log.append_messages(work(25))
    broken = scripted(RuntimeError("boom"))
    monkeypatch.setattr(OfflineModel, "complete", broken.complete)
    outcome = await full.compact(broken, must_fit=True)
    assert_stored_well(full, outcome)
    assert outcome.mode == "deterministic"
    assert "- Only the first knew it." in outcome.summary


async def test_the_first_rejection_keeps_the_history_and_the_second_writes_by_rules(
    full: Any, scripted: Any
) -> None:
    before = full.log.file.read_bytes()
    first = await full.compact(scripted(""))
    assert (first.status, first.summary) == ("failed", None)
    assert "no summary text" in first.reason
    assert full.log.file.read_bytes() == before
    assert full.log.entry.rejected_summaries == 1
    second = await full.compact(scripted(""))
    assert_stored_well(full, second)
    assert second.mode == "deterministic"
    assert full.log.entry.rejected_summaries == 0


async def test_a_compaction_that_saves_nothing_is_no_progress_and_writes_nothing(
    bench: Any, scripted: Any
) -> None:
    """C27, C28"""
    await bench.log.append_messages([user("hi"), assistant("word " * 1_900)])
    before = bench.log.file.read_bytes()
    long = scripted("## Decisions\n" + "- word\n" * 300)
    rejected = await bench.compact(long)
    assert rejected.status == "failed"
    assert rejected.reason == "the summary is not smaller than what it replaces"
    outcome = await bench.compact(long, must_fit=True)
    assert outcome.status == "no_progress"
    assert not outcome.benign
    assert bench.log.file.read_bytes() == before
    assert bench.log.entry.compaction_count == 0
    assert bench.log.entry.last_compaction["status"] == "no_progress"


async def test_a_plugin_can_cancel(full: Any, scripted: Any) -> None:
    before = full.log.file.read_bytes()
    full.decision = CompactionDecision(cancel=True, reason="not now")
    model = scripted()
    outcome = await full.compact(model, must_fit=True)
    assert (outcome.status, outcome.reason) == ("cancelled", "not now")
    assert model.requests == []
    assert full.log.file.read_bytes() == before


async def test_the_summary_of_a_plugin_is_brought_into_shape_and_used(
    full: Any, scripted: Any
) -> None:
    full.decision = CompactionDecision(summary="What a plugin wrote.", details={"audit": "passed"})
    model = scripted()
    outcome = await full.compact(model)
    assert_stored_well(full, outcome)
    assert outcome.mode == "plugin"
    assert model.requests == []
    assert "What a plugin wrote." in outcome.summary
    assert full.compaction_entry()["details"]["audit"] == "passed"


async def test_what_a_plugin_rejects_is_kept_and_the_second_time_written_by_rules(
    full: Any, scripted: Any
) -> None:
    """P14: an audit can neither lose history nor block the session."""
    before = full.log.file.read_bytes()
    full.decision = CompactionDecision(rejected="no heading at all")
    model = scripted()
    first = await full.compact(model)
    assert (first.status, first.reason) == ("failed", "no heading at all")
    assert full.log.file.read_bytes() == before
    assert full.log.entry.rejected_summaries == 1
    second = await full.compact(model)
    assert_stored_well(full, second)
    assert (second.mode, second.reason) == (
        "deterministic",
        "written by rules: no heading at all",
    )
    assert model.requests == []


async def test_where_the_context_must_fit_what_a_plugin_rejects_is_written_by_rules_at_once(
    full: Any, scripted: Any
) -> None:
    full.decision = CompactionDecision(rejected="no heading at all")
    outcome = await full.compact(scripted(), must_fit=True)
    assert_stored_well(full, outcome)
    assert outcome.mode == "deterministic"


async def test_a_summary_of_a_plugin_that_saves_nothing_is_rejected_too(
    bench: Any, scripted: Any
) -> None:
    """C28"""
    await bench.log.append_messages([user("hi"), assistant("word " * 1_900)])
    bench.decision = CompactionDecision(summary="## Decisions\n" + "- word\n" * 300)
    outcome = await bench.compact(scripted())
    assert outcome.status == "failed"
    assert outcome.reason == "the summary is not smaller than what it replaces"
    assert bench.log.entry.rejected_summaries == 1


async def test_the_writer_that_a_plugin_gets_stores_exactly_what_it_showed(
    full: Any, scripted: Any, notes: str
) -> None:
    """C56: the audit sees the final text."""
    shown: list[Any] = []

    async def on_event(event: Any) -> None:
        if not isinstance(event, SessionBeforeCompact):
            return
        writer = event.writer
        draft = await writer.write(
            SummaryWish(
                messages=event.messages,
                turn_prefix=event.turn_prefix_messages,
                previous_summary=event.previous_summary,
                feedback=["missing_section:## Decisions"],
            )
        )
        assert draft.answer == notes
        shown.append(writer.finish(attrs.evolve(draft, tail="## More\nThe end.")))
        assert writer.finish(writer.without_model()).mode == "deterministic"
        lies = writer.invented_identifiers("- /opt/lie/a.txt\n- /srv/app/module_1/settings.toml")
        assert lies == ["/opt/lie/a.txt"]
        full.decision = CompactionDecision(summary=shown[0].text, details={"audit": "passed"})

    full.on_event = on_event
    model = scripted(notes)
    outcome = await full.compact(model)
    assert_stored_well(full, outcome)
    assert outcome.summary == shown[0].text
    assert outcome.summary.endswith("\n\n## More\nThe end.")
    assert outcome.mode == "model"
    assert full.compaction_entry()["details"]["audit"] == "passed"
    assert "missing_section:## Decisions" in model.texts[0]


async def test_the_operators_own_words_on_identifiers_replace_the_rule(
    full: Any, scripted: Any, settings: Any
) -> None:
    full.settings = settings(
        identifier_policy="custom", identifier_instructions="Keep ticket numbers only."
    )
    model = scripted()
    outcome = await full.compact(model)
    assert outcome.status == "compacted"
    assert outcome.identifiers_required == 0
    assert "Keep ticket numbers only." in model.texts[0]
    assert full.compaction_entry()["details"]["identifiers"]


async def test_a_custom_policy_without_words_is_the_strict_one(
    full: Any, scripted: Any, settings: Any
) -> None:
    full.settings = settings(identifier_policy="custom", identifier_instructions=" ")
    assert_stored_well(full, await full.compact(scripted()))


@pytest.mark.parametrize("blank", ["", "  \n "])
async def test_a_blank_focus_counts_as_none(
    full: Any, scripted: Any, settings: Any, blank: str
) -> None:
    full.settings = settings(custom_instructions="the database")
    model = scripted()
    await full.compact(model, focus=blank)
    assert "Additional focus: the database" in model.texts[0]


async def test_plugins_hear_of_it_before_and_after(full: Any, scripted: Any) -> None:
    outcome = await full.compact(scripted(), focus="the login")
    before, ask, after = full.events
    assert isinstance(before, BeforeCompaction)
    assert before.compacting_count == outcome.messages_summarized
    assert before.token_count == outcome.tokens_before
    assert isinstance(ask, SessionBeforeCompact)
    assert len(ask.messages) + len(ask.turn_prefix_messages) == outcome.messages_summarized
    assert ask.custom_instructions == "the login"
    assert (ask.reason, ask.context_window) == ("manual", 8_000)
    assert isinstance(after, AfterCompaction)
    assert after.token_count == outcome.tokens_after
    assert after.message_count == len(full.log.items())


async def test_a_compaction_is_dropped_if_another_process_was_faster(
    full: Any, scripted: Any
) -> None:
    """P13: two compactors on one session compacted twice."""
    other = Sessions(
        store=JsonlTranscriptStore(full.folder / "sessions"),
        entries=SessionEntries(full.folder / "sessions.sqlite"),
        clock=lambda: datetime.now(UTC),
        cwd="/",
    )
    rival = await other.open("agent:main:main")

    async def compact_elsewhere(event: Any) -> None:
        if isinstance(event, SessionBeforeCompact):
            entry = rival.new_entry(
                "compaction",
                summary="from elsewhere",
                firstKeptEntryId=event.first_kept_entry_id,
                tokensBefore=1,
            )
            assert await rival.append_compaction(entry)

    full.on_event = compact_elsewhere
    outcome = await full.compact(scripted())
    await other.close()
    assert outcome.status == "not_needed"
    assert "another process" in outcome.reason
    assert full.compaction_entry()["summary"] == "from elsewhere"
    assert full.log.entry.compaction_count == 0


async def test_messages_that_arrive_meanwhile_are_kept(full: Any, scripted: Any) -> None:
    """P8: the summary is written without the lock."""

    async def say_something(event: Any) -> None:
        if isinstance(event, SessionBeforeCompact):
            await full.log.append_messages([user("And one more thing.")])

    full.on_event = say_something
    outcome = await full.compact(scripted())
    assert outcome.status == "compacted"
    assert text_of(full.log.items()[-1].message) == "And one more thing."


async def test_cancelling_writes_nothing(full: Any, scripted: Any) -> None:
    before = full.log.file.read_bytes()
    asked = asyncio.Event()
    model = scripted(lambda request: asked.set())
    task = asyncio.create_task(full.compact(model, must_fit=True))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.cancelled == 1
    assert full.log.file.read_bytes() == before
    assert full.log.entry.compaction_count == 0


async def test_what_the_flush_of_this_cycle_has_not_seen_is_not_removed(
    full: Any, scripted: Any, work: Any
) -> None:
    seen = full.log.items()[19].entry_id
    await full.log.update_entry(flushed_cycle=0, flushed_entry_id=seen)
    outcome = await full.compact(scripted())
    assert outcome.status == "compacted"
    assert outcome.messages_summarized == 20


async def test_a_flush_of_an_earlier_cycle_holds_nothing_back(full: Any, scripted: Any) -> None:
    seen = full.log.items()[3].entry_id
    await full.log.update_entry(flushed_cycle=0, flushed_entry_id=seen, compaction_count=1)
    assert (await full.compact(scripted())).messages_summarized > 20


async def test_identifiers_beyond_the_required_ones_are_kept_beside_the_text(
    full: Any, scripted: Any
) -> None:
    outcome = await full.compact(scripted())
    others = full.compaction_entry()["details"]["identifiers"]
    assert "/srv/app/module_0/settings.toml" in others
    assert missing_identifiers(outcome.summary, others) != []


async def test_identifiers_of_a_large_window_leave_room_for_the_summary(
    bench: Any, scripted: Any, notes: str
) -> None:
    """A quarter of 35,800 tokens is more than the 16,000 characters that a summary may have."""
    paths = [f"/srv/deployments/cluster_{number}/settings.toml" for number in range(400)]
    await bench.log.append_messages([user(path) for path in paths[:300]])
    results = [user(" ".join(paths[n : n + 40])) for n in range(0, 400, 40)]
    long = [user("word " * 20_000), assistant("noted"), user("go on")]
    await bench.log.append_messages([*results, *long])
    body = notes.replace("- Write the tests.", "- Write the tests.\n" * 300)
    outcome = await bench.compact(scripted(body), window=200_000)
    assert_stored_well(bench, outcome, 200_000)
    assert 50 < outcome.identifiers_required < 100
    assert outcome.summary.count("- Write the tests.") == 300


async def test_without_a_policy_no_identifier_is_demanded(
    full: Any, scripted: Any, settings: Any, notes: str
) -> None:
    full.settings = settings(identifier_policy="off")
    model = scripted(notes)
    outcome = await full.compact(model)
    assert (outcome.identifiers_required, outcome.identifiers_kept) == (0, 0)
    assert notes.splitlines()[-1] in outcome.summary
    assert "/srv/app/module_0/settings.toml" in full.compaction_entry()["details"]["identifiers"]
    assert "Copy every identifier" not in model.texts[0]


async def test_credentials_are_neither_demanded_nor_stored(
    bench: Any, scripted: Any, work: Any
) -> None:
    """C54"""
    secret = "sk-abcdefghijklmnop1234567890"
    messages = work(25)
    messages[-8] = user(f"the key is {secret}, use it in main.py")
    await bench.log.append_messages(messages)
    await bench.compact(scripted(f"## Decisions\n- Use {secret}."))
    entry = str(bench.compaction_entry())
    assert secret not in entry
    assert "[redacted credential]" in entry


async def test_credentials_are_kept_where_the_operator_wants_it(
    full: Any, scripted: Any, settings: Any
) -> None:
    secret = "sk-abcdefghijklmnop1234567890"
    full.settings = settings(keep_credentials=True)
    outcome = await full.compact(scripted(f"## Decisions\n- Use {secret}."))
    assert secret in outcome.summary


async def test_files_that_were_read_and_changed_are_remembered_for_good(
    bench: Any, scripted: Any, work: Any
) -> None:
    """C55: files changed are forgotten; the lists grow over compactions."""
    calls: list[Any] = [
        {"id": "w", "name": "write", "arguments": {"path": "a.py", "content": ""}},
        {"id": "e", "name": "edit", "arguments": {"file_path": "b.py"}},
        {"id": "o", "name": "edit", "arguments": {"path": "c.py", "edits": []}},
        {"id": "r", "name": "read", "arguments": {"path": "a.py"}},
    ]
    results = [tool_result(call["id"], call["name"], "ok") for call in calls]
    await bench.log.append_messages(
        [user("go"), assistant("", tool_calls=calls), *results, *work(25)]
    )
    await bench.compact(scripted())
    details = bench.compaction_entry()["details"]
    assert details["modifiedFiles"] == ["a.py", "b.py", "c.py"]
    assert "/srv/app/module_0/settings.toml" in details["readFiles"]
    assert "a.py" not in details["readFiles"]
    await bench.log.append_messages(work(25))
    await bench.compact(scripted())
    again = bench.log.path[-1]["details"]
    assert again["modifiedFiles"] == ["a.py", "b.py", "c.py"]


@pytest.mark.parametrize(
    "details", [None, [], "x", {"readFiles": "a.py", "modifiedFiles": [1, None]}]
)
async def test_details_of_foreign_compactions_are_no_obstacle(
    full: Any, scripted: Any, work: Any, details: Any
) -> None:
    first = full.log.items()[8].entry_id
    entry = full.log.new_entry(
        "compaction", summary="", firstKeptEntryId=first, tokensBefore=1, details=details
    )
    await full.log.append_compaction(entry)
    await full.log.append_messages(work(20))
    assert (await full.compact(scripted())).status == "compacted"


async def test_messages_of_other_roles_are_summarised_too(bench: Any, scripted: Any) -> None:
    """Foreign transcripts hold commands and custom messages; both begin a turn."""
    for number in range(20):
        await bench.log.append_messages(
            [
                {"role": "bashExecution", "command": f"make {number}", "output": "ok\n" * 200},
                {"role": "custom", "customType": "note", "content": f"note /srv/n/{number}.txt"},
                assistant("Seen. " * 50),
            ]
        )
    model = scripted()
    outcome = await bench.compact(model)
    assert_stored_well(bench, outcome)
    assert "$ make 0" in "\n".join(model.texts)


async def test_the_record_of_an_outcome_is_json_in_camel_case(full: Any, scripted: Any) -> None:
    record = (await full.compact(scripted())).record()
    assert record["status"] == "compacted"
    assert record["identifiersKept"] == record["identifiersRequired"]
    assert "summary" not in record
    assert all(name.isalnum() for name in record)


async def test_a_thousand_messages_are_compacted_within_a_bounded_number_of_requests(
    bench: Any, scripted: Any, work: Any, notes: str
) -> None:
    """C31: one request per chunk and one merge, none of them larger than the window."""
    await bench.log.append_messages(work(250, words=200))
    model = scripted(notes)
    outcome = await bench.compact(model, must_fit=True)
    assert_stored_well(bench, outcome)
    sizes = [
        bench.counter.text(r.system) + bench.counter.messages(r.messages) + r.max_tokens
        for r in model.requests
    ]
    assert max(sizes) <= 8_000
    total = sum(map(bench.counter.message, (i.message for i in bench.log.items())))
    assert total <= bench.budget().usable
    assert len(model.requests) <= 150


async def test_a_request_that_was_delivered_twice_is_summarised_once(
    bench: Any, work: Any, scripted: Any
) -> None:
    """Context 6.7"""
    ask = "Please restart the staging server."
    twice = [user(ask, timestamp=1_000), user(ask, timestamp=2_000)]
    await bench.log.append_messages([*work(1), *twice, assistant("On it."), *work(12)])
    model = scripted()
    assert (await bench.compact(model)).compacted
    assert sum(text.count(ask) for text in model.texts) == 1
    (event,) = [event for event in bench.events if event.hook == "session_before_compact"]
    assert sum(message["content"] == twice[0]["content"] for message in event.messages) == 1
    assert sum(item.message in twice for item in bench.log.items()) == 0
