"""Compactions in the mode ``safeguard``, with models that do all that models do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermitcrab import Host, hookimpl
from hermitcrab.compaction import HEADINGS
from hermitcrab.errors import ModelOverflowError, ModelRequestError
from hermitcrab.messages import assistant, text_of, tool_result, user

HOSTILE = {
    "empty": "",
    "blank": " \n ",
    "too long": "## Decisions\n" + "- words and words\n" * 20_000,
    "one long word": "x" * 200_000,
    "drops identifiers": "\n".join(HEADINGS),
    "invents": "## Exact identifiers\n" + "\n".join(f"- /opt/lie/{n}.txt" for n in range(3_000)),
    "ignores the format": "Sure! Here is a summary of what we did.",
    "repeats the headings": ("\n".join(HEADINGS) + "\n") * 50,
    "raises": ModelRequestError("bad request"),
    "raises something else": RuntimeError("boom"),
    "overflows": ModelOverflowError("too long"),
    "hangs": None,
}


def assert_sound(compaction: Any) -> None:
    """What every stored summary holds, whatever the model did."""
    outcome, entry = compaction.outcome, compaction.entry
    assert outcome.status == "compacted"
    assert entry["summary"] == outcome.summary
    lines = [line.strip() for line in outcome.summary.splitlines()]
    assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
    assert len(outcome.summary) <= 16_000
    assert outcome.identifiers_kept == outcome.identifiers_required > 0
    assert "/srv/app/module_" in outcome.summary
    assert outcome.tokens_after < outcome.tokens_before


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_model_can_lose_identifiers_or_block_the_session(
    compact: Any, scripted: Any, name: str
) -> None:
    """C38, C52, P14: the first failure keeps the history and says why, the second is answered by rules."""
    model = scripted(HOSTILE[name])
    first = await compact(model, timeoutSeconds=0.3)
    if first.outcome.status == "failed":
        assert first.entry is None
        assert first.outcome.reason.startswith("compaction safeguard: ")
        calls = len(model.requests)
        second = await compact(model, [], timeoutSeconds=0.3)
        assert second.outcome.mode == "deterministic"
        assert "compaction safeguard" in second.outcome.reason
        assert len(model.requests) <= 2 * calls
        assert_sound(second)
    else:
        assert_sound(first)
    assert len(model.requests) <= 60


@pytest.mark.parametrize("name", HOSTILE)
async def test_where_the_context_must_fit_there_is_a_summary_at_once(
    tmp_path: Path, scripted: Any, conversation: Any, name: str
) -> None:
    """P14"""
    compaction = {"mode": "safeguard", "timeoutSeconds": 0.3}
    config = {"agents": {"defaults": {"compaction": compaction, "contextTokens": 8_000}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    model = scripted(HOSTILE[name])
    async with Host.open(home=tmp_path, model=model, environ={}) as host:
        session = await host.session("agent:main:main")
        for message in conversation(25):
            await session.append(message)
        context = await session.assemble()
        assert context.tokens < 8_000
        summary = text_of(context.messages[0])
        assert all(heading in summary for heading in HEADINGS)


async def test_a_good_summary_is_stored_after_one_look(compact: Any, scripted: Any) -> None:
    model = scripted()
    done = await compact(model)
    assert_sound(done)
    assert done.outcome.mode == "model"
    assert done.outcome.reason is None
    assert done.safeguard == {"audited": True, "attempts": 1, "issues": []}
    assert done.diagnostics == []
    assert "Module 3 uses port 9003." in done.outcome.summary


async def test_the_model_hears_what_was_wrong(compact: Any, scripted: Any, notes: str) -> None:
    model = scripted(lambda request: notes if "rejected" in request.system else "No headings.")
    done = await compact(model)
    assert_sound(done)
    assert done.safeguard["attempts"] == 2
    assert done.safeguard["issues"] == []
    assert "no_heading" in model.systems[-1]
    assert "no_heading" not in model.systems[0]


async def test_what_the_host_mends_is_stored_and_named(compact: Any, scripted: Any) -> None:
    """A model that leaves headings out twice is no reason to lose what it wrote."""
    partial = "## Decisions\n- Look: module 24 is fine, please.\n- /opt/lie/a.txt was a lie."
    done = await compact(scripted(partial + "\n## Exact identifiers\n- /opt/lie/b.txt"))
    assert_sound(done)
    assert done.safeguard["attempts"] == 2
    assert "missing_section:## Open TODOs" in done.safeguard["issues"]
    assert "invented_identifiers:/opt/lie/b.txt" in done.safeguard["issues"]
    assert "/opt/lie/b.txt" not in done.outcome.summary
    assert "module 24 is fine" in done.outcome.summary


async def test_an_attempt_that_was_good_enough_survives_a_later_failure(
    compact: Any, scripted: Any
) -> None:
    kept = "## Decisions\n- Look at the module: it is the third one, please."

    def answer(request: Any) -> Any:
        return ModelRequestError("gone") if "rejected" in request.system else kept

    done = await compact(scripted(answer))
    assert_sound(done)
    assert "it is the third one" in done.outcome.summary
    assert done.safeguard["attempts"] == 2


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (2, 3), (9, 4)])
async def test_the_number_of_attempts_is_bounded(
    compact: Any, scripted: Any, retries: int, attempts: int
) -> None:
    model = scripted("No headings.")
    done = await compact(model, qualityGuard={"maxRetries": retries})
    assert done.outcome.status == "failed"
    assert f"failed its audit {attempts} times: no_heading" in done.outcome.reason
    assert done.entry is None


async def test_without_the_guard_what_the_model_says_is_taken(compact: Any, scripted: Any) -> None:
    model = scripted("No headings at all.")
    done = await compact(model, qualityGuard={"enabled": False})
    assert_sound(done)
    assert "No headings at all." in done.outcome.summary
    assert done.safeguard["audited"] is False
    assert "rejected" not in "".join(model.systems)


@pytest.mark.parametrize("mode", ["default", "aggressive"])
async def test_in_other_modes_the_plugin_does_nothing(
    compact: Any, scripted: Any, mode: str
) -> None:
    done = await compact(scripted(), mode=mode)
    assert done.outcome.status == "compacted"
    assert "safeguard" not in done.entry["details"]
    assert "## Recent turns" not in done.outcome.summary


async def test_a_hanging_model_is_asked_once_and_cancelled(compact: Any, scripted: Any) -> None:
    """P7"""
    model = scripted(None)
    done = await compact(model, timeoutSeconds=0.2)
    assert done.outcome.status == "failed"
    assert "no summary within 0.2 s" in done.outcome.reason
    assert (len(model.requests), model.cancelled) == (1, 1)


async def test_cancelling_the_turn_reaches_the_model(compact: Any, scripted: Any) -> None:
    asked = asyncio.Event()
    model = scripted(lambda request: asked.set())
    task = asyncio.create_task(compact(model))
    await asyncio.wait_for(asked.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.cancelled == 1


async def test_the_newest_turns_the_failures_and_the_files_follow(
    compact: Any, scripted: Any
) -> None:
    """C55, P17: the next turn knows what has failed."""
    done = await compact(scripted(window=48_000), keepRecentTokens=200)
    body, _, tail = done.outcome.summary.partition("\n## Recent turns preserved verbatim\n")
    assert "## Exact identifiers" in body
    assert "- User: Please look at module 2" in tail
    assert tail.count("- User: ") == 3
    assert "\n## Tool Failures\n- read: build = " in tail
    assert "<read-files>\n/srv/app/module_0/settings.toml\n" in tail
    assert "<modified-files>" not in tail


async def test_turns_that_are_repeated_never_make_a_compaction_useless(
    compact: Any, scripted: Any
) -> None:
    """C28: a small history would otherwise come back whole."""
    turn = [user("Look at the module, say more. " * 18), assistant("There is no more. " * 30)]
    done = await compact(scripted(), [*turn * 3, user("ok")], keepRecentTokens=1)
    assert done.outcome.status == "compacted"
    assert "## Recent turns" in done.outcome.summary
    assert done.outcome.tokens_after < 0.8 * done.outcome.tokens_before


async def test_no_turn_is_repeated_if_none_is_wanted(compact: Any, scripted: Any) -> None:
    done = await compact(scripted(), recentTurnsPreserve=0)
    assert "## Recent turns" not in done.outcome.summary
    assert "## Tool Failures" in done.outcome.summary


async def test_what_follows_leaves_the_sections_their_room(compact: Any, scripted: Any) -> None:
    """C56: what is audited is the text that is stored, cut as it is."""
    long = "## Decisions\n" + "\n".join(f"- Look: module {n}, please." for n in range(4_000))
    done = await compact(scripted(long), recentTurnsPreserve=12)
    assert_sound(done)
    body, _, tail = done.outcome.summary.partition("\n## Recent turns preserved verbatim\n")
    assert len(body) > len(tail) > 0
    assert any(issue.startswith("too_long:") for issue in done.safeguard["issues"])


async def test_the_next_summary_is_made_of_the_last_one_and_its_turns(
    compact: Any, scripted: Any, conversation: Any, notes: str
) -> None:
    """What stands in a summary word for word is gone from the view, so the next summariser must see it."""
    await compact(scripted(notes.replace("9003", "9777")))
    model = scripted()
    done = await compact(model, conversation(40)[100:])
    assert_sound(done)
    first = model.texts[0] + model.texts[-1]
    assert "Module 3 uses port 9777." in first
    assert done.outcome.summary.count("## Recent turns preserved verbatim") == 1


async def test_the_ask_of_a_split_turn_comes_first(compact: Any, scripted: Any) -> None:
    """P17: the latest request is not lost, even where its turn is cut in two."""
    messages = [user("Migrate the billing database to schema 12, in three steps.")]
    for n in range(12):
        call: Any = {"id": f"c{n}", "name": "exec", "arguments": {"command": f"step {n}"}}
        messages += [
            assistant(f"Step {n}.", tool_calls=[call]),
            tool_result(f"c{n}", "exec", "row\n" * 500),
        ]
    done = await compact(scripted("## Decisions\n- Something else."), messages)
    assert done.outcome.status == "compacted"
    asks = done.outcome.summary.partition("## Pending user asks\n")[2]
    assert asks.startswith("- Migrate the billing database to schema 12")


async def test_a_request_that_nobody_takes_up_is_a_reason_to_reject(
    compact: Any, scripted: Any
) -> None:
    other = "## Decisions\n- Something else.\n" + "\n".join(HEADINGS[1:])
    messages = [user("Translate the poem."), assistant("rose " * 6_000), user("thanks")]
    done = await compact(scripted(other), messages, recentTurnsPreserve=0, keepRecentTokens=1)
    assert done.outcome.status == "failed"
    assert "stored_latest_user_ask_not_reflected" in done.outcome.reason


async def test_credentials_are_not_stored(compact: Any, scripted: Any, notes: str) -> None:
    """C54: not in the sections, nor in the turns and failures that follow them."""
    secret = "sk-" + "a1b2" * 8
    messages = [user("hi"), assistant("hello " * 3_000), user(f"The key is {secret}")]
    messages += [assistant("", tool_calls=[{"id": "k", "name": "exec", "arguments": {}}])]
    messages += [tool_result("k", "exec", f"token={secret}", is_error=True), assistant("No.")]
    messages += [user("And now?"), assistant("words " * 6_000)]
    text = notes.replace("9003", secret) + "\n- The key is known. And now?"
    done = await compact(scripted(text), messages)
    assert done.outcome.status == "compacted"
    assert "[redacted" in done.outcome.summary
    assert "- exec: " in done.outcome.summary
    assert secret not in done.outcome.summary


async def test_the_operator_can_say_in_own_words_which_identifiers_matter(
    compact: Any, scripted: Any
) -> None:
    model = scripted()
    done = await compact(
        model, identifierPolicy="custom", identifierInstructions="Keep ticket numbers only."
    )
    assert done.outcome.status == "compacted"
    assert done.outcome.identifiers_required == 0
    assert all("Keep ticket numbers only." in system for system in model.systems)
    assert "Copy every identifier exactly" not in model.systems[0]


async def test_a_custom_policy_without_words_is_the_strict_one(compact: Any, scripted: Any) -> None:
    model = scripted()
    assert_sound(await compact(model, identifierPolicy="custom", identifierInstructions="  "))
    assert "Copy every identifier exactly" in model.systems[0]


async def test_identifiers_do_not_matter_where_the_policy_is_off(
    compact: Any, scripted: Any, notes: str
) -> None:
    done = await compact(
        scripted(notes.replace("None captured.", "- /opt/lie.txt")), identifierPolicy="off"
    )
    assert done.outcome.identifiers_required == 0
    assert "/opt/lie.txt" in done.outcome.summary
    assert done.safeguard["issues"] == []


@pytest.mark.parametrize(
    ("focus", "configured", "expected"),
    [
        ("the login", "the database", "Additional focus: the login"),
        ("  ", "the database", "Additional focus: the database"),
        (None, "the database", "Additional focus: the database"),
        (None, " ", None),
    ],
)
async def test_instructions_come_from_the_command_then_from_config(
    compact: Any, scripted: Any, focus: str | None, configured: str, expected: str | None
) -> None:
    model = scripted()
    await compact(model, focus=focus, customInstructions=configured)
    if expected is None:
        assert "Additional focus" not in model.systems[0]
        assert "language of the conversation" in model.systems[0]
    else:
        assert model.systems[0].endswith(expected)


async def test_if_the_oldest_history_cannot_be_summarised_nothing_is_lost(
    compact: Any, scripted: Any, notes: str
) -> None:
    def answer(request: Any) -> Any:
        oldest = "Please look at module 0." in text_of(request.messages[0])
        return ModelRequestError("bad") if oldest else notes

    done = await compact(
        scripted(answer, window=24_000), maxHistoryShare=0.1, keepRecentTokens=5_000
    )
    assert done.outcome.status == "failed"
    assert "could not summarise the session" in done.outcome.reason


async def test_silence_costs_no_call(compact: Any, scripted: Any) -> None:
    """A heartbeat session is compacted all the same, or its trigger would fire for ever."""
    messages = []
    for n in range(120):
        call: Any = {"id": f"c{n}", "name": "read", "arguments": {"path": "a " * 60}}
        messages += [user("HEARTBEAT_OK"), assistant("NO_REPLY", tool_calls=[call])]
        messages += [tool_result(f"c{n}", "read", "nothing new here " * 4)]
    model = scripted()
    done = await compact(model, messages)
    assert done.outcome.status == "compacted"
    assert model.requests == []
    assert "No prior history." in done.outcome.summary


async def test_rules_of_the_workspace_are_repeated(
    compact: Any, scripted: Any, tmp_path: Path
) -> None:
    (tmp_path / "workspace").mkdir()
    rules = "# Agents\n## Red lines\nNever push on Friday.\n## Style\nShort.\n"
    (tmp_path / "workspace" / "AGENTS.md").write_text(rules, encoding="utf-8")
    done = await compact(scripted(), postCompactionSections=["red LINES"])
    assert done.outcome.summary.endswith(
        "<workspace-critical-rules>\n**Red lines**\nNever push on Friday.\n</workspace-critical-rules>"
    )
    assert_sound(done)


async def test_other_plugins_go_first(compact: Any, scripted: Any) -> None:
    """A plugin that cancels or writes the summary itself is heard."""

    class Canceller:
        @hookimpl(priority=1)
        def session_before_compact(self, event: Any) -> Any:
            return {"cancel": True, "reason": "not now"}

    model = scripted()
    done = await compact(model, plugins=[("canceller", Canceller())])
    assert (done.outcome.status, done.outcome.reason) == ("cancelled", "not now")
    assert model.requests == []


class Provider:
    """A compaction provider that gives answer after answer, the last for ever."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[Any] = []

    async def summarise(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def plugin(self) -> Any:
        provider = self

        class Plugin:
            @hookimpl
            def register_compaction_providers(self, registry: Any) -> None:
                registry.register("mine", provider)

        return [("provider-plugin", Plugin())]


async def test_what_a_provider_writes_is_audited_too(
    compact: Any, scripted: Any, notes: str
) -> None:
    """A provider implies the mode ``safeguard``."""
    provider, model = Provider("No headings.", notes), scripted()
    done = await compact(model, plugins=provider.plugin(), provider="mine", mode="default")
    assert_sound(done)
    assert model.requests == []
    assert done.safeguard["attempts"] == 2
    assert done.entry["details"]["provider"] == "mine"
    assert "no_heading" in provider.requests[-1].instructions


@pytest.mark.parametrize("answer", ["", "  ", None, 7, RuntimeError("boom")])
async def test_a_provider_that_fails_is_replaced_by_the_model(
    compact: Any, scripted: Any, answer: Any
) -> None:
    model = scripted()
    done = await compact(model, plugins=Provider(answer).plugin(), provider="mine")
    assert_sound(done)
    assert model.requests
    expected = "boom" if isinstance(answer, RuntimeError) else "returned no text"
    assert done.outcome.reason.startswith('the compaction provider "mine" is not used: ')
    assert expected in done.outcome.reason
