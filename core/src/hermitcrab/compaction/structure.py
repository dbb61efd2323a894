"""The shape of a stored summary: five headings in order, capped, with every required identifier (context 5.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from hermitcrab.compaction.budget import SUMMARY_CHARACTERS
from hermitcrab.messages.identifiers import missing_identifiers, redact
from hermitcrab.messages.tokens import TokenCounter

DECISIONS = "## Decisions"
OPEN_ITEMS = "## Open TODOs"
CONSTRAINTS = "## Constraints/Rules"
ASKS = "## Pending user asks"
IDENTIFIERS = "## Exact identifiers"
HEADINGS = (DECISIONS, OPEN_ITEMS, CONSTRAINTS, ASKS, IDENTIFIERS)
#: What stands under a heading that has nothing to say.
NOTHING = "None."
NO_IDENTIFIERS = "None captured."
#: What stands at the end of a summary that had to be cut.
TRUNCATED = "[Compaction summary truncated to fit budget]"
#: What a split turn or a note behind the sections may take of a summary at most: one third.
TAIL_SHARE = 3
#: Longest part of the latest request that a summary repeats, in characters.
ASK_CHARACTERS = 600
_HEADING_CHARACTERS = 60
#: What counts of an answer at most: characters for each token that it may take, which is more than any language needs,
#: and never more than twice what can be stored.
_ANSWER_CHARACTERS_PER_TOKEN = 12
_SMALLEST_ANSWER_CHARACTERS = 2_000
#: How what follows the sections begins: with another heading, the title of a split turn, or a tag.
_TAIL = re.compile(r"^(?:## |\*\*Turn Context|<[a-z-]+>)", re.MULTILINE)
_LAST_HEADING = re.compile(rf"^{IDENTIFIERS}$", re.MULTILINE)
_MEANT = {heading.removeprefix("## ").casefold(): heading for heading in HEADINGS}


@frozen
class SummaryLimits:
    """How large a stored summary may be, whatever it holds."""

    tokens: int
    characters: int = SUMMARY_CHARACTERS


def split_sections(text: str) -> dict[str, str]:
    """The text under each of the five headings that is there; repeated headings are joined."""
    return _split(text)[1]


def _split(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first heading, and the sections."""
    outside: list[str] = []
    sections: dict[str, list[str]] = {}
    current = outside
    for line in text.splitlines():
        heading = _heading_of(line)
        if heading is None:
            current.append(line)
        else:
            current = sections.setdefault(heading, [])
    return _joined(outside), {heading: _joined(lines) for heading, lines in sections.items()}


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip()


def _heading_of(line: str) -> str | None:
    """The heading that a line means, however a model has marked it up."""
    if len(line) > _HEADING_CHARACTERS or not line.lstrip().startswith(("#", "*")):
        return None
    return _MEANT.get(line.strip().strip("#*:").strip().rstrip(":").casefold())


def headings_in(text: str) -> list[str]:
    """Those of the five headings that stand in ``text``, in its order, repeated ones as often as they do."""
    return [heading for line in text.splitlines() if (heading := _heading_of(line)) is not None]


def has_all_headings(text: str) -> bool:
    """Whether all five headings stand in ``text``, each once and in order."""
    return [line.strip() for line in text.splitlines() if line.strip() in HEADINGS] == list(
        HEADINGS
    )


def split_tail(text: str) -> tuple[str, str]:
    """A stored summary as its five sections and the tail that follows them."""
    last = _LAST_HEADING.search(text)
    tail = _TAIL.search(text, last.end()) if last else None
    return (text[: tail.start()].rstrip(), text[tail.start() :]) if tail else (text, "")


def with_headings(text: str) -> dict[str, str]:
    """All five sections of a model's answer; what stands outside of them is kept under the first."""
    outside, sections = _split(text)
    if outside:
        sections[DECISIONS] = f"{outside}\n{sections.get(DECISIONS, '')}".strip()
    empty = dict.fromkeys(HEADINGS, NOTHING) | {IDENTIFIERS: NO_IDENTIFIERS}
    return {heading: sections.get(heading) or empty[heading] for heading in HEADINGS}


def render(sections: Mapping[str, str], tail: str = "") -> str:
    """The summary as it is stored; ``tail`` follows the last section."""
    body = "\n\n".join(f"{heading}\n{sections[heading]}" for heading in HEADINGS)
    return f"{body}\n\n{tail}" if tail else body


