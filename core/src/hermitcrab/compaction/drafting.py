"""Writing the summary of a compaction and bringing it into the form in which it is stored (design 7)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve, frozen

from hermitcrab.compaction.budget import Budget, BudgetSettings
from hermitcrab.compaction.composing import SummaryTask
from hermitcrab.compaction.contract import Draft, FinishedSummary, SummaryWish
from hermitcrab.compaction.files import file_lists
from hermitcrab.compaction.identifiers import IdentifierSelection, select_identifiers
from hermitcrab.compaction.outcome import SummaryMode
from hermitcrab.compaction.plan import CompactionPlan, latest_ask
from hermitcrab.compaction.prompts import Advice
from hermitcrab.compaction.serialise import plain_text
from hermitcrab.compaction.structure import (
    IDENTIFIERS,
    NO_IDENTIFIERS,
    NOTHING,
    TAIL_SHARE,
    SummaryLimits,
    cut_answer,
    finish_summary,
    split_sections,
    split_tail,
    with_headings,
)
from hermitcrab.compaction.summarise import SummarySource, SummaryText
from hermitcrab.errors import CompactionError
from hermitcrab.messages.identifiers import (
    extract_identifiers,
    missing_identifiers,
    normal_form,
    redact,
)
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

logger = logging.getLogger("hermitcrab.compaction")

#: Messages whose identifiers must survive (design 7, row "identifiers in summaries").
RECENT_MESSAGES = 10
#: The share of a summary that required identifiers may take.
IDENTIFIER_SHARE = 4
#: Identifiers kept beside the text, in ``details.identifiers``.
OTHER_IDENTIFIERS = 500
SPLIT_TURN_TITLE = "**Turn Context (split turn):**"


class DraftSettings(BudgetSettings, Protocol):
    """The part of ``agents.defaults.compaction`` that the text of a summary depends on."""

    @property
    def identifier_policy(self) -> str: ...
    @property
    def identifier_instructions(self) -> str | None: ...
    @property
    def keep_credentials(self) -> bool: ...


@frozen(kw_only=True)
class SummaryJob:
    """What is to be summarised, and what the last compaction left: its summary and its ``details``.

    ``history`` and ``turn_prefix`` are the messages of the plan, each once where they were delivered twice.
    """

    plan: CompactionPlan
    history: Sequence[Message]
    turn_prefix: Sequence[Message]
    budget: Budget
    identifiers: IdentifierSelection
    focus: str | None = None
    previous_summary: str | None = None
    previous_details: Mapping[str, Any] | None = None


def plugin_draft(summary: str, details: Mapping[str, Any] | None, *, budget: Budget) -> Draft:
    """The summary that a plugin supplies; of one that is far too long, its beginning."""
    answer = cut_answer(summary, budget.summary)
    return Draft(
        sections=with_headings(answer), answer=answer, mode="plugin", details=details or {}
    )


class Drafter:
    """Drafts and finishes summaries."""

    def __init__(self, counter: TokenCounter, settings: DraftSettings) -> None:
        self._counter = counter
        self._settings = settings

    async def by_model(self, source: SummarySource, job: SummaryJob) -> Draft:
        """A model's summary of the history, and of the beginning of the split turn where there is one.

        :raises CompactionError: if the model gives none.
        """
        wish = SummaryWish(
            messages=job.history,
            turn_prefix=job.turn_prefix,
            previous_summary=job.previous_summary,
            focus=job.focus,
        )
        return await self.draft(source, wish, job.budget)

    async def draft(self, source: SummarySource, wish: SummaryWish, budget: Budget) -> Draft:
        """What ``source`` makes of a wish.

        :raises CompactionError: if it gives no summary.
        """
        task = SummaryTask(
            messages=wish.messages or wish.turn_prefix,
            previous_summary=wish.previous_summary,
            advice=self._advice(wish),
            is_turn_prefix=not wish.messages,
            max_tokens=wish.max_tokens or budget.summary,
        )
        main = await source.summarise(task)
        parts = [main]
        sections = [main.note]
        if wish.messages and wish.turn_prefix:
            split = evolve(
                task,
                messages=wish.turn_prefix,
                previous_summary=None,
                is_turn_prefix=True,
                max_tokens=max(64, budget.summary // TAIL_SHARE),
            )
            turn = await source.summarise(split)
            parts.append(turn)
            sections += [turn.note, _split_turn_section(turn.text)]
        details: dict[str, Any] = {"oversizeMessages": main.oversize}
        if main.provider is not None:
            details["provider"] = main.provider
        return Draft(
            sections=with_headings(main.text),
            answer=main.text,
            tail="\n".join(filter(None, sections)),
            mode=_mode_of(parts),
            details=details,
            remarks=tuple(dict.fromkeys(part.remark for part in parts if part.remark)),
        )

    def _advice(self, wish: SummaryWish) -> Advice:
        settings = self._settings
        own = settings.identifier_instructions if settings.identifier_policy == "custom" else None
        return Advice(
            keep_identifiers=settings.identifier_policy != "off",
            identifier_instructions=own,
            focus=wish.focus,
            feedback=wish.feedback,
        )

    async def by_rules(self, offline: SummarySource, job: SummaryJob, reason: str) -> Draft:
        """A summary that needs no model: what the offline model extracts, and how much it stands for.

        It cannot fail: in the worst case it holds what the last summary held.

        :param reason: why no other summary is used.
        """
        try:
            draft = await self.by_model(offline, job)
        except CompactionError as error:
            logger.warning("the offline summary failed as well (%s)", error)
            draft = Draft(sections=with_headings(job.previous_summary or ""), mode="deterministic")
        oversize = draft.details.get("oversizeMessages", 0)
        note = f"Written by rules alone: {len(job.plan.summarised)} messages, {oversize} of them too large."
        return evolve(
            draft,
            mode="deterministic",
            tail=f"{note}\n{draft.tail}".rstrip(),
            remarks=(f"written by rules: {reason}",),
        )

    def finish(self, draft: Draft, job: SummaryJob) -> FinishedSummary:
        """The final text with everything that must stand in it, and what is kept beside it."""
        identifiers = job.identifiers
        text = finish_summary(
            draft.sections,
            required=identifiers.required,
            latest_ask=latest_ask(job.plan.turn_prefix),
            tail=draft.tail,
            limits=SummaryLimits(tokens=job.budget.summary),
            counter=self._counter,
            keep_credentials=self._settings.keep_credentials,
        )
        required = len(identifiers.required)
        files = file_lists(job.plan.messages, job.previous_details)
        details = {
            "readFiles": files.read,
            "modifiedFiles": files.modified,
            **draft.details,
            "identifiers": list(identifiers.others[:OTHER_IDENTIFIERS]),
            "identifiersRequired": required,
            "messagesSummarized": len(job.plan.summarised),
            "mode": draft.mode,
        }
        return FinishedSummary(
            text=text,
            mode=draft.mode,
            tokens=self._counter.text(text),
            identifiers_required=required,
            identifiers_missing=tuple(missing_identifiers(text, identifiers.required)),
            details=details,
            remarks=draft.remarks,
        )

    def clean(self, text: str) -> str:
        """A text without credentials, unless they are to be kept."""
        return text if self._settings.keep_credentials else redact(text)

    def identifiers(
        self, plan: CompactionPlan, budget: Budget, previous_summary: str | None
    ) -> IdentifierSelection:
        """Which identifiers must stand in the text, newest first (design 7); it takes time with many messages."""
        if not self._identifiers_are_required():
            return IdentifierSelection(required=(), others=tuple(_newest(plan.messages, 0)))
        ask = extract_identifiers(latest_ask(plan.summarised) or "")
        body, _ = split_tail(previous_summary or "")
        earlier = extract_identifiers(split_sections(body).get(IDENTIFIERS, ""))
        candidates = [*ask, *_newest(plan.messages[-RECENT_MESSAGES:], None), *earlier]
        limits = SummaryLimits(tokens=budget.summary)
        return select_identifiers(
            candidates,
            _newest(plan.messages, len(candidates)),
            limit=limits.tokens // IDENTIFIER_SHARE,
            characters=limits.characters // IDENTIFIER_SHARE,
            counter=self._counter,
        )

    def _identifiers_are_required(self) -> bool:
        """Not where they do not matter, nor where the operator has said in own words which do."""
        settings = self._settings
        if settings.identifier_policy == "custom":
            return not (settings.identifier_instructions or "").strip()
        return settings.identifier_policy != "off"


def _mode_of(parts: Sequence[SummaryText]) -> SummaryMode:
    if any(part.note for part in parts):
        return "partial"
    return "plugin" if any(part.provider is not None for part in parts) else "model"


def _split_turn_section(summary: str) -> str:
    """What happened in the turn so far, under smaller headings, empty ones left out."""
    parts = [
        f"#{heading}\n{text}"
        for heading, text in with_headings(summary).items()
        if text not in {NOTHING, NO_IDENTIFIERS}
    ]
    return "\n".join((SPLIT_TURN_TITLE, *parts))


def _newest(messages: Sequence[Message], more: int | None) -> list[str]:
    """The identifiers of messages, the newest messages first, each once.

    :param more: how many are wanted beyond those that are kept beside the text; older messages are not looked at once
        there are so many. ``None`` for all.
    """
    found: dict[str, str] = {}
    for message in reversed(messages):
        for identifier in extract_identifiers(plain_text(message)):
            found.setdefault(normal_form(identifier), identifier)
        if more is not None and len(found) >= OTHER_IDENTIFIERS + more:
            break
    return list(found.values())
