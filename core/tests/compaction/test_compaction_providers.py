"""Compaction providers: chosen by config, replaced by the host's own summariser where they fail (context 5.3)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab.compaction.composing import SummaryTask
from hermitcrab.compaction.diagnostics import compaction_diagnostics
from hermitcrab.compaction.prompts import Advice
from hermitcrab.compaction.providers import ChosenProvider, ProvidedSummaries, choose_provider
from hermitcrab.compaction.structure import HEADINGS
from hermitcrab.compaction.summarise import SummaryText
from hermitcrab.errors import CompactionError
from hermitcrab.messages.build import tool_result, user
from hermitcrab.plugins.records import PluginRecord
from hermitcrab.plugins.registry import Registry


class Provider:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    async def summarise(self, request: Any) -> Any:
        self.requests.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer is asyncio.sleep:
            await asyncio.sleep(60)
        return self.answer


class Fallback:
    def __init__(self, error: CompactionError | None = None) -> None:
        self.error = error
        self.calls = 0

    async def summarise(self, task: SummaryTask) -> SummaryText:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return SummaryText(text="the model's", oversize=2, note="a note")


def task() -> SummaryTask:
    result = tool_result("c", "read", "x")
    result["details"] = {"stdout": "untrusted"}
    return SummaryTask(
        messages=[user("hello"), result],
        previous_summary="the last one",
        advice=Advice(focus="the login"),
        max_tokens=700,
    )


def summaries(provider: Any, fallback: Any) -> ProvidedSummaries:
    chosen = ChosenProvider(id="mine", provider=provider)
    return ProvidedSummaries(chosen, fallback, timeout_s=0.2)


async def test_a_provider_gets_everything_and_its_answer_is_the_summary() -> None:
    provider, fallback = Provider("  notes  "), Fallback()
    summary = await summaries(provider, fallback).summarise(task())
    assert summary == SummaryText(text="notes", provider="mine")
    assert fallback.calls == 0
    (request,) = provider.requests
    assert request.messages == [
        user("hello", timestamp=request.messages[0]["timestamp"]),
        ANY_RESULT,
    ]
    assert request.previous_summary == "the last one"
    assert request.custom_instructions == "the login"
    assert request.max_tokens == 700
    assert all(heading in request.instructions for heading in HEADINGS)
    assert "The earlier notes are given too" in request.instructions


class _AnyResult:
    """A tool result without details, which never reach a summariser (context 4.2)."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and other["role"] == "toolResult" and "details" not in other

    __hash__ = None  # type: ignore[assignment]


ANY_RESULT = _AnyResult()


async def test_a_plain_function_may_answer_too() -> None:
    provider = SimpleNamespace(summarise=lambda request: "notes")
    assert (await summaries(provider, Fallback()).summarise(task())).text == "notes"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "it returned no text"),
        (" \n", "it returned no text"),
        (None, "it returned no text"),
        (b"bytes", "it returned no text"),
        (RuntimeError("boom"), "RuntimeError: boom"),
        (asyncio.sleep, "no summary within 0.2 s"),
    ],
)
async def test_a_provider_that_fails_is_replaced_and_the_summary_says_why(
    answer: Any, reason: str
) -> None:
    fallback = Fallback()
    summary = await summaries(Provider(answer), fallback).summarise(task())
    remark = f'the compaction provider "mine" is not used: {reason}'
    assert summary == SummaryText(text="the model's", oversize=2, note="a note", remark=remark)
    assert fallback.calls == 1


async def test_if_both_fail_both_reasons_are_told() -> None:
    fallback = Fallback(CompactionError("no model", hint="Try again."))
    with pytest.raises(CompactionError, match=r"mine.*it returned no text; no model") as caught:
        await summaries(Provider(""), fallback).summarise(task())
    assert caught.value.hint == "Try again."


