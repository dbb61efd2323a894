"""The audit: what is wrong with a summary, as reasons that a model can read (context 5.7). Pure, and linear in time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve

from hermitcrab.compaction import (
    HEADINGS,
    NO_IDENTIFIERS,
    NOTHING,
    Draft,
    FinishedSummary,
    headings_in,
)
from hermitcrab.memory.files import index_terms, keywords

#: Terms of the latest ask that are looked for, and identifiers that a reason names.
ASK_TERMS = 12
_NAMED_IDENTIFIERS = 3

NO_HEADING = "no_heading"
NOTHING_SAID = "nothing_said"
ASK_NOT_REFLECTED = "latest_user_ask_not_reflected"
TOO_LONG = "too_long"
#: Reasons whose cause the host has repaired in the stored text: a heading is supplied, sections of one heading are
#: joined, invented identifiers are taken out, pending requests are put right, and what is too long is cut. A repeated
#: failure is no reason to reject.
_REPAIRED = (
    "missing_section:",
    "duplicate_section:",
    "invented_identifiers:",
    TOO_LONG,
    "latest_user_ask_not_foregrounded",
    "retained_turn_ask_marked_pending",
)

#: What is looked at of a request, and of a summary, in characters: a few characters can stand for very many terms.
_ASK_CHARACTERS = 2_000
_TEXT_CHARACTERS = 16_000
#: What stands in a request for the images that it shows.
_IMAGES = re.compile(r"\[[0-9]{1,6} images? not shown\]")
#: The last heading, under which identifiers stand.
IDENTIFIERS = HEADINGS[-1]
_OF_SPLIT_TURN = f"#{IDENTIFIERS}"
_EMPTY = frozenset({"", NOTHING, NO_IDENTIFIERS})


def audit_answer(draft: Draft, *, ask: str | None, invented: Sequence[str]) -> list[str]:
    """What is wrong with what was written.

    :param ask: the latest request of the user in what is summarised.
    :param invented: identifiers of the answer that stand nowhere in what is summarised.
    """
    counts = Counter(headings_in(draft.answer))
    reasons = [f"missing_section:{each}" for each in HEADINGS if not counts[each]]
    reasons += [f"duplicate_section:{each}" for each in HEADINGS if counts[each] > 1]
    if not counts:
        reasons = [NO_HEADING]
    if all(_is_empty(text) for text in draft.sections.values()):
        reasons.append(NOTHING_SAID)
    if invented:
        reasons.append(f"invented_identifiers:{', '.join(invented[:_NAMED_IDENTIFIERS])}")
    written = "\n".join((*draft.sections.values(), draft.tail))
    if ask is not None and not reflects(written, ask):
        reasons.append(ASK_NOT_REFLECTED)
    return reasons


def audit_stored(summary: FinishedSummary, *, ask: str | None) -> list[str]:
    """What is wrong with the text exactly as it would be stored."""
    counts = Counter(line.strip() for line in summary.text.splitlines())
    reasons = [f"stored_section:{each}" for each in HEADINGS if counts[each] != 1]
    if summary.identifiers_missing:
        named = ", ".join(summary.identifiers_missing[:_NAMED_IDENTIFIERS])
        reasons.append(f"missing_identifiers:{named}")
    if ask is not None and not reflects(summary.text, ask):
        reasons.append(f"stored_{ASK_NOT_REFLECTED}")
    return reasons


def is_acceptable(reasons: Iterable[str]) -> bool:
    """Whether a summary may be stored although this is wrong with it, because the stored text is right."""
    return all(each.startswith(_REPAIRED) or each == ASK_NOT_REFLECTED for each in reasons)


def reflects(text: str, ask: str) -> bool:
    """Whether a text takes up a request: at least two of its first terms, or one where it has fewer than three."""
    wanted = _first_terms(ask[:_ASK_CHARACTERS])
    if not wanted:
        return True
    terms = index_terms(text[:_TEXT_CHARACTERS])
    found = {*terms.words, *terms.pairs, *terms.characters}
    return sum(term in found for term in wanted) >= (2 if len(wanted) > 2 else 1)


def _first_terms(ask: str) -> tuple[str, ...]:
    terms = keywords(_IMAGES.sub("", ask))
    long = tuple(word for word in terms.words if len(word) > 1)
    return (long + terms.pairs or terms.words + terms.characters)[:ASK_TERMS]


def named_identifiers(draft: Draft) -> str:
    """What a draft says under the heading of identifiers, of a split turn too."""
    return "\n".join((draft.sections[IDENTIFIERS], draft.tail.partition(_OF_SPLIT_TURN)[2]))


def without_invented(draft: Draft, invented: Sequence[str]) -> Draft:
    """The draft without the lines under the heading of identifiers that name invented ones."""
    before, heading, after = draft.tail.partition(_OF_SPLIT_TURN)
    section = _without_lines(draft.sections[IDENTIFIERS], invented) or NO_IDENTIFIERS
    rest = _without_lines(after, invented)
    return evolve(
        draft,
        sections={**draft.sections, IDENTIFIERS: section},
        tail=f"{before}{heading}\n{rest}" if rest else before.rstrip(),
    )


def _without_lines(text: str, invented: Sequence[str]) -> str:
    lines = (line for line in text.splitlines() if not any(one in line for one in invented))
    return "\n".join(lines).strip()


def _is_empty(text: str) -> bool:
    return all(line.strip().removeprefix("- ") in _EMPTY for line in text.splitlines())
