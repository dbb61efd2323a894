"""Each setting of compaction does what it says, seen from outside in whole turns (context 8).

Defaults and refused values stand in core/tests/config/test_config_compaction_settings.py.
"""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from hermitcrab import hookimpl
from hermitcrab.messages import assistant, text_of, tool_result, user
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.models import ChatReply

MAIN = "agent:main:main"
SAFEGUARD_OFF = {"plugins": {"entries": {"compaction-safeguard": {"enabled": False}}}}
PARAGRAPH = "we look at the harbour plan and at the tide tables of the coming week " * 12


def settings(safeguard=False, window=16_000, **compaction):
    defaults = {"contextTokens": window, "compaction": compaction}
    return {**({} if safeguard else SAFEGUARD_OFF), "agents": {"defaults": defaults}}


@pytest.fixture
def recording(crab):
    """Makes a model that keeps every request, and answers those for summaries with ``notes`` where it is given."""

    class Recording(crab.ScriptedModel):
        def __init__(self, *script, notes=None, **options):
            super().__init__(*script, **options)
            self.notes = notes
            self.all = []

        async def complete(self, request):
            self.all.append(request)
            if request.purpose in {"summarise", "merge"} and self.notes is not None:
                self.purposes.append(request.purpose)
                return ChatReply(message=assistant(self.notes))
            return await super().complete(request)

        def asked(self, purpose):
            return [request for request in self.all if request.purpose == purpose]

    return Recording


def turn(number):
    """A turn of about 400 tokens, with identifiers of its own."""
    return [
        user(f"Step {number}, /srv/app/step_{number}.toml: {PARAGRAPH}"),
        assistant(f"We decided to use port {9000 + number}. {PARAGRAPH}"),
    ]


async def fill(host, turns=14, key=MAIN):
    """A conversation of so many turns."""
    session = await host.session(key)
    for number in range(turns):
        for message in turn(number):
            await session.append(message)
    await session.end_turn()
    return session


def turns_of(tokens):
    """How many turns take about so many tokens."""
    return tokens // TokenCounter().messages(turn(100))


def compactions_of(crab, session):
    return [entry for entry in crab.entries_of(session.file) if entry["type"] == "compaction"]


@pytest.fixture
def compacted(crab, open_host, recording):
    """Fills a new session and compacts it by hand: the outcome, the entry's details and the model."""
    numbers = count()

    async def run(config, model=None, turns=14, command=None):
        model = model or recording()
        key = f"agent:main:run-{next(numbers)}"
        async with open_host(model, config=config) as host:
            session = await fill(host, turns, key)
            outcome = await host.compact(key, instructions=command)
            entries = compactions_of(crab, session)
            return outcome, (entries[-1]["details"] if entries else {}), model

    return run


