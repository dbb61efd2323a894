"""When a session is compacted, by whom, and who hears of it (context 1.5, 6.2, 6.8, 6.9)."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl
from hermitcrab.agent import Notice, memory_sync
from hermitcrab.context import CompactionDetails, CompactResult, delegate_compaction
from hermitcrab.errors import CompactionError, ConfigError, ModelRequestError
from hermitcrab.hooks import CompactionDecision
from hermitcrab.memory import MemoryBackend, MemoryStatus, SyncReport
from hermitcrab.messages import assistant, text_of, tool_result, user

MAIN = "agent:main:main"


def settings(**compaction):
    return {"agents": {"defaults": {"compaction": compaction}}}


async def fill(host, turns=12, size=400):
    session = await host.session(MAIN)
    for number in range(turns):
        await session.append(user(f"Step {number}: " + "we look at the harbour plan " * size))
        await session.append(assistant(f"Step {number} is noted."))
    await session.end_turn()
    return session


async def entry_of(host):
    return (await host.open_session(MAIN)).log.entry


class TestOff:
    OFF = settings(enabled=False)

    async def test_what_does_not_fit_is_cut_in_the_view_and_nothing_is_compacted_or_flushed(
        self, open_host, crab
    ):
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model, config=self.OFF) as host:
            session = await fill(host)
            reply = await host.send(MAIN, "Go on.")
            kinds = {entry["type"] for entry in crab.entries_of(session.file)}
        assert (reply.text, reply.compactions, reply.flushes) == ("ok", (), ())
        assert model.purposes == ["turn"]
        assert "compaction" not in kinds

    async def test_what_cannot_be_cut_is_an_error_that_names_the_key(self, open_host, crab):
        model = crab.ScriptedModel(window=4_000)
        async with open_host(model, config=self.OFF) as host:
            session = await host.session(MAIN)
            for number in range(600):
                await session.append(user(f"Step {number} of the harbour plan, with the tide."))
                await session.append(assistant(f"Step {number} is noted and the tide is low."))
            await session.end_turn()
            with pytest.raises(CompactionError) as raised:
                await host.send(MAIN, "Go on.")
            assert raised.value.where == "agents.defaults.compaction.enabled"
            assert "/compact" in raised.value.hint
            assert "Compacted" in (await host.send(MAIN, "/compact")).text
            assert (await host.send(MAIN, "Go on.")).text == "ok"
        assert "flush" in model.purposes

    async def test_an_engine_that_delegates_by_itself_is_refused_too(
        self, open_host, crab, engine_of
    ):
        made, plugins, config = engine_of()
        asked = []
        model = crab.ScriptedModel()
        config = {**config, **self.OFF}
        async with open_host(model, config=config, plugins=plugins) as host:
            await fill(host)
            (engine,) = made
            assemble = engine.assemble

            async def delegating(**params):
                asked.append(await delegate_compaction(**params))
                return await assemble(**params)

            engine.assemble = delegating
            await host.send(MAIN, "Go on.")
        assert not asked[0].compacted
        assert "agents.defaults.compaction.enabled" in asked[0].reason


async def test_the_aggressive_mode_compacts_earlier_and_keeps_less(open_host, crab):
    """Issue 4, item 2: starts at four fifths of what is usable, keeps half as much."""
    kept = {}
    for mode in ("default", "aggressive"):
        model = crab.ScriptedModel(window=32_000)
        async with open_host(model, config=settings(mode=mode, memoryFlush=False)) as host:
            await host.reset(MAIN) if mode == "aggressive" else None
            await fill(host, turns=8, size=400)
            reply = await host.send(MAIN, "Go on.")
            statuses = [outcome.status for outcome in reply.compactions]
            kept[mode] = (statuses, len((await host.session(MAIN)).messages))
    assert kept["default"][0] == []
    assert kept["aggressive"][0] == ["compacted"]


class TestBytes:
    async def test_a_transcript_over_the_limit_is_compacted_whatever_its_tokens(
        self, open_host, crab
    ):
        config = settings(maxActiveTranscriptBytes="40kb", keepRecentTokens=1_000)
        async with open_host(crab.ScriptedModel(window=200_000), config=config) as host:
            await fill(host, turns=6)
            reply = await host.send(MAIN, "Go on.")
            assert [(o.status, o.trigger) for o in reply.compactions] == [("compacted", "bytes")]
            assert len(reply.flushes) == 1
            assert (await entry_of(host)).byte_latch is None
            assert (await host.send(MAIN, "And now?")).compactions == ()

    async def test_what_stays_over_the_limit_does_not_loop_and_the_latch_outlives_the_process(
        self, open_host, crab
    ):
        """P5: everything is recent, so that no compaction brings the bytes down."""
        config = settings(maxActiveTranscriptBytes="40kb", keepRecentTokens=150_000)
        model = crab.ScriptedModel(window=1_000_000)
        async with open_host(model, config=config) as host:
            await fill(host, turns=6)
            first = await host.send(MAIN, "Go on.")
            assert [o.status for o in first.compactions] == ["not_needed"]
            assert (await host.send(MAIN, "And now?")).compactions == ()
            latch = (await entry_of(host)).byte_latch
            assert latch["maxBytes"] == 40 * 1024 <= latch["activeBytes"]
        async with open_host(model, config=config) as host:
            assert (await host.send(MAIN, "Still there?")).compactions == ()
            await fill(host, turns=6)
            assert len((await host.send(MAIN, "Much more.")).compactions) == 1

    async def test_a_new_conversation_has_no_latch(self, open_host, crab):
        config = settings(maxActiveTranscriptBytes="40kb", keepRecentTokens=150_000)
        async with open_host(crab.ScriptedModel(window=1_000_000), config=config) as host:
            await fill(host, turns=6)
            await host.send(MAIN, "Go on.")
            await host.send(MAIN, "/new")
            assert (await entry_of(host)).byte_latch is None


class TestEngines:
    async def test_one_that_claims_a_compaction_and_reduced_nothing_is_not_believed(
        self, open_host, crab, engine_of
    ):
        """P10: the host compacts then, whoever owns compaction."""
        details = CompactionDetails(tokens_before=30_000, tokens_after=20, summary="short")
        claim = CompactResult(ok=True, compacted=True, result=details)
        for owns in (True, False):
            made, plugins, config = engine_of(claim, owns=owns)
            model = crab.ScriptedModel(window=16_000)
            async with open_host(model, config=config, plugins=plugins) as host:
                await host.reset(MAIN)
                session = await fill(host)
                reply = await host.send(MAIN, "Go on.")
                kinds = [entry["type"] for entry in crab.entries_of(session.file)]
                entry = await entry_of(host)
            assert len(made[-1].compactions) == 1
            assert [outcome.status for outcome in reply.compactions] == ["compacted"]
            assert reply.compactions[0].tokens_after != 20
            assert kinds.count("compaction") == entry.compaction_count == 1

    async def test_one_that_owns_compaction_and_never_compacts_cannot_block_a_session(
        self, open_host, crab, engine_of
    ):
        """P10"""
        _made, plugins, config = engine_of(CompactResult(ok=True, compacted=False), owns=True)
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model, config=config, plugins=plugins) as host:
            await fill(host)
            reply = await host.send(MAIN, "Go on.")
        assert reply.compactions[0].compacted

    async def test_one_that_owns_compaction_may_refuse_the_users_wish(
        self, open_host, crab, engine_of
    ):
        _made, plugins, config = engine_of(
            CompactResult(ok=True, compacted=False, reason="already under target"), owns=True
        )
        async with open_host(crab.ScriptedModel(), config=config, plugins=plugins) as host:
            await fill(host, turns=2)
            outcome = await host.compact(MAIN)
            status = (await host.send(MAIN, "/status")).text
            entry = await entry_of(host)
        assert (outcome.status, outcome.reason_class) == ("not_needed", "below_threshold")
        assert entry.last_compaction["reasonClass"] == "below_threshold"
        assert "already under target" in status

    async def test_what_one_did_by_itself_is_believed_and_counted(self, open_host, crab, engine_of):
        def forgets(engine):
            engine.shown = 1
            return CompactResult(ok=True, compacted=True)

        _made, plugins, config = engine_of(forgets, owns=True)
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model, config=config, plugins=plugins) as host:
            await fill(host)
            reply = await host.send(MAIN, "Go on.")
            assert (await entry_of(host)).compaction_count == 1
        assert reply.compactions[0].compacted
        assert "summarise" not in model.purposes


class TestOutcomes:
    async def test_the_real_request_fits_after_a_compaction_with_prompt_and_tools(
        self, open_host, crab, home
    ):
        """P3: what is left is measured with the system prompt, the tools and the message that waits."""
        (home / "workspace").mkdir(parents=True)
        (home / "workspace/AGENTS.md").write_text("The harbour has rules. " * 400)
        requests = []
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model) as host:
            await fill(host)
            context = await host.open_session(MAIN)
            assemble = context.assemble

            async def watched(**params):
                requests.append(await assemble(**params))
                return requests[-1]

            context.assemble = watched
            await host.send(MAIN, "Go on. " + "The tide is low. " * 400)
        (request,) = requests
        assert request.compactions[0].compacted
        assert request.request_tokens <= 16_000 - 4_000
        assert "harbour has rules" in request.system

    async def test_a_model_that_never_gets_smaller_costs_a_bounded_number_of_requests(
        self, open_host, crab
    ):
        """C27: one attempt, then a pause until the context has grown."""

        @hookimpl
        async def session_before_compact(event, ctx):
            return CompactionDecision(summary="long " * 60_000)

        echo = [("echo", crab.plugin(session_before_compact))]
        calls = [crab.calling("read", f"c{n}", path=f"{n}.md") for n in range(8)]
        model = crab.ScriptedModel(*calls, "Done.", window=16_000)
        async with open_host(model, plugins=echo) as host:
            session = await host.session(MAIN)
            call = {"id": "big", "name": "read", "arguments": {"path": "a.md"}}
            await session.append(user("hello"))
            await session.append(assistant("", tool_calls=[call]))
            await session.append(tool_result("big", "read", "all of the harbour " * 9_000))
            await session.append(user("word " * 8_000))
            await session.end_turn()
            reply = await host.send(MAIN, "Go on.")
        assert reply.text == "Done."
        assert len(reply.compactions) <= 3

    async def test_every_outcome_is_recorded_and_shown_and_told_to_plugins(self, open_host, crab):
        ends = []

        @hookimpl
        async def session_before_compact(event, ctx):
            return CompactionDecision(cancel=True, reason="not during the audit")

        @hookimpl
        def after_compaction(event, ctx):
            ends.append("after_compaction")

        @hookimpl
        def agent_end(event, ctx):
            ends.append([record["status"] for record in event.compactions])

        plugins = [("auditor", crab.plugin(session_before_compact, after_compaction, agent_end))]
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model, plugins=plugins) as host:
            await fill(host)
            reply = await host.send(MAIN, "Go on.")
            status = (await host.send(MAIN, "/status")).text
            entry = await entry_of(host)
        assert reply.text == "ok"
        assert [(o.status, o.reason_class) for o in reply.compactions] == [
            ("cancelled", "guard_blocked")
        ]
        assert entry.last_compaction["status"] == "cancelled"
        assert "cancelled, not during the audit" in status
        assert ["cancelled"] in ends
        assert "after_compaction" not in ends

    async def test_nothing_to_do_never_fails_a_turn(self, open_host, crab):
        """C29, and a failing preflight that does fit the window goes on."""
        model = crab.ScriptedModel(window=16_000)
        model.failing |= dict.fromkeys(("summarise", "merge"), ModelRequestError("refused"))
        async with open_host(model) as host:
            session = await host.session(MAIN)
            await session.append(user("word " * 30_000))
            await session.end_turn()
            reply = await host.send(MAIN, "Go on.")
        assert reply.text == "ok"
        assert {outcome.status for outcome in reply.compactions} <= {"not_needed", "compacted"}

    async def test_status_and_triggers_go_by_the_same_window(self, open_host, crab):
        """P20: a status of 32,000 beside a trigger that counts with another window."""
        async with open_host(crab.ScriptedModel(window=16_000)) as host:
            await fill(host)
            reply = await host.send(MAIN, "Go on.")
            status = (await host.send(MAIN, "/status")).text
        assert reply.compactions[0].compacted
        assert "of 16,000 tokens" in status


class TestAfterEffects:
    async def test_the_user_is_told_where_config_wants_it(self, open_host, crab):
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model, config=settings(notifyUser=True)) as host:
            await fill(host)
            events = [event async for event in host.stream(MAIN, "Go on.")]
        begun, ended = [event.text for event in events if isinstance(event, Notice)]
        assert "being summarised" in begun
        assert ended.startswith("Compacted")
        assert events[-1].notes == (ended,)

    async def test_by_default_nobody_is_told(self, open_host, crab):
        async with open_host(crab.ScriptedModel(window=16_000)) as host:
            await fill(host)
            events = [event async for event in host.stream(MAIN, "Go on.")]
        assert not [event for event in events if isinstance(event, Notice)]
        assert events[-1].notes == ()

    @pytest.mark.parametrize(
        ("mode", "order"),
        [
            ("off", ["asked", "turn"]),
            ("await", ["compaction", "asked", "turn"]),
        ],
    )
    async def test_the_memory_is_synced_as_config_says(self, open_host, crab, mode, order):
        seen = []
        async with self._host(open_host, crab, seen, mode) as host:
            await fill(host)
            await self._until(seen)
            seen.clear()
            await host.send(MAIN, "Go on.")
        assert seen == order

    async def test_by_default_it_is_synced_in_the_background(self, open_host, crab):
        seen = []
        async with self._host(open_host, crab, seen, "async") as host:
            await fill(host)
            await self._until(seen)
            seen.clear()
            await host.send(MAIN, "Go on.")
        assert sorted(seen) == ["asked", "compaction", "turn"]

    async def test_a_sync_that_hangs_does_not_hold_the_turn_for_ever(
        self, open_host, crab, monkeypatch
    ):
        """P7"""
        monkeypatch.setattr(memory_sync, "LONGEST_WAIT_S", 0.05)
        monkeypatch.setattr(memory_sync, "CLOSE_S", 0.05)
        async with self._host(open_host, crab, [], "await", hangs=True) as host:
            await fill(host)
            assert (await host.send(MAIN, "Go on.")).text == "ok"

    async def _until(self, seen):
        """Wait for the syncs that opening and filling have begun."""
        for _ in range(1_000):
            if {"session-start", "turn"} <= set(seen):
                return
            await asyncio.sleep(0.01)

    def _host(self, open_host, crab, seen, mode, hangs=False):
        class Memory(MemoryBackend):
            async def search(self, query, **options):
                raise NotImplementedError

            async def read(self, path, **options):
                raise NotImplementedError

            async def sync(self, reason, **options):
                seen.append(reason)
                if hangs and reason == "compaction":
                    await asyncio.Event().wait()
                return SyncReport(reason=reason)

            async def status(self):
                return MemoryStatus(backend="spy")

        @hookimpl
        def register_memory_backends(registry):
            registry.register("spy", Memory)

        def asked(request):
            seen.append("asked")
            return "ok"

        config = {**settings(postIndexSync=mode), "plugins": {"slots": {"memory": "spy"}}}
        plugins = [("spy", crab.plugin(register_memory_backends))]
        model = crab.ScriptedModel(asked, window=16_000)
        return open_host(model, config=config, plugins=plugins)

    async def test_chosen_sections_are_in_the_prompt_of_the_compacted_turn_once(
        self, open_host, crab, home
    ):
        (home / "workspace").mkdir(parents=True)
        rules = "## Startup\nNotes go to memory/YYYY-MM-DD.md.\n\n## Other\nNothing.\n"
        (home / "workspace/AGENTS.md").write_text(rules)
        model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), window=16_000)
        config = settings(postCompactionSections=["startup"])
        async with open_host(model, config=config) as host:
            await host.send(MAIN, "hello")
            await fill(host)
            model.script = [crab.calling("read", path="AGENTS.md")]
            reply = await host.send(MAIN, "Go on.")
            await host.send(MAIN, "And?")
        assert reply.compactions[0].compacted
        counts = [request.system.count("These rules of AGENTS.md") for request in model.requests]
        assert counts == [0, 0, 1, 1, 0]
        assert "memory/YYYY" not in model.requests[2].system.split("These rules of AGENTS.md")[1]


async def test_truncating_transcripts_is_refused_with_a_reason(open_host):
    with pytest.raises(ConfigError, match="never rewritten"):
        async with open_host(config=settings(truncateAfterCompaction=True)):
            pass


async def test_a_summariser_that_hangs_leaves_no_session_stuck(open_host, crab):
    """P7: in finite time there is a summary by rules, and the next turn runs."""

    class Hanging(crab.ScriptedModel):
        async def complete(self, request):
            if request.purpose in {"summarise", "merge"}:
                await asyncio.Event().wait()
            return await super().complete(request)

    config = settings(timeoutSeconds=0.05, memoryFlush=False)
    async with open_host(Hanging(window=16_000), config=config) as host:
        await fill(host)
        reply = await asyncio.wait_for(host.send(MAIN, "Go on."), timeout=60)
        assert reply.compactions[0].mode == "deterministic"
        assert (await host.send(MAIN, "And?")).text == "ok"


async def test_after_a_compaction_the_latest_ask_and_failed_tools_are_still_known(open_host, crab):
    """P17: an agent that has forgotten that an action failed, or was asked for, does it again."""
    model = crab.ScriptedModel(window=16_000)
    async with open_host(model) as host:
        session = await host.session(MAIN)
        call = {"id": "c1", "name": "deploy", "arguments": {"to": "harbour-7"}}
        await session.append(user("Deploy to harbour-7."))
        await session.append(assistant("", tool_calls=[call]))
        failed = "exit code 3: harbour-7 refuses the certificate"
        await session.append(tool_result("c1", "deploy", failed, is_error=True))
        await fill(host)
        reply = await host.send(MAIN, "What is the state?")
        context = (await host.session(MAIN)).messages
    assert reply.compactions[0].compacted
    assert "harbour-7" in text_of(context[0])
    assert "What is the state?" in text_of(context[-2])
