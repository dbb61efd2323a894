"""Memories that fit a prompt, shown to the model as data that nobody has to obey (memory 7.4)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from hermitcrab.errors import HermitcrabError
from hermitcrab.hooks.turn import PromptBuild
from hermitcrab.memory.longterm.contract import LongTermStore, Memory
from hermitcrab.memory.longterm.sanitising import sanitised, without_media
from hermitcrab.memory.longterm.screening import contamination
from hermitcrab.memory.longterm.settings import LongTermSettings
from hermitcrab.memory.prompts import MODEL_NOTE, RECALLED_NOTICE
from hermitcrab.memory.tools import Cooldown
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.keys import is_private

if TYPE_CHECKING:
    from hermitcrab.hooks.context import HookContext
    from hermitcrab.hooks.turn import BeforePromptBuild
    from hermitcrab.messages.types import Message

#: How long a prompt waits for its memories, in seconds; less than the 15 s that its hook has.
DEADLINE_S = 14.0

#: A prompt of fewer characters recalls nothing; two are enough where they are CJK.
SHORTEST_PROMPT = 5

#: A recalled memory shows at most this many characters.
LONGEST_SHOWN = 2_000

_TAG = "relevant-memories"
_CJK = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2}")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_log = logging.getLogger("hermitcrab.memory")


async def recall_for_prompt(
    event: BeforePromptBuild,
    ctx: HookContext,
    settings: LongTermSettings,
    *,
    cooldown: Cooldown | None = None,
    deadline_s: float = DEADLINE_S,
) -> PromptBuild | None:
    """The memories that fit the prompt of a turn, to go before it; ``None`` where there are none.

    A store that fails or is slow is a warning, and the turn goes on without memories; ``cooldown``, one per agent,
    then leaves it alone for a while.
    """
    store = store_of(ctx, settings)
    if store is None or not settings.auto_recall or (cooldown is not None and cooldown.error()):
        return None
    query = query_of(event.prompt, event.messages, longest=settings.recall_max_chars)
    if not query:
        return None
    try:
        async with asyncio.timeout(deadline_s):
            found = await store.recall(
                query,
                limit=max(settings.auto_recall_overfetch, settings.recall_result_cap),
                min_score=settings.recall_min_score,
            )
    except Exception as error:  # noqa: BLE001 - no memory is worth a turn
        told = failure_text(error, deadline_s)
        if cooldown is not None:
            cooldown.start(told)
        _log.warning("memories were not recalled: %s", told, extra={"session_key": ctx.session_key})
        return None
    if found.degraded:
        _log.info("memories were recalled by words alone: %s", found.reason)
    block = framed(clean(found.memories)[: settings.recall_result_cap])
    return None if block is None else PromptBuild(prepend_context=block)


class Recaller:
    """Recalls for the turns of all agents, and leaves a store that failed alone for a while; one for each plugin."""

    def __init__(self) -> None:
        self._cooldowns: dict[tuple[Path | None, str], Cooldown] = {}

    async def before_prompt(
        self, event: BeforePromptBuild, ctx: HookContext, settings: LongTermSettings
    ) -> PromptBuild | None:
        """:func:`recall_for_prompt` with the agent's cooldown."""
        key = (ctx.home, ctx.agent_id or "main")
        cooldown = self._cooldowns.setdefault(key, Cooldown())
        return await recall_for_prompt(event, ctx, settings, cooldown=cooldown)


def store_of(ctx: HookContext, settings: LongTermSettings) -> LongTermStore | None:
    """The store of a turn's agent; ``None`` where there is none, and in groups unless settings allow them."""
    key = ctx.session_key or ""
    if not settings.in_groups and not is_private(key):
        return None
    store = getattr(ctx.memory, "long_term", None)
    return store if isinstance(store, LongTermStore) else None


def query_of(prompt: str, messages: Sequence[Message], *, longest: int) -> str:
    """What to search with: the words of the prompt, else of the latest user message; empty if they say too little.

    :param longest: in characters.
    """
    query = " ".join(sanitised(prompt).split())
    if not query:
        texts = (text_of(each) for each in reversed(messages) if each.get("role") == "user")
        query = next((said for each in texts if (said := " ".join(sanitised(each).split()))), "")
    query = query[:longest].strip()
    says_enough = len(query) >= SHORTEST_PROMPT or _CJK.search(query) is not None
    return query if says_enough else ""


def clean(memories: Iterable[Memory]) -> list[Memory]:
    """The memories that may be shown: contaminated ones are left out, annotations of media taken out."""
    shown = []
    for memory in memories:
        text = without_media(memory.text)
        if text and contamination(memory.text) is None:
            shown.append(evolve(memory, text=text))
    return shown


def framed(memories: Sequence[Memory]) -> str | None:
    """The block that goes before a prompt; what would end it early, or looks like markup, is escaped (C75).

    What the model noted by itself is marked as such, so that no guess becomes a fact by being recalled (C81).
    """
    if not memories:
        return None
    lines = [f"{place}. {_line(each)}" for place, each in enumerate(memories, start=1)]
    return "\n".join([f"<{_TAG}>", RECALLED_NOTICE, *lines, f"</{_TAG}>"])


def escaped(text: str) -> str:
    """``text`` without characters that could be markup."""
    return text.translate(_ESCAPES)


def failure_text(error: Exception, deadline_s: float) -> str:
    """What went wrong, in words."""
    if isinstance(error, TimeoutError) and not str(error):
        return f"the memory did not answer within {deadline_s:g} s"
    return str(error) if isinstance(error, HermitcrabError) else f"{type(error).__name__}: {error}"


def _line(memory: Memory) -> str:
    text = " ".join(memory.text.split())
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} …"
    note = f", {MODEL_NOTE}" if memory.source == "tool" else ""
    return f"[{memory.category}{note}] {escaped(shown)}"