class TestWhoWritesSummaries:
    @pytest.mark.parametrize(
        ("installed", "mode", "audited"),
        [
            (True, None, True),
            (True, "safeguard", True),
            (True, "default", False),
            (True, "aggressive", False),
            (False, None, False),
        ],
    )
    async def test_mode_decides_whether_summaries_are_audited(
        self, compacted, installed, mode, audited
    ):
        """Null is ``safeguard`` where the plugin is installed; the table's default, by other means."""
        outcome, details, _ = await compacted(settings(safeguard=installed, mode=mode))
        assert outcome.compacted
        assert ("safeguard" in details) is audited

    async def test_a_provider_implies_the_safeguard(self, crab, open_host, recording):
        class Provider:
            async def summarise(self, request):
                return "## Decisions\n- The provider wrote this about step 9 and the harbour plan."

        @hookimpl
        def register_compaction_providers(registry):
            registry.register("mine", Provider())

        config = settings(safeguard=True, mode="default", provider="mine")
        plugins = [("mine", crab.plugin(register_compaction_providers))]
        model = recording()
        async with open_host(model, config=config, plugins=plugins) as host:
            session = await fill(host)
            outcome = await host.compact(MAIN)
        [entry] = compactions_of(crab, session)
        assert outcome.compacted
        assert entry["details"]["provider"] == "mine"
        assert entry["details"]["safeguard"]["audited"]
        assert model.asked("summarise") == []

    async def test_summaries_and_flushes_may_have_models_of_their_own(
        self, crab, open_host, recording
    ):
        made = {}

        @hookimpl
        def register_model_providers(registry):
            def make(*, provider_id, model, config):
                made[model] = recording(window=16_000)
                made[model].id = f"{provider_id}/{model}"
                return made[model]

            registry.register("lab", make)

        config = settings(model="lab/summaries", memoryFlush={"model": "lab/notes"})
        config["agents"]["defaults"]["model"] = "lab/large"
        plugins = [("lab", crab.plugin(register_model_providers))]
        async with open_host(config=config, plugins=plugins) as host:
            await fill(host, 30)
            reply = await host.send(MAIN, "Go on.")
        assert reply.compactions[0].compacted
        purposes = {name: set(model.purposes) for name, model in made.items()}
        assert purposes["large"] == {"turn"}
        assert purposes["summaries"] <= {"summarise", "merge"}
        assert purposes["summaries"]
        assert purposes["notes"] == {"flush"}

    @pytest.mark.parametrize(
        ("level", "told"),
        [(None, "low"), ("high", "high"), ("ultra", "high"), ("inherit", "medium"), ("off", None)],
    )
    async def test_thinking_level_is_told_to_a_model_that_knows_it(
        self, open_host, recording, level, told
    ):
        model = recording(window=16_000)
        model.thinking_levels = ("low", "medium", "high")
        async with open_host(model, config=settings(thinkingLevel=level)) as host:
            await fill(host)
            await host.send(MAIN, "/think medium")
            assert (await host.compact(MAIN)).compacted
        assert {request.thinking for request in model.asked("summarise")} == {told}

    async def test_a_model_that_cannot_be_told_how_much_to_think_is_told_nothing(self, compacted):
        outcome, _, model = await compacted(settings(thinkingLevel="high"))
        assert outcome.compacted
        assert {request.thinking for request in model.asked("summarise")} == {None}

    async def test_timeout_seconds_ends_a_summary_that_hangs(self, crab, open_host, recording):
        async def hang(request):
            await asyncio.Event().wait()

        class Hanging(recording):
            async def complete(self, request):
                if request.purpose == "summarise":
                    await hang(request)
                return await super().complete(request)

        config = settings(timeoutSeconds=0.2, memoryFlush=False)
        async with open_host(Hanging("Here."), config=config) as host:
            await fill(host, 30)
            reply = await asyncio.wait_for(host.send(MAIN, "Go on."), timeout=20)
        assert reply.text == "Here."
        assert reply.compactions[0].mode == "deterministic"
        assert "no summary within 0.2 s" in reply.compactions[0].reason


class TestSizes:
    @pytest.mark.parametrize(
        ("reserve", "floor", "tokens", "compacts"),
        [
            (16_384, 20_000, 20_500, False),
            (16_384, 20_000, 26_500, True),
            (0, 0, 26_500, False),
            (2_000, 0, 26_500, False),
            (8_000, 0, 26_500, True),
            (0, 8_000, 26_500, True),
        ],
    )
    async def test_the_reserve_is_the_larger_of_two_and_never_above_a_quarter_of_the_window(
        self, open_host, recording, reserve, floor, tokens, compacts
    ):
        """Design 7; P6: 20,000 reserved tokens of 32,000 would have compacted from the start."""
        config = settings(
            window=32_000, reserveTokens=reserve, reserveTokensFloor=floor, memoryFlush=False
        )
        async with open_host(recording(), config=config) as host:
            await fill(host, turns_of(tokens))
            reply = await host.send(MAIN, "Go on.")
        assert bool(reply.compactions) is compacts

    async def test_keep_recent_tokens_is_what_stays_as_it_is(self, open_host, recording):
        kept = {}
        for wanted in (500, 2_000):
            model = recording()
            async with open_host(model, config=settings(keepRecentTokens=wanted)) as host:
                key = f"agent:main:keeps-{wanted}"
                session = await fill(host, 14, key)
                assert (await host.compact(key)).compacted
                kept[wanted] = len(session.messages) - 1
        assert 0 < kept[500] < kept[2_000] < 28

    @pytest.mark.parametrize(("share", "in_advance"), [(0.1, True), (0.9, False)])
    async def test_max_history_share_has_older_history_summarised_first(
        self, compacted, share, in_advance
    ):
        """What is kept takes a third of the window; the older summary is then the earlier notes of the next."""
        config = settings(safeguard=True, window=64_000, maxHistoryShare=share)
        outcome, _, model = await compacted(config, turns=turns_of(30_000))
        assert outcome.compacted
        first, *others = [text_of(request.messages[0]) for request in model.asked("summarise")]
        assert "Step 0," in first
        assert any("<previous-summary>" in text for text in others) is in_advance

    async def test_recent_turns_preserve_has_them_stand_in_the_summary(self, compacted):
        counts = {}
        for turns in (0, 1, 3):
            config = settings(safeguard=True, window=64_000, recentTurnsPreserve=turns)
            outcome, _, _ = await compacted(config, turns=turns_of(30_000))
            section = outcome.summary.partition("## Recent turns preserved verbatim")[2]
            counts[turns] = section.partition("\n\n")[0].count("\n- User: ")
        assert counts == {0: 0, 1: 1, 3: 3}


