"""What users lost to transcripts, as they would see it: whole conversations, every later request, the way back."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    BootstrapResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    delegate_compaction,
)
from hermitcrab.messages import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.repair.mending import verify_transcript
from hermitcrab.sessions.transcript import JsonlTranscriptStore

MAIN = "agent:main:main"


def folder_of(home):
    return home / "agents" / "main" / "sessions"


def errors_in(file):
    found = verify_transcript(file, session_id=file.stem).findings
    return [finding.kind for finding in found if finding.is_error]


def texts(messages):
    return [text_of(message) for message in messages]


# -- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b'{"type":"session","id"\n', b"\xff\xfe\x00\n", b"\n", b""])
async def test_a_conversation_goes_on_behind_a_damaged_header(open_host, crab, header):
    """C1, #89037, #89065: one damaged line, and resuming put an empty transcript in place of the whole one."""
    async with open_host(crab.ScriptedModel("two")) as host:
        await host.send(MAIN, "one")
        file = (await host.session(MAIN)).file
    _, _, entries = file.read_bytes().partition(b"\n")
    file.write_bytes(header + entries)
    model = crab.ScriptedModel("four")
    async with open_host(model) as host:
        assert (await host.send(MAIN, "three")).text == "four"
        assert texts(model.requests[0].messages) == ["one", "two", "three"]
    assert file.read_bytes().startswith(header + entries)
    async with open_host(crab.ScriptedModel()) as host:
        assert texts((await host.session(MAIN)).messages) == ["one", "two", "three", "four"]


async def test_an_orphan_result_at_the_start_costs_no_later_request(open_host, crab, home):
    """C5, #15037: a result without its call made every request fail, and the credentials were blamed."""
    orphan = {"role": "toolResult", "toolCallId": "lost", "toolName": "ls", "content": "orphan"}
    header = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-01T12:00:00Z"}
    entries = [
        {"type": "message", "id": "a", "parentId": None, "message": orphan},
        {"type": "message", "id": "b", "parentId": "a", "message": user("one")},
    ]
    file = folder_of(home) / "s1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(each) + "\n" for each in (header, *entries)))
    table = SessionEntries(file.with_name("sessions.sqlite"))
    table.put(SessionEntry(key=MAIN, session_id="s1", updated_at=1, session_started_at=1))
    table.close()
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        for question in ("two", "three"):
            assert (await host.send(MAIN, question)).text == "ok"
    for request in model.requests:
        assert "toolResult" not in [message["role"] for message in request.messages]
        assert texts(request.messages)[0] == "one"
    assert crab.stored_messages(file)[0] == orphan
    found = verify_transcript(file, session_id="s1").findings
    assert "orphan-results" in [finding.kind for finding in found]


async def test_heavy_use_of_tools_leaves_a_transcript_that_can_be_read(open_host, crab):
    """#9021: sessions could not be read any more after many tool calls, until their file was moved away."""
    rounds = [
        assistant(
            f"step {number}",
            tool_calls=[
                {"id": f"call_{number}_{each}", "name": "measure", "arguments": {"n": each}}
                for each in range(3)
            ],
        )
        for number in range(15)
    ]

    @hookimpl
    def register_tools(registry):
        registry.register("measure", measure())

    plugins = [("gauge", crab.plugin(register_tools))]
    model = crab.ScriptedModel(*rounds, "done", window=200_000)
    async with open_host(model, plugins=plugins) as host:
        assert (await host.send(MAIN, "Measure everything.")).text == "done"
        session = await host.session(MAIN)
        file, shown = session.file, session.messages
    assert errors_in(file) == []
    roles = [message["role"] for message in crab.stored_messages(file)]
    assert roles == ["user", *["assistant", *["toolResult"] * 3] * 15, "assistant"]
    async with open_host(model, plugins=plugins) as host:
        assert (await host.session(MAIN)).messages == shown
        assert (await host.send(MAIN, "And again?")).text == "ok"


def measure():
    from hermitcrab.models import ToolSchema

    class Measure:
        schema = ToolSchema(name="measure", description="Measures.", parameters={"type": "object"})

        async def run(self, arguments, context):
            return "四" * 2_000 + str(arguments["n"])

    return Measure()


# -- writers ----------------------------------------------------------------------------------

