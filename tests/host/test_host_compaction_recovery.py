"""Going on after a request that was too large, or that the model did not answer in time (context 6.5)."""

from __future__ import annotations

import pytest

from hermitcrab.errors import ModelOverflowError, ModelTimeoutError, ModelUnavailableError
from hermitcrab.messages import assistant, text_of, tool_result, user

MAIN = "agent:main:main"
OVERFLOW = ModelOverflowError("prompt is too long", observed_tokens=41_000)
TIMEOUT = ModelTimeoutError("nothing came within 120 s")
OFF = {"agents": {"defaults": {"compaction": {"enabled": False}}}}


async def fill(host, turns=12, size=200):
    """A conversation of about ``turns * size * 6`` tokens."""
    session = await host.session(MAIN)
    for number in range(turns):
        await session.append(user(f"Step {number}: " + "we look at the harbour plan " * size))
        await session.append(assistant(f"Step {number} is noted."))
    await session.end_turn()
    return session


def asked(messages, text):
    return sum(message["role"] == "user" and text in text_of(message) for message in messages)


class TestOverflow:
    async def test_the_users_message_is_in_the_transcript_and_in_each_request_once(
        self, open_host, crab
    ):
        """P17, C14: after recovery, the turn goes on from the transcript."""
        model = crab.ScriptedModel(OVERFLOW, OVERFLOW, "It fits now.")
        async with open_host(model) as host:
            session = await fill(host)
            reply = await host.send(MAIN, "Where were we?")
            stored = crab.stored_messages(session.file)
        assert reply.text == "It fits now."
        assert asked(stored, "Where were we?") == 1
        assert [asked(r.messages, "Where were we?") for r in model.requests] == [1, 1, 1]

    async def test_recovery_is_bounded_and_ends_with_words_that_help(self, open_host, crab):
        """P3: bounded attempts; the session stays as it is and can be used."""
        model = crab.ScriptedModel(*[OVERFLOW] * 30)
        async with open_host(model) as host:
            session = await fill(host)
            with pytest.raises(ModelOverflowError) as raised:
                await host.send(MAIN, "Where were we?")
            assert len(model.requests) <= 5
            model.script.clear()
            assert (await host.send(MAIN, "hello")).text == "ok"
            assert crab.stored_messages(session.file)[0]["role"] == "user"
        for way_out in ("/new", "/reset", "larger context window"):
            assert way_out in raised.value.hint

    async def test_where_nothing_can_be_compacted_what_the_model_sees_is_cut_once(
        self, open_host, crab
    ):
        """6.5 step 5, in the view: one huge result, and no older message to summarise."""
        model = crab.ScriptedModel(OVERFLOW, "It fits now.")
        async with open_host(model) as host:
            session = await host.session(MAIN)
            call = {"id": "call_1", "name": "read", "arguments": {"path": "a.md"}}
            await session.append(user("Read it."))
            await session.append(assistant("", tool_calls=[call]))
            await session.append(tool_result("call_1", "read", "all of the harbour " * 4_000))
            await session.end_turn()
            size = session.file.stat().st_size
            reply = await host.send(MAIN, "And?")
            stored = crab.stored_messages(session.file)
        assert reply.text == "It fits now."
        first, second = (sum(len(text_of(m)) for m in r.messages) for r in model.requests)
        assert second < first
        assert len(text_of(stored[2])) > size / 2  # nothing of it was rewritten

    async def test_an_engine_is_told_what_the_provider_counted(self, open_host, crab, engine_of):
        made, plugins, config = engine_of()
        model = crab.ScriptedModel(OVERFLOW, ModelOverflowError("too long"), "ok", window=64_000)
        async with open_host(model, config=config, plugins=plugins) as host:
            await fill(host)
            await host.send(MAIN, "Where were we?")
        counts = [params["current_token_count"] for params in made[0].compactions]
        assert counts == [41_000, 64_001]

    async def test_switched_off_the_error_names_the_key_after_the_view_was_cut(
        self, open_host, crab
    ):
        model = crab.ScriptedModel(OVERFLOW, OVERFLOW, "never")
        async with open_host(model, config=OFF) as host:
            await fill(host)
            with pytest.raises(ModelOverflowError) as raised:
                await host.send(MAIN, "Where were we?")
        assert "agents.defaults.compaction.enabled" in raised.value.hint
        assert set(model.purposes) == {"turn"}
        assert len(model.requests) == 2

    async def test_a_compaction_of_another_process_counts_and_none_is_made_on_top(
        self, open_host, crab
    ):
        """P13: one session is never compacted twice for one cause."""
        outcomes = []
        model = crab.ScriptedModel()
        async with open_host(model) as host:
            await fill(host)
            context = await host.open_session(MAIN)

            async def compact_meanwhile(request):
                budget = context.budget("", ())
                outcomes.append(
                    await context._upkeep.compactor(budget).compact(
                        budget, trigger="manual", must_fit=False
                    )
                )
                return OVERFLOW

            model.script = [compact_meanwhile, "It fits now."]
            reply = await host.send(MAIN, "Where were we?")
        assert outcomes[0].compacted
        assert reply.text == "It fits now."
        assert reply.compactions == ()


