"""Deciding what a compaction summarises and what it keeps (context 4.11, design 7). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.serialise import text_with_images
from hermitcrab.messages.pairing import group_messages, iterate_groups
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message
from hermitcrab.sessions.context import ContextItem

#: The roles that start a turn.
_TURN_STARTS = frozenset({"user", "bashExecution", "custom"})

Measure = Callable[[Sequence[Message]], int]


@frozen(kw_only=True)
class CompactionPlan:
    """What to summarise and where the kept part begins.

    ``history`` are whole turns; ``turn_prefix`` is the beginning of a turn that the cut splits. Sizes are tokens of
    the view.
    """

    history: tuple[ContextItem, ...]
    turn_prefix: tuple[ContextItem, ...]
    kept: tuple[ContextItem, ...]
    tokens_before: int

    @property
    def summarised(self) -> tuple[ContextItem, ...]:
        return self.history + self.turn_prefix

    @property
    def first_kept_entry_id(self) -> str:
        return self.kept[0].entry_id

    @property
    def messages(self) -> list[Message]:
        return [item.message for item in self.summarised]


@frozen
class NothingToCompact:
    """A benign outcome: there is nothing that a compaction could take away."""

    reason: str
    tokens_before: int


def plan_compaction(
    items: Sequence[ContextItem],
    budget: Budget,
    measure: Measure,
    *,
    keep_recent: int | None = None,
    unseen_from: int | None = None,
) -> CompactionPlan | NothingToCompact:
    """Choose the cut.

    From the end, whole groups are kept until ``keep_recent`` tokens are reached, as long as they take at most half of
    the usable window; the last group always stays. So do, within the same half, messages of users that nobody has
    answered yet (context 4.11, version B).

    :param items: the context, the previous summary first where there is one.
    :param measure: tokens that messages take in the view.
    :param keep_recent: tokens to keep; the default is the budget's.
    :param unseen_from: index of the first item that this cycle's flush has not seen: the cut never lies behind it.
    """
    tokens_before = measure([item.message for item in items])
    offset = 1 if items and items[0].is_summary else 0
    body = items[offset:]
    groups = group_messages([item.message for item in body])
    if len(groups) < 2:
        return NothingToCompact("the conversation is too short to compact", tokens_before)

    def size(number: int) -> int:
        return measure([body[index].message for index in groups[number]])

    wanted = budget.keep_recent if keep_recent is None else keep_recent
    cut = _first_kept_group(
        size, len(groups) - 1, _first_pending(body, groups), wanted, budget.group
    )
    start = min(groups[cut])
    if unseen_from is not None:
        start = min(start, max(0, unseen_from - offset))
        start = max((min(group) for group in groups if min(group) <= start), default=0)
    if start == 0:
        return NothingToCompact("everything is recent or not yet flushed", tokens_before)
    return _plan(body, start, tokens_before)


def _first_kept_group(
    size: Callable[[int], int], last: int, pending: int, wanted: int, most: int
) -> int:
    """The number of the first group that is kept; only groups that may be kept are measured.

    :param size: tokens of a group; :param last: the number of the last one, which is kept whatever it takes.
    :param pending: the number of the first one that waits for an answer.
    """
    cut = last
    total = size(cut)
    while cut > 0 and (total < wanted or cut > pending):
        more = size(cut - 1)
        if total + more > most:
            break
        cut -= 1
        total += more
    return cut


def _first_pending(body: Sequence[ContextItem], groups: Sequence[Sequence[int]]) -> int:
    """The number of the group from which on users wait for an answer: all behind the last that is not of a user."""
    first = len(groups) - 1
    for number in range(len(groups) - 1, -1, -1):
        item = body[groups[number][0]]
        if item.message.get("role") != "user":
            break
        if not item.is_synthetic:
            first = number
    return first


def takes_at_least(messages: Sequence[Message], tokens: int, measure: Measure) -> bool:
    """Whether messages take this many tokens in the view; no more of them are measured than needed."""
    taken = 0
    for group in iterate_groups(messages):
        taken += measure([messages[index] for index in group])
        if taken >= tokens:
            return True
    return False


def _plan(body: Sequence[ContextItem], start: int, tokens_before: int) -> CompactionPlan:
    turn_start = start
    if body[start].message.get("role") not in _TURN_STARTS:
        turn_start = next(
            (i for i in range(start - 1, -1, -1) if body[i].message.get("role") in _TURN_STARTS), 0
        )
    return CompactionPlan(
        history=tuple(body[:turn_start]),
        turn_prefix=tuple(body[turn_start:start]),
        kept=tuple(body[start:]),
        tokens_before=tokens_before,
    )


def unresolved_ask(plan: CompactionPlan) -> str | None:
    """The latest request in what is summarised, if no answer follows it there or in what is kept (context 5.3)."""
    items = (*plan.summarised, *plan.kept)
    for index in range(len(plan.summarised) - 1, -1, -1):
        ask = latest_ask(items[index : index + 1])
        if ask is not None:
            later = (item.message for item in items[index + 1 :])
            return None if any(map(_is_answer, later)) else ask
    return None


def _is_answer(message: Message) -> bool:
    return (
        message.get("role") == "assistant"
        and not tool_calls_of(message)
        and bool(text_with_images(message).strip())
    )


def latest_ask(items: Sequence[ContextItem]) -> str | None:
    """The text of the last message of a user that says anything; of one that only shows images, how many."""
    for item in reversed(items):
        if item.message.get("role") == "user" and not item.is_synthetic:
            text = text_with_images(item.message).strip()
            if text:
                return text
    return None
