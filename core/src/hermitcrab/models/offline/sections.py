"""A summary as a value: five sections of bullets, newest first, read, merged and written within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import evolve, frozen

from hermitcrab.messages.identifiers import unique_identifiers
from hermitcrab.models.offline.text import cost, cut, plain, without_line_mark, without_repeats

#: The headings of every summary, in order, with the field that holds their bullets (context 5.4).
HEADINGS = {
    "## Decisions": "decisions",
    "## Open TODOs": "open_todos",
    "## Constraints/Rules": "constraints",
    "## Pending user asks": "asks",
    "## Exact identifiers": "identifiers",
}
BULLET_CHARACTERS = 220
ASK_CHARACTERS = 300
MAX_ASKS = 3

_EMPTY = {"identifiers": "None captured."}
_EMPTY_LINES = frozenset({"none", "none captured", "no prior history"})
#: The part of the budget that each section has for itself; what it leaves goes to the others in this order.
_SHARES = {
    "asks": 0.20,
    "decisions": 0.25,
    "constraints": 0.15,
    "open_todos": 0.15,
    "identifiers": 0.25,
}


@frozen(kw_only=True)
class Summary:
    """The bullets of the five sections, newest first, without their marks."""

    decisions: Sequence[str] = ()
    open_todos: Sequence[str] = ()
    constraints: Sequence[str] = ()
    asks: Sequence[str] = ()
    identifiers: Sequence[str] = ()

    def section(self, name: str) -> Sequence[str]:
        bullets: Sequence[str] = getattr(self, name)
        return bullets


def read_summary(text: str) -> Summary:
    """The sections of a summary; text without the headings counts as decisions.

    Other headings and tags end a section: what stands below them is not part of the five.
    """
    found: dict[str, list[str]] = {name: [] for name in HEADINGS.values()}
    current: str | None = None if any(head in text for head in HEADINGS) else "decisions"
    for raw in text.splitlines():
        line = raw.strip()
        if line in HEADINGS:
            current = HEADINGS[line]
        elif line.startswith(("#", "<", "**Turn Context")):
            current = None
        elif current and line and plain(line) not in _EMPTY_LINES:
            is_note = current == "identifiers" and not line.startswith(("- ", "* "))
            found["decisions" if is_note else current].append(without_line_mark(line))
    return Summary(**{name: tuple(bullets) for name, bullets in found.items()})


def merged(newer: Summary, older: Summary) -> Summary:
    """Both summaries, the newer bullets first, each thing once."""

    def both(name: str) -> list[str]:
        return [*newer.section(name), *older.section(name)]

    merged_sections = {name: tuple(without_repeats(both(name))) for name in HEADINGS.values()}
    return evolve(
        Summary(**merged_sections),
        asks=tuple(without_repeats(both("asks"))[:MAX_ASKS]),
        identifiers=tuple(unique_identifiers(both("identifiers"))),
    )


def write_summary(summary: Summary, budget: int) -> str:
    """The text of a summary that costs at most ``budget`` thirds of a token, if the bare headings fit it.

    Each section keeps its first bullets within its share, then the sections fill what is left.
    """
    spare = budget - cost(_text({name: [] for name in HEADINGS.values()}))
    cuts = {name: _bullet_cut(name) for name in _SHARES}
    waiting = {
        name: [bullet for text in summary.section(name) if (bullet := cuts[name](text))]
        for name in _SHARES
    }
    kept: dict[str, list[str]] = {name: [] for name in _SHARES}
    used = 0
    for name, share in _SHARES.items():
        used += _take(waiting[name], kept[name], int(spare * share))
    for name in _SHARES:
        if name == "asks" and not kept[name] and waiting[name]:
            waiting[name][0] = _cut_to_cost(waiting[name][0], spare - used)
        used += _take(waiting[name], kept[name], spare - used)
    return _text(kept)


def _bullet_cut(name: str) -> Callable[[str], str]:
    if name == "identifiers":
        return lambda text: text
    limit = ASK_CHARACTERS if name == "asks" else BULLET_CHARACTERS
    return lambda text: cut(text, limit)


def _take(waiting: list[str], kept: list[str], budget: int) -> int:
    """Move bullets from ``waiting`` to ``kept`` while they fit, and give what they cost."""
    used = 0
    while waiting:
        price = bullet_cost(waiting[0]) if waiting[0] else budget + 1
        if used + price > budget:
            break
        used += price
        kept.append(waiting.pop(0))
    return used


def bullet_cost(bullet: str) -> int:
    """What a bullet costs with its mark, in thirds of a token."""
    return cost(f"- {bullet}\n")


def _cut_to_cost(text: str, budget: int) -> str:
    limit = min(len(text), max(0, budget))
    while limit > 0 and bullet_cost(cut(text, limit)) > budget:
        limit -= max(1, limit // 8)
    return cut(text, limit) if limit > 0 else ""


def _text(sections: dict[str, list[str]]) -> str:
    return "\n\n".join(
        "\n".join([heading, *_bullets(name, sections[name])]) for heading, name in HEADINGS.items()
    )


def _bullets(name: str, bullets: Iterable[str]) -> list[str]:
    lines = [f"- {bullet}" for bullet in bullets]
    return lines or [_EMPTY.get(name, "None.")]