class TestWhatSummariesSay:
    async def test_custom_instructions_are_the_focus_unless_compact_brings_its_own(self, compacted):
        config = settings(customInstructions="the database")
        _, _, model = await compacted(config)
        assert all("Additional focus: the database" in r.system for r in model.asked("summarise"))
        _, _, model = await compacted(config, command="the login")
        for request in model.asked("summarise"):
            assert "Additional focus: the login" in request.system
            assert "the database" not in request.system

    @pytest.mark.parametrize(
        ("policy", "own", "strict", "said"),
        [
            ("strict", None, True, "Copy every identifier"),
            ("strict", "ports only", True, "Copy every identifier"),
            ("off", None, False, "only where one needs them"),
            ("custom", "ports only", False, "ports only"),
            ("custom", " ", True, "Copy every identifier"),
        ],
    )
    async def test_the_identifier_policy_decides_what_must_survive(
        self, compacted, recording, policy, own, strict, said
    ):
        config = settings(identifierPolicy=policy, identifierInstructions=own)
        model = recording(notes="## Decisions\n- Something was decided.")
        outcome, details, _ = await compacted(config, model)
        assert outcome.compacted
        assert (outcome.identifiers_required > 0) is strict
        assert outcome.identifiers_kept == outcome.identifiers_required
        assert ("/srv/app/step_" in outcome.summary) is strict
        assert details["identifiers"] or strict
        assert all(said in request.system for request in model.asked("summarise"))

    @pytest.mark.parametrize("keep", [False, True])
    async def test_keep_credentials_decides_whether_they_stay(self, open_host, recording, keep):
        secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 2
        model = recording(notes=f"## Decisions\n- We use the key {secret} for the harbour plan.")
        async with open_host(model, config=settings(keepCredentials=keep)) as host:
            session = await host.session(MAIN)
            await session.append(user(f"We decided to use the key {secret}."))
            await fill(host)
            outcome = await host.compact(MAIN)
        assert outcome.compacted
        assert (secret in outcome.summary) is keep


class TestQualityGuard:
    BAD = "Sure! Here is what we did."

    @pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (3, 4), (9, 4)])
    async def test_max_retries_is_how_often_it_is_written_again(
        self, compacted, recording, retries, attempts
    ):
        model = recording(notes=self.BAD)
        config = settings(safeguard=True, window=64_000, qualityGuard={"maxRetries": retries})
        outcome, _, _ = await compacted(config, model, turns=50)
        assert outcome.status == "failed"
        assert f"failed its audit {attempts} times" in outcome.reason
        rejected = [r for r in model.asked("summarise") if "rejected" in r.system]
        assert bool(rejected) is (attempts > 1)
        assert len(model.asked("summarise")) * (attempts - 1) == len(rejected) * attempts

    async def test_switched_off_what_was_written_is_taken(self, compacted, recording):
        model = recording(notes=self.BAD)
        config = settings(safeguard=True, qualityGuard={"enabled": False})
        outcome, details, _ = await compacted(config, model)
        assert outcome.compacted
        assert self.BAD in outcome.summary
        assert details["safeguard"]["audited"] is False


@pytest.mark.parametrize("enabled", [True, False])
async def test_mid_turn_precheck_compacts_between_tool_rounds(
    crab, open_host, home, recording, enabled
):
    workspace = home / "workspace"
    workspace.mkdir(parents=True)
    for number in range(3):
        (workspace / f"plan-{number}.txt").write_text(PARAGRAPH * 8, encoding="utf-8")
    calls = [crab.calling("read", f"call_{n}", path=f"plan-{n}.txt") for n in range(3)]
    config = settings(
        window=16_000, memoryFlush=False, midTurnPrecheck={"enabled": enabled}, keepRecentTokens=500
    )
    model = recording(*calls, "Done.")
    async with open_host(model, config=config) as host:
        await fill(host, 20)
        reply = await host.send(MAIN, "Read the plans.")
    assert reply.text == "Done."
    triggers = [outcome.trigger for outcome in reply.compactions]
    assert ("in_loop" in triggers) is enabled
    assert len(model.requests) == 4