async def test_cancelling_reaches_the_provider() -> None:
    running = asyncio.create_task(
        ProvidedSummaries(
            ChosenProvider(id="mine", provider=Provider(asyncio.sleep)), Fallback(), timeout_s=60
        ).summarise(task())
    )
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def registry_with(value: Any) -> Registry[Any]:
    registry: Registry[Any] = Registry("compaction provider")
    registry.register("mine", value, owner="plugin:its-plugin")
    return registry


def choose(value: Any) -> ChosenProvider:
    def context(plugin_id: str) -> Any:
        return SimpleNamespace(plugin_config=f"config of {plugin_id}")

    return choose_provider("mine", registry_with(value), context)


def test_a_provider_is_given_or_made() -> None:
    made = Provider("x")
    assert choose(made) == ChosenProvider(id="mine", provider=made)
    assert choose(lambda: made).provider is made

    class WithContext(Provider):
        def __init__(self, context: Any) -> None:
            super().__init__(context.plugin_config)

    assert choose(WithContext).provider.answer == "config of its-plugin"  # type: ignore[union-attr]


def test_why_there_is_no_provider_is_known() -> None:
    def broken() -> None:
        raise ValueError("no key")

    assert choose(broken).failure == "it could not be made: ValueError: no key"
    assert choose(lambda: object()).failure == "it has no method summarise"
    missing = choose_provider("other", registry_with(Provider("x")), lambda plugin_id: None)  # type: ignore[arg-type, return-value]
    assert missing.failure == "no plugin has registered it"


async def test_a_provider_that_is_not_there_is_replaced_too() -> None:
    chosen = ChosenProvider(id="mine", failure="no plugin has registered it")
    summary = await ProvidedSummaries(chosen, Fallback(), timeout_s=1).summarise(task())
    assert summary.remark.endswith("not used: no plugin has registered it")


def safeguard(**fields: Any) -> dict[str, PluginRecord]:
    values = {"status": "loaded", "hooks": ("session_before_compact",), **fields}
    record = PluginRecord(id="compaction-safeguard", kind="plugin", reason="test", **values)
    return {record.id: record}


def choices(mode: str = "safeguard", provider: str | None = None) -> Any:
    return SimpleNamespace(mode=mode, provider=provider)


def test_nothing_is_missing_where_nothing_is_asked_for_or_all_is_there() -> None:
    registry = registry_with(Provider("x"))
    assert compaction_diagnostics(choices("default"), {}, registry) == []
    assert compaction_diagnostics(choices("aggressive"), {}, registry) == []
    assert compaction_diagnostics(choices(), safeguard(), registry) == []
    assert compaction_diagnostics(choices("default", "mine"), safeguard(), registry) == []


@pytest.mark.parametrize(
    ("records", "state", "hint"),
    [
        ({}, "is not installed", "Install it: pip install hermitcrab-compaction-safeguard"),
        (safeguard(status="disabled", hooks=()), "is not loaded: test", "Enable it"),
        (safeguard(status="error", error="boom", hooks=()), "is not loaded: boom", "Enable it"),
        (safeguard(hooks=()), "does not handle session_before_compact", "Enable it"),
    ],
)
def test_a_safeguard_that_is_not_there_is_named(
    records: dict[str, PluginRecord], state: str, hint: str
) -> None:
    (found,) = compaction_diagnostics(choices(), records, registry_with(Provider("x")))
    assert found.level == "warning"
    assert found.message.endswith(f"because the plugin {state}")
    assert found.hint is not None
    assert found.hint.startswith(hint)
    assert found.hint.endswith("or set agents.defaults.compaction.mode to default")


def test_an_unknown_provider_is_an_error_with_the_nearest_name() -> None:
    registry = registry_with(Provider("x"))
    (found,) = compaction_diagnostics(choices(provider="min"), safeguard(), registry)
    assert (found.level, found.hint) == ("error", 'Did you mean "mine"?')
    (found,) = compaction_diagnostics(choices(provider="zzz"), safeguard(), registry)
    assert found.hint == "Install its plugin; registered are: mine"