def finish_summary(
    sections: Mapping[str, str],
    *,
    required: Sequence[str],
    latest_ask: str | None,
    tail: str,
    limits: SummaryLimits,
    counter: TokenCounter,
    keep_credentials: bool,
) -> str:
    """The final text: credentials out, the latest ask and all required identifiers in, and within the limits.

    What has to give way is cut in this order: the tail to a third, the identifiers that are not required, the longest
    of the other sections from its end, and the tail altogether.
    """
    clean: Callable[[str], str] = (lambda text: text) if keep_credentials else redact
    parts = {heading: clean(text) for heading, text in sections.items()}
    parts[ASKS] = _with_ask(parts[ASKS], clean(latest_ask) if latest_ask else None)
    parts[IDENTIFIERS] = _with_identifiers(parts[IDENTIFIERS], render(parts), required)
    tail = clean(tail)
    short_tail = _cut_tail(tail, limits, counter)
    for text in (render(parts, tail), render(parts, _truncated(short_tail))):
        if _fits(text, limits, counter):
            return text
    parts[IDENTIFIERS] = _with_identifiers(NO_IDENTIFIERS, "", required)
    for kept_tail in (short_tail, ""):
        cut = _cut_to_fit(parts, kept_tail, limits, counter)
        if cut is not None:
            return cut
    return _bare(required)


def _with_ask(section: str, ask: str | None) -> str:
    if ask is None or not ask.strip():
        return section
    line = _one_line(ask, ASK_CHARACTERS)
    if line in section or " ".join(ask.split()) in " ".join(section.split()):
        return section
    return f"- {line}" if section == NOTHING else f"- {line}\n{section}"


def _with_identifiers(section: str, text: str, required: Sequence[str]) -> str:
    missing = missing_identifiers(text, required)
    if not missing:
        return section
    lines = "\n".join(f"- {identifier}" for identifier in missing)
    return lines if section == NO_IDENTIFIERS else f"{lines}\n{section}"


def _one_line(text: str, characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else cut_graphemes(line, characters - 1) + "…"


def cut_graphemes(text: str, characters: int) -> str:
    """At most ``characters`` code points of a text, never ending inside a grapheme."""
    if len(text) <= characters:
        return text
    import regex

    end = characters
    while end > 0 and not _is_plain_boundary(text[end - 1 : end + 1]):
        end -= 1
    if end == characters:
        return text[:end]
    for match in regex.finditer(r"\X", text[end : characters + 64]):
        if match.end() > characters - end:
            return text[: end + match.start()]
    return text[:characters]


def cut_answer(text: str, max_tokens: int) -> str:
    """An answer without white space around it; of one that is far too long, its beginning, in whole lines if it can be.

    Nothing else is ever done with the rest: it is not read, and its tokens are not counted.
    """
    most = max(_SMALLEST_ANSWER_CHARACTERS, max_tokens * _ANSWER_CHARACTERS_PER_TOKEN)
    limit = min(2 * SUMMARY_CHARACTERS, most)
    text = text.strip()
    if len(text) <= limit:
        return text
    line_end = text.rfind("\n", limit // 2, limit)
    return (text[:line_end] if line_end > 0 else cut_graphemes(text, limit)).rstrip()


def _is_plain_boundary(pair: str) -> bool:
    """Whether a grapheme surely ends between two characters, so that nothing before them need be looked at."""
    return pair.isascii() and pair != "\r\n"


def _truncated(tail: str) -> str:
    return f"{tail}\n{TRUNCATED}" if tail else TRUNCATED


def _cut_tail(tail: str, limits: SummaryLimits, counter: TokenCounter) -> str:
    """The beginning of a tail, so that it cannot starve the sections."""
    share = SummaryLimits(limits.tokens // TAIL_SHARE, limits.characters // TAIL_SHARE)
    while tail and not _fits(tail, share, counter):
        tail = cut_graphemes(tail, min(share.characters, len(tail) * 7 // 8)).rstrip()
    return tail


def _fits(text: str, limits: SummaryLimits, counter: TokenCounter) -> bool:
    return len(text) <= limits.characters and counter.text(text) <= limits.tokens


def _cut_to_fit(
    parts: Mapping[str, str], tail: str, limits: SummaryLimits, counter: TokenCounter
) -> str | None:
    """Cut the four free sections to one common length, found so that the whole fits; ``None`` if none does."""
    longest = max(len(parts[heading]) for heading in HEADINGS[:-1])
    low, high = 0, min(longest, limits.characters)
    best: str | None = None
    while low <= high:
        middle = (low + high) // 2
        cut = {heading: _cut_section(parts[heading], middle) for heading in HEADINGS[:-1]}
        text = render({**cut, IDENTIFIERS: parts[IDENTIFIERS]}, _truncated(tail))
        if _fits(text, limits, counter):
            best, low = text, middle + 1
        else:
            high = middle - 1
    return best


def _cut_section(text: str, characters: int) -> str:
    """Whole lines from the start of a section, the newest by convention; at least the start of the first."""
    if len(text) <= characters:
        return text
    kept: list[str] = []
    left = characters
    for line in text.splitlines():
        if len(line) + 1 > left:
            break
        kept.append(line)
        left -= len(line) + 1
    if not kept and characters > 8:
        kept.append(cut_graphemes(text.splitlines()[0], characters - 1) + "…")
    return "\n".join(kept) or "…"


def _bare(required: Sequence[str]) -> str:
    """The smallest summary there is; reached only where the limits leave no room for any sentence."""
    sections = dict.fromkeys(HEADINGS, NOTHING)
    return render({**sections, IDENTIFIERS: _with_identifiers(NO_IDENTIFIERS, "", required)})