class TestFlush:
    @pytest.mark.parametrize("value", [True, False, {"enabled": True}, {"enabled": False}])
    async def test_enabled_decides_whether_it_runs_however_it_is_written(
        self, open_host, recording, value
    ):
        is_on = value if isinstance(value, bool) else value["enabled"]
        model = recording()
        async with open_host(model, config=settings(memoryFlush=value)) as host:
            await fill(host, 30)
            reply = await host.send(MAIN, "Go on.")
        assert reply.compactions[0].compacted
        assert bool(reply.flushes) is is_on
        assert bool(model.asked("flush")) is is_on

    @pytest.mark.parametrize(("soft", "flushes"), [(4_000, 1), (0, 0)])
    async def test_soft_threshold_tokens_is_how_much_earlier_it_runs(
        self, open_host, recording, soft, flushes
    ):
        config = settings(
            window=32_000,
            memoryFlush={"softThresholdTokens": soft, "forceFlushTranscriptBytes": 0},
        )
        async with open_host(recording(), config=config) as host:
            await fill(host, turns_of(21_500))
            reply = await host.send(MAIN, "Go on.")
        assert reply.compactions == ()
        assert len(reply.flushes) == flushes

    @pytest.mark.parametrize(("size", "flushes"), [("5kb", 1), (0, 0), ("2mb", 0)])
    async def test_force_flush_transcript_bytes_counts_whatever_the_tokens_say(
        self, open_host, recording, size, flushes
    ):
        config = settings(window=128_000, memoryFlush={"forceFlushTranscriptBytes": size})
        async with open_host(recording(window=128_000), config=config) as host:
            await fill(host, 6)
            reply = await host.send(MAIN, "Go on.")
            assert len(reply.flushes) == flushes
            assert (await host.send(MAIN, "Go on.")).flushes == (), "once a cycle"

    async def test_the_operators_texts_are_used_and_completed(self, open_host, recording):
        own = {"prompt": "Keep what sailors need.", "systemPrompt": "You are a harbour clerk."}
        model = recording()
        async with open_host(model, config=settings(memoryFlush=own)) as host:
            await fill(host, 30)
            assert (await host.send(MAIN, "Go on.")).flushes
        request = model.asked("flush")[0]
        assert request.system.startswith("You are a harbour clerk.")
        prompt = next(
            text_of(message)
            for message in reversed(request.messages)
            if "Keep what sailors need." in text_of(message)
        )
        for text in (request.system, prompt):
            assert "NO_REPLY" in text
            assert "read-only" in text


class TestRelated:
    async def test_context_tokens_is_the_window_that_everything_goes_by(self, open_host, recording):
        for window, compacts in ((8_000, True), (64_000, False)):
            config = settings(window=window, memoryFlush=False)
            async with open_host(recording(window=32_000), config=config) as host:
                key = f"agent:main:window-{window}"
                await fill(host, 14, key)
                reply = await host.send(key, "Go on.")
            assert bool(reply.compactions) is compacts

    async def test_history_limit_is_how_many_turns_the_model_sees(self, open_host, recording):
        model = recording()
        async with open_host(model, config={"session": {"historyLimit": 2}}) as host:
            await fill(host, 5)
            await host.send(MAIN, "Go on.")
        assert [m["role"] for m in model.requests[0].messages].count("user") == 2

    async def test_max_tool_rounds_stops_a_model_that_calls_on(self, crab, open_host, recording):
        calls = [crab.calling("read", f"call_{n}", path=f"{n}.md") for n in range(9)]
        model = recording(*calls)
        config = {"agents": {"defaults": {"maxToolRounds": 2}}}
        async with open_host(model, config=config) as host:
            reply = await host.send(MAIN, "Go on and on.")
        assert len(model.requests) == 2
        assert "2 rounds" in reply.text
        assert tool_result("x", "read", "")["role"] in {m["role"] for m in reply.messages}