class TestTimeout:
    async def test_a_nearly_full_context_is_compacted_and_asked_again(self, open_host, crab):
        model = crab.ScriptedModel(TIMEOUT, "In time.", window=32_000)
        async with open_host(model) as host:
            session = await fill(host, turns=18)
            reply = await host.send(MAIN, "Where were we?")
            stored = crab.stored_messages(session.file)
        assert reply.text == "In time."
        assert [outcome.trigger for outcome in reply.compactions] == ["timeout_recovery"]
        assert len(reply.flushes) == 1
        assert asked(stored, "Where were we?") == 1
        assert "error" not in {message.get("stopReason") for message in stored}

    async def test_a_context_with_room_has_another_cause(self, open_host, crab):
        model = crab.ScriptedModel(TIMEOUT, "never", window=64_000)
        async with open_host(model) as host:
            session = await fill(host)
            with pytest.raises(ModelTimeoutError):
                await host.send(MAIN, "Where were we?")
            stored = crab.stored_messages(session.file)
        assert len(model.requests) == 1
        assert stored[-1]["stopReason"] == "error"

    async def test_it_is_tried_twice_a_turn_at_most(self, open_host, crab):
        """P7: nothing is waited for without end."""
        model = crab.ScriptedModel(*[TIMEOUT] * 9, window=32_000)
        config = {"agents": {"defaults": {"compaction": {"keepRecentTokens": 1_000_000}}}}
        async with open_host(model, config=config) as host:
            await fill(host, turns=18)
            with pytest.raises(ModelTimeoutError):
                await host.send(MAIN, "Where were we?")
        assert len(model.requests) <= 3

    async def test_other_failures_are_no_timeouts(self, open_host, crab):
        model = crab.ScriptedModel(ModelUnavailableError("the server is down"), window=32_000)
        async with open_host(model) as host:
            await fill(host, turns=18)
            with pytest.raises(ModelUnavailableError):
                await host.send(MAIN, "Where were we?")
        assert len(model.requests) == 1

    async def test_switched_off_nothing_is_compacted(self, open_host, crab):
        model = crab.ScriptedModel(TIMEOUT, "never", window=32_000)
        async with open_host(model, config=OFF) as host:
            await fill(host, turns=18)
            with pytest.raises(ModelTimeoutError):
                await host.send(MAIN, "Where were we?")
        assert set(model.purposes) == {"turn"}


class TestLoops:
    async def test_a_call_repeated_after_a_compaction_ends_the_turn_with_a_note(
        self, open_host, crab
    ):
        """P17: an agent repeats an action for ever because the summary has lost its outcome."""
        calls = [crab.calling("read", f"call_{n}", path="AGENTS.md") for n in range(20)]
        model = crab.ScriptedModel(*calls, window=16_000)
        async with open_host(model) as host:
            await fill(host)
            reply = await host.send(MAIN, "Where were we?")
            assert reply.compactions[0].compacted
            assert reply.stopped == "tool_loop"
            assert "same result 3 times" in reply.text
            assert len(model.requests) == 3
            model.script.clear()
            assert (await host.send(MAIN, "hello")).stopped is None

    async def test_without_a_compaction_repetition_is_the_models_own_business(
        self, open_host, crab
    ):
        calls = [crab.calling("read", f"call_{n}", path="AGENTS.md") for n in range(5)]
        async with open_host(crab.ScriptedModel(*calls, "Done.")) as host:
            reply = await host.send(MAIN, "Read it.")
        assert (reply.text, reply.stopped) == ("Done.", None)

    async def test_too_many_rounds_are_told_as_such(self, open_host, crab):
        calls = [crab.calling("read", f"call_{n}", path="AGENTS.md") for n in range(5)]
        config = {"agents": {"defaults": {"maxToolRounds": 2}}}
        async with open_host(crab.ScriptedModel(*calls), config=config) as host:
            assert (await host.send(MAIN, "Read it.")).stopped == "tool_rounds"

    async def test_a_context_that_each_round_fills_again_stops_with_a_clear_message(
        self, open_host, crab, home
    ):
        """C30: claude-code stopped compacting after the context had refilled at once, again and again."""
        workspace = home / "workspace"
        workspace.mkdir(parents=True)
        calls = []
        for number in range(30):
            (workspace / f"{number}.md").write_text(f"{number} and the harbour plan " * 4_000)
            # Two large results a round: each group takes half of what is usable.
            pair = [
                {"id": f"a{number}{n}", "name": "read", "arguments": {"path": f"{number}.md"}}
                for n in range(2)
            ]
            calls.append(assistant("x " * 4_000, tool_calls=pair))
        model = crab.ScriptedModel(*calls, window=16_000)
        async with open_host(model) as host:
            await fill(host)
            reply = await host.send(MAIN, "Read them all.")
        assert reply.stopped == "compaction_storm"
        assert "larger context window" in reply.text
        assert len(model.requests) < 12
