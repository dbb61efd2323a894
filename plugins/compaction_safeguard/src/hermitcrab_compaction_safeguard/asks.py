"""The pending requests of a summary: the unresolved one first, none that was answered (context 5.7). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hermitcrab.compaction import HEADINGS, NOTHING, cut_graphemes
from hermitcrab.memory.files import keywords
from hermitcrab.messages import Message, text_of, tool_calls_of
from hermitcrab_compaction_safeguard.audit import reflects

NOT_FOREGROUNDED = "latest_user_ask_not_foregrounded"
MARKED_PENDING = "retained_turn_ask_marked_pending"
ASKS = HEADINGS[3]
#: The longest part of a request that is repeated and compared, in characters.
ASK_CHARACTERS = 600
#: Two texts are one request if they share this many of a hundred terms, seen from either.
_SHARED_PERCENT = 80


@frozen(kw_only=True)
class Requests:
    """What is known of the user's requests: the unresolved latest one, those answered, and those not answered."""

    unresolved: str | None = None
    answered: Sequence[str] = ()
    open: Sequence[str] = ()

    def audit(self, pending: str) -> list[str]:
        """What is wrong with the section of pending requests."""
        items = _items(pending)
        reasons = []
        if self.unresolved is not None and not (items and _leads(items[0], self.unresolved)):
            reasons.append(NOT_FOREGROUNDED)
        if any(map(self._is_done, items)):
            reasons.append(MARKED_PENDING)
        return reasons

    def mend(self, pending: str) -> str:
        """The section with the unresolved request first, and without those that were answered."""
        items = [item for item in _items(pending) if not self._is_done(item)]
        ask = self.unresolved
        if ask is not None and not (items and _leads(items[0], ask)):
            others = [item for item in items if not is_same(item, ask)]
            items = [f"- {one_line(ask)}", *others]
        return "\n".join(items) or NOTHING

    def _is_done(self, item: str) -> bool:
        if not any(is_same(item, ask) for ask in self.answered):
            return False
        return not any(is_same(item, ask) for ask in (*self.open, self.unresolved or ""))


def pending_in(text: str) -> str:
    """The section of pending requests of a stored summary."""
    after = f"\n{text}".partition(f"\n{ASKS}\n")[2]
    return after.partition(f"\n{HEADINGS[4]}\n")[0].strip()


def answered_and_open(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    """The requests that the assistant answered before the next one, and the others.

    A question in return is no answer, nor is a call of a tool.
    """
    answered: list[str] = []
    waiting: list[str] = []
    ask = ""
    for message in messages:
        text = text_of(message).strip()
        role = message.get("role")
        if role == "user" and text:
            waiting += [ask] if ask else []
            ask = text
        elif role == "assistant" and ask and text and not tool_calls_of(message):
            (waiting if text.endswith(("?", "？", "؟")) else answered).append(ask)
            ask = ""
    return answered, waiting + ([ask] if ask else [])


def is_same(item: str, ask: str) -> bool:
    """Whether a pending item is a request: the same text, or most terms of either and every number of both."""
    one, other = _plain(item), _plain(ask)
    if not one or not other:
        return False
    if one == other:
        return True
    terms, wanted = _terms(one), _terms(other)
    if not terms or not wanted or _numbers(terms) != _numbers(wanted):
        return False
    return 100 * len(terms & wanted) >= _SHARED_PERCENT * max(len(terms), len(wanted))


def one_line(ask: str) -> str:
    """A request as it is listed and kept: one line, at most 600 characters."""
    line = " ".join(ask.split())
    return line if len(line) <= ASK_CHARACTERS else cut_graphemes(line, ASK_CHARACTERS - 1) + "…"


def _leads(item: str, ask: str) -> bool:
    """Whether the first item takes a request up, or is the beginning of it where it was cut."""
    begun = item.removeprefix("- ").rstrip("…").strip()
    return reflects(item, ask) or (item.endswith("…") and one_line(ask).startswith(begun))


def _items(section: str) -> list[str]:
    """The items of a section, each with its indented lines."""
    items: list[list[str]] = []
    for line in section.splitlines():
        if not line.strip() or (line.strip().removeprefix("- ") == NOTHING):
            continue
        if line[0].isspace() and items:
            items[-1].append(line)
        else:
            items.append([line])
    return ["\n".join(lines) for lines in items]


def _plain(text: str) -> str:
    return one_line(text[: 4 * ASK_CHARACTERS].strip().lstrip("-*• ")).casefold().rstrip(".!?。 ")


def _terms(text: str) -> frozenset[str]:
    terms = keywords(text)
    return frozenset(terms.words + terms.pairs or terms.characters)


def _numbers(terms: frozenset[str]) -> frozenset[str]:
    return frozenset(term for term in terms if any(map(str.isdigit, term)))