BRANCHING = """
import asyncio, random, sys
from datetime import UTC, datetime
from pathlib import Path
from hermitcrab.messages import user
from hermitcrab.sessions.branching import SessionTree
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

async def main(folder, name, acts):
    chance = random.Random(name)
    sessions = Sessions(
        store=JsonlTranscriptStore(folder, lock_timeout_ms=60_000),
        entries=SessionEntries(folder / "sessions.sqlite"),
        clock=lambda: datetime.now(UTC),
        cwd="/work",
    )
    log = await sessions.open("agent:main:main")
    tree = SessionTree(log)
    for number in range(acts):
        act = chance.random()
        if act < 0.6 or not log.path:
            [entry] = await log.append_messages([user(f"{name} {number}")])
        elif act < 0.75:
            await tree.branch_to(chance.choice(log.path)["id"])
            continue
        elif act < 0.9:
            entry = await tree.branch_with_summary(chance.choice(log.path)["id"], "left")
        else:
            entry = log.new_entry(
                "compaction", summary="s", firstKeptEntryId=chance.choice(log.path)["id"]
            )
            if not await log.append_compaction(entry):
                continue
        print(entry["id"])
    await sessions.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


def test_processes_that_append_branch_and_compact_at_once_leave_one_sound_tree(tmp_path):
    """C11, C15, pi#8177: whoever moves the leaf does it in the file, so that nobody goes on from a stale one."""
    names = ("p", "q", "r")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BRANCHING, tmp_path, name, "60"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(names), outputs
    acknowledged = {entry_id for output, _ in outputs for entry_id in output.split()}
    table = SessionEntries(tmp_path / "sessions.sqlite")
    file = tmp_path / f"{table.get(MAIN).session_id}.jsonl"
    table.close()
    known, leaf = {None}, None
    kinds = set()
    for line in file.read_bytes().splitlines()[1:]:
        entry = json.loads(line)
        assert entry["id"] not in known
        assert entry["parentId"] == leaf
        assert entry.get("targetId") in known
        leaf = entry["targetId"] if entry["type"] == "leaf" else entry["id"]
        known.add(entry["id"])
        kinds.add(entry["type"])
    assert acknowledged <= known
    assert kinds >= {"message", "leaf", "branch_summary", "compaction"}
    assert errors_in(file) == []
    store = JsonlTranscriptStore(tmp_path)
    whole, end = store.read_all(file.stem), store.read_branch(file.stem)
    assert end.leaf_id == whole.leaf_id()
    assert whole.branch()[-len(end.entries) :] == end.entries


async def test_no_lock_is_held_while_a_summary_or_a_flush_is_written(open_host, crab):
    """#86801, #91358, C23: a long compaction held the lock, and all others gave up waiting."""
    held = {}

    class Looking(crab.ScriptedModel):
        async def complete(self, request):
            try:
                with exclusive(lock, purpose="a test", timeout_ms=2_000):
                    held[request.purpose] = False
            except Exception:
                held[request.purpose] = True
                raise
            return await super().complete(request)

    model = Looking(window=16_000)
    async with open_host(model) as host:
        session = await host.session(MAIN)
        lock = session.file.with_name(f"{session.file.name}.lock")
        for number in range(12):
            await session.append(user(f"Step {number}: " + "we look at the plan " * 500))
            await session.append(assistant("Noted."))
        await session.end_turn()
        reply = await host.send(MAIN, "Go on.")
    assert reply.compactions[0].compacted
    assert held.keys() >= {"turn", "flush", "summarise"}
    assert not any(held.values())


# -- engines ----------------------------------------------------------------------------------


async def test_an_engine_that_takes_in_messages_first_and_begins_late_misses_none(open_host, crab):
    """C18: what was taken in before the beginning froze the conversation for good."""
    calls = []

    class Diary(ContextEngine):
        info = ContextEngineInfo(id="diary", name="Diary")

        async def bootstrap(self, **_):
            calls.append("bootstrap")
            return BootstrapResult(bootstrapped=calls.count("bootstrap") > 1, reason="not yet")

        async def ingest(self, *, message, **_):
            calls.append(text_of(message))
            return IngestResult(ingested=True)

        async def assemble(self, *, messages, **_):
            return AssembleResult(messages)

        async def compact(self, **params):
            return await delegate_compaction(**params)

    @hookimpl
    def register_context_engines(registry):
        registry.register("diary", Diary)

    plugins = [("diary", crab.plugin(register_context_engines))]
    config = {"plugins": {"slots": {"contextEngine": "diary"}}}
    for number in range(3):
        async with open_host(crab.ScriptedModel(), config=config, plugins=plugins) as host:
            session = await host.session(MAIN)
            await session.append(user(f"own {number}"))
            await session.end_turn()
            await host.send(MAIN, f"asked {number}")
    wanted = [f"{how} {number}" for number in range(3) for how in ("own", "asked")]
    assert [call for call in calls if call in wanted] == wanted
    assert calls.count("ok") == 3
    assert calls.index("bootstrap") > calls.index("asked 0")
    assert calls.count("bootstrap") == 2


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ["agent:main:MAIN", "agent:Main:main", "main"])
async def test_a_stale_alias_among_the_entries_stops_nobody(open_host, crab, home, alias):
    """#120980: a row under an alias of the main key kept the program from starting."""
    async with open_host(crab.ScriptedModel("two")) as host:
        await host.send(MAIN, "one")
    table = SessionEntries(folder_of(home) / "sessions.sqlite")
    entry = SessionEntry(key=alias, session_id="stale", updated_at=1, session_started_at=1)
    table.put(entry)
    table.close()
    model = crab.ScriptedModel("four")
    async with open_host(model) as host:
        assert (await host.send(alias, "three")).text == "four"
        assert texts(model.requests[0].messages) == ["one", "two", "three"]
