"""An engine of a third party that makes a long tool result short in the transcript (context 1.2, 1.4)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    MaintainResult,
    delegate_compaction,
)
from hermitcrab.errors import TranscriptError
from hermitcrab.messages import assistant, to_openai, user

MAIN = "agent:main:main"
SELECTED = {"plugins": {"slots": {"contextEngine": "tidy"}}}
MOST_CHARACTERS = 200


class Tidy(ContextEngine):
    """After each turn it shortens what tools returned at length; ``results`` is shared by all instances of a class."""

    info = ContextEngineInfo(id="tidy", name="Tidy")
    results: list
    offered: list
    tidied: asyncio.Event

    async def ingest(self, **_):
        return IngestResult(ingested=False)

    async def assemble(self, *, messages, **_):
        return AssembleResult(messages)

    async def compact(self, **params):
        return await delegate_compaction(**params)

    async def maintain(self, *, session_file, runtime_context, **_):
        rewrite = runtime_context.get("rewrite_transcript_entries")
        self.offered.append((runtime_context["reason"], rewrite is not None))
        if rewrite is None:
            return MaintainResult()
        result = await rewrite([*self.shortened(session_file)])
        self.results.append(result)
        self.tidied.set()
        return MaintainResult(
            changed=result.changed,
            bytes_freed=result.bytes_freed,
            rewritten_entries=result.rewritten_entries,
            reason=result.reason,
        )

    @staticmethod
    def shortened(session_file):
        for line in Path(session_file).read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            message = entry.get("message", {})
            if message.get("role") == "toolResult" and len(line) > MOST_CHARACTERS * 3:
                text = message["content"][0]["text"][:MOST_CHARACTERS]
                content = [{"type": "text", "text": f"{text} [shortened]"}]
                yield {"entry_id": entry["id"], "message": {**message, "content": content}}


class TidyLater(Tidy):
    info = ContextEngineInfo(id="tidy", name="Tidy", turn_maintenance_mode="background")


def shared():
    return {"results": [], "offered": [], "tidied": asyncio.Event()}


@pytest.fixture(params=[Tidy, TidyLater], ids=["foreground", "background"])
def engine(request):
    return type(request.param.__name__, (request.param,), shared())


@pytest.fixture
def open_tidy(open_host, crab, engine):
    @hookimpl
    def register_context_engines(registry):
        registry.register("tidy", engine)

    plugins = [("tidy", crab.plugin(register_context_engines))]
    return lambda model: open_host(model, config=SELECTED, plugins=plugins)


def notes_in(home):
    notes = "".join(f"{number}: the tide comes and goes\n" for number in range(100))
    (home / "workspace").mkdir(parents=True, exist_ok=True)
    (home / "workspace" / "notes.md").write_text(notes, encoding="utf-8")


def tool_texts(request):
    return [each["content"] for each in to_openai(request.messages) if each["role"] == "tool"]


async def test_the_next_turn_sees_the_short_result_and_the_file_keeps_the_long_one(
    open_tidy, crab, engine, home
):
    notes_in(home)
    model = crab.ScriptedModel(crab.calling("read", path="notes.md"), "Read.")
    async with open_tidy(model) as host:
        first = await host.send(MAIN, "Read the notes.")
        await tidied(engine)
        second = await host.send(MAIN, "And now?")
        session = await host.session(MAIN)
        stored = crab.stored_messages(session.file)
        await tidied(engine)
    assert first.degraded == second.degraded == ()
    assert "99: the tide" in tool_texts(model.requests[1])[0]
    [short] = tool_texts(model.requests[2])
    assert short.endswith("[shortened]")
    assert [each["content"] for each in to_openai(model.requests[2].messages)][-1] == "And now?"
    changed, again = engine.results
    assert (changed.changed, changed.rewritten_entries, again.changed) == (True, 1, False)
    assert changed.bytes_freed > 2_000
    assert sum("99: the tide" in json.dumps(message) for message in stored) == 1
    entries = [message["role"] for message in stored if message["role"] == "user"]
    assert entries == ["user", "user"]


async def test_the_rewrite_holds_after_a_restart_and_is_not_offered_before_a_turn(
    open_tidy, crab, engine, home
):
    notes_in(home)
    model = crab.ScriptedModel(crab.calling("read", path="notes.md"), "Read.")
    async with open_tidy(model) as host:
        await host.send(MAIN, "Read the notes.")
        counted = (await host.session(MAIN)).messages
    engine.offered.clear()
    later = crab.ScriptedModel()
    async with open_tidy(later) as host:
        before = (await host.session(MAIN)).messages
        await host.send(MAIN, "And now?")
    assert len(before) == len(counted)
    assert tool_texts(later.requests[0])[0].endswith("[shortened]")
    assert engine.offered == [("bootstrap", False), ("turn", True)]


async def test_a_compaction_after_a_rewrite_keeps_the_turns_of_the_new_branch(
    open_tidy, crab, engine, home
):
    notes_in(home)
    model = crab.ScriptedModel(crab.calling("read", path="notes.md"), "Read.", window=16_000)
    async with open_tidy(model) as host:
        await host.send(MAIN, "Read the notes.")
        await tidied(engine)
        session = await host.session(MAIN)
        for number in range(12):
            await session.append(user(f"Step {number}: " + "we look at the plan " * 500))
            await session.append(assistant("Noted."))
        await session.end_turn()
        reply = await host.send(MAIN, "Go on.")
        shown = (await host.session(MAIN)).messages
    assert reply.compactions[0].compacted
    assert ("compaction", True) in engine.offered
    assert "Step 11" in json.dumps(shown)
    assert "99: the tide" not in json.dumps(shown)


async def test_an_engine_is_not_blamed_for_a_disk_that_says_no(
    open_tidy, crab, engine, home, monkeypatch, caplog
):
    from hermitcrab.sessions.log import SessionLog

    async def full(self, make, **options):
        raise TranscriptError("the transcript cannot be written: No space left on device")

    notes_in(home)
    model = crab.ScriptedModel(crab.calling("read", path="notes.md"), "Read.")
    async with open_tidy(model) as host:
        with monkeypatch.context() as patch:
            patch.setattr(SessionLog, "append_decided", full)
            await host.send(MAIN, "Read the notes.")
            await tidied(engine)
        reply = await host.send(MAIN, "And now?")
        await tidied(engine)
    assert "No space left" in engine.results[0].reason
    assert "No space left" in caplog.text
    assert (reply.engine, reply.degraded) == ("tidy", ())
    assert engine.results[1].changed


async def test_one_can_branch_in_a_session_of_ones_own_loop(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        session = await host.session(MAIN)
        await session.append(user("one"))
        await session.append(assistant("two"))
        await session.end_turn()
        tree = await session.tree.tree()
        [branch] = tree.branches
        await session.tree.branch_with_summary(branch.tip["parentId"], "two was tried")
        await session.append(assistant("three"))
        await session.end_turn()
        shown = [message["role"] for message in session.messages]
        after = await session.tree.tree()
    assert shown == ["user", "user", "assistant"]
    assert [each.is_active for each in after.branches] == [False, True]


async def test_a_replacement_that_is_wrong_costs_no_reply(open_host, crab, caplog, home):
    class Clumsy(Tidy):
        results, offered, tidied = [], [], asyncio.Event()

        @staticmethod
        def shortened(session_file):
            yield {"entryId": "x", "message": {}}

    @hookimpl
    def register_context_engines(registry):
        registry.register("tidy", Clumsy)

    plugins = [("tidy", crab.plugin(register_context_engines))]
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        reply = await host.send(MAIN, "hello")
    assert reply.text == "ok"
    assert "a replacement needs `entry_id` and `message`" in caplog.text


async def tidied(engine):
    """Wait until the maintenance of a turn is through, in the background too."""
    await asyncio.wait_for(engine.tidied.wait(), timeout=20)
    engine.tidied.clear()
