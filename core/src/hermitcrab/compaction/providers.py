"""Compaction providers: summarisers of plugins, which ``compaction.provider`` names (context 5.3)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from hermitcrab.compaction.composing import SummaryTask, instructions_for
from hermitcrab.compaction.contract import CompactionProvider, SummaryRequest
from hermitcrab.compaction.structure import cut_answer
from hermitcrab.compaction.summarise import SummarySource, SummaryText
from hermitcrab.context import EngineContext
from hermitcrab.errors import CompactionError
from hermitcrab.messages.types import Message
from hermitcrab.plugins.registry import Registry

logger = logging.getLogger("hermitcrab.compaction")

#: The longest part of a provider's own words in a remark, in characters.
_REASON_CHARACTERS = 300


@frozen(kw_only=True)
class ChosenProvider:
    """The provider that config names; ``failure`` says why there is none."""

    id: str
    provider: CompactionProvider | None = None
    failure: str | None = None


def choose_provider(
    provider_id: str, registry: Registry[Any], context: Callable[[str], EngineContext]
) -> ChosenProvider:
    """Make the provider of this id; what prevents it is in the result.

    :param context: makes what a factory is called with, for the id of the plugin that registered it.
    """
    value = registry.find(provider_id)
    if value is None:
        return ChosenProvider(id=provider_id, failure="no plugin has registered it")
    plugin_id = (registry.owner_of(provider_id) or "").removeprefix("plugin:")
    try:
        provider = value
        if inspect.isclass(value) or not hasattr(value, "summarise"):
            provider = value(context(plugin_id)) if _takes_argument(value) else value()
    except Exception as error:
        logger.warning(
            "the compaction provider %s could not be made",
            provider_id,
            exc_info=True,
            extra={"plugin_id": plugin_id},
        )
        return ChosenProvider(id=provider_id, failure=f"it could not be made: {_words_of(error)}")
    if not callable(getattr(provider, "summarise", None)):
        return ChosenProvider(id=provider_id, failure="it has no method summarise")
    return ChosenProvider(id=provider_id, provider=provider)


def _takes_argument(factory: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)


class ProvidedSummaries:
    """Has the chosen provider summarise, and the host's own summariser where that fails.

    Each request has ``timeout_s`` seconds.
    """

    def __init__(
        self, chosen: ChosenProvider, fallback: SummarySource, *, timeout_s: float
    ) -> None:
        self._chosen = chosen
        self._fallback = fallback
        self._timeout_s = timeout_s

    async def summarise(self, task: SummaryTask) -> SummaryText:
        """Summarise; the result says who did, and why it was not the provider.

        :raises CompactionError: if neither gives a summary.
        """
        try:
            text = await self._ask(task)
        except CompactionError as error:
            remark = f'the compaction provider "{self._chosen.id}" is not used: {error.message}'
        else:
            return SummaryText(text=text, provider=self._chosen.id)
        logger.warning("%s", remark)
        try:
            summary = await self._fallback.summarise(task)
        except CompactionError as error:
            raise CompactionError(
                f"{remark}; {error.message}", where=error.where, hint=error.hint
            ) from error
        return evolve(summary, remark="; ".join(filter(None, (remark, summary.remark))))

    async def _ask(self, task: SummaryTask) -> str:
        provider = self._chosen.provider
        if provider is None:
            raise CompactionError(self._chosen.failure or "it is missing")
        request = SummaryRequest(
            messages=[_without_details(message) for message in task.messages],
            instructions=instructions_for(task, update=task.previous_summary is not None),
            custom_instructions=task.advice.focus,
            previous_summary=task.previous_summary,
            max_tokens=task.max_tokens,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                given: Any = provider.summarise(request)
                text = await given if inspect.isawaitable(given) else given
        except TimeoutError:
            raise CompactionError(f"no summary within {self._timeout_s:g} s") from None
        except Exception as error:
            # Foreign code may raise anything; it must not end the turn.
            logger.debug("the compaction provider %s failed", self._chosen.id, exc_info=True)
            raise CompactionError(_words_of(error)) from error
        answer = cut_answer(text, task.max_tokens) if isinstance(text, str) else ""
        if not answer:
            raise CompactionError("it returned no text")
        return answer


def _words_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS]


def _without_details(message: Message) -> Message:
    """The message without what tools noted beside their result; the same object if there is nothing of the kind."""
    if "details" not in message:
        return message
    copy = message.copy()
    del copy["details"]
    return copy
