"""Writing the summary of a compaction and bringing it into the form in which it is stored (design 7)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from attrs import evolve, field, frozen

from hermitcrab.compaction.budget import Budget, BudgetSettings
from hermitcrab.compaction.files import file_lists
from hermitcrab.compaction.identifiers import IdentifierSelection, select_identifiers
from hermitcrab.compaction.outcome import SummaryMode
from hermitcrab.compaction.plan import CompactionPlan, latest_ask
from hermitcrab.compaction.serialise import plain_text
from hermitcrab.compaction.structure import (
    IDENTIFIERS,
    NO_IDENTIFIERS,
    NOTHING,
    TAIL_SHARE,
    SummaryLimits,
    finish_summary,
    split_sections,
    with_headings,
)
from hermitcrab.compaction.summarise import Summariser, SummaryTask
from hermitcrab.errors import CompactionError
from hermitcrab.messages.identifiers import extract_identifiers, missing_identifiers
from hermitcrab.messages.tokens import TokenCounter

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
    def keep_credentials(self) -> bool: ...


@frozen(kw_only=True)
class SummaryJob:
    """What is to be summarised, and what the last compaction left: its summary and its ``details``."""

    plan: CompactionPlan
    budget: Budget
    focus: str | None = None
    previous_summary: str | None = None
    previous_details: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class Draft:
    """A summary before it is brought into its final form; ``tail`` follows the five sections."""

    sections: Mapping[str, str]
    mode: SummaryMode
    tail: str = ""
    details: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class FinishedSummary:
    """A summary as it is stored, with its size in tokens and the ``details`` of its entry."""

    text: str
    mode: SummaryMode
    tokens: int
    identifiers_required: int
    identifiers_kept: int
    details: Mapping[str, Any]


def plugin_draft(summary: str, details: Mapping[str, Any] | None) -> Draft:
    """The summary that a plugin supplies."""
    return Draft(sections=with_headings(summary), mode="plugin", details=details or {})


class Drafter:
    """Drafts and finishes summaries."""

    def __init__(self, counter: TokenCounter, settings: DraftSettings) -> None:
        self._counter = counter
        self._settings = settings

    async def by_model(self, summariser: Summariser, job: SummaryJob) -> Draft:
        """A model's summary of the history, and of the beginning of the split turn where there is one.

        :raises CompactionError: if the model gives none.
        """
        history = [item.message for item in job.plan.history]
        prefix = [item.message for item in job.plan.turn_prefix]
        task = SummaryTask(
            messages=history or prefix,
            previous_summary=job.previous_summary,
            focus=job.focus,
            keep_identifiers=self._settings.identifier_policy != "off",
            is_turn_prefix=not history,
            max_tokens=job.budget.summary,
        )
        main = await summariser.summarise(task)
        notes = [main.note]
        if history and prefix:
            split = evolve(
                task,
                messages=prefix,
                previous_summary=None,
                is_turn_prefix=True,
                max_tokens=max(64, job.budget.summary // TAIL_SHARE),
            )
            turn = await summariser.summarise(split)
            notes += [turn.note, _split_turn_section(turn.text)]
        return Draft(
            sections=with_headings(main.text),
            tail="\n".join(filter(None, notes)),
            mode="partial" if any(notes[:2]) else "model",
            details={"oversizeMessages": main.oversize},
        )

    async def by_rules(self, offline: Summariser, job: SummaryJob) -> Draft:
        """A summary that needs no model: what the offline model extracts, and how much it stands for.

        It cannot fail: in the worst case it holds what the last summary held.
        """
        try:
            draft = await self.by_model(offline, job)
        except CompactionError as error:
            logger.warning("the offline summary failed as well (%s)", error)
            draft = Draft(sections=with_headings(job.previous_summary or ""), mode="deterministic")
        oversize = draft.details.get("oversizeMessages", 0)
        note = f"Written by rules alone: {len(job.plan.summarised)} messages, {oversize} of them too large."
        return evolve(draft, mode="deterministic", tail=f"{note}\n{draft.tail}".rstrip())

    def finish(self, draft: Draft, job: SummaryJob) -> FinishedSummary:
        """The final text with everything that must stand in it, and what is kept beside it."""
        limits = SummaryLimits(tokens=job.budget.summary)
        identifiers = self._identifiers(job, limits)
        text = finish_summary(
            draft.sections,
            required=identifiers.required,
            latest_ask=latest_ask(job.plan.turn_prefix),
            tail=draft.tail,
            limits=limits,
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
            identifiers_kept=required - len(missing_identifiers(text, identifiers.required)),
            details=details,
        )

    def _identifiers(self, job: SummaryJob, limits: SummaryLimits) -> IdentifierSelection:
        """Which identifiers must stand in the text, newest first (design 7)."""
        found = [extract_identifiers(plain_text(message)) for message in job.plan.messages]
        everything = [one for group in reversed(found) for one in group]
        if self._settings.identifier_policy == "off":
            return IdentifierSelection(required=(), others=tuple(dict.fromkeys(everything)))
        ask = extract_identifiers(latest_ask(job.plan.summarised) or "")
        recent = [one for group in reversed(found[-RECENT_MESSAGES:]) for one in group]
        sections = split_sections(job.previous_summary or "")
        earlier = extract_identifiers(sections.get(IDENTIFIERS, ""))
        return select_identifiers(
            [*ask, *recent, *earlier],
            everything,
            limit=limits.tokens // IDENTIFIER_SHARE,
            characters=limits.characters // IDENTIFIER_SHARE,
            counter=self._counter,
        )


def _split_turn_section(summary: str) -> str:
    """What happened in the turn so far, under smaller headings, empty ones left out."""
    parts = [
        f"#{heading}\n{text}"
        for heading, text in with_headings(summary).items()
        if text not in {NOTHING, NO_IDENTIFIERS}
    ]
    return "\n".join((SPLIT_TURN_TITLE, *parts))
