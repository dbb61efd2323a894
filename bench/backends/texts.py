"""The entries that every backend is given, and the questions about them: the same at each run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

_SYLLABLES = ("ba", "ko", "ri", "ten", "mal", "os", "vi", "dra", "pel", "un", "ga", "sim", "to")
_WORDS = 4_000
_WORDS_IN_ENTRY = 14
_ENTRIES_IN_FILE = 200
_WORDS_IN_QUESTION = 4


def entries_of(size: int) -> list[str]:
    """``size`` texts of 14 words, of which a few are frequent and most are rare, as in a language."""
    chance = random.Random(size)
    words = _vocabulary()
    weights = [1 / (rank + 10) for rank in range(len(words))]
    drawn = chance.choices(words, weights=weights, k=size * (_WORDS_IN_ENTRY - 1))
    step = _WORDS_IN_ENTRY - 1
    return [
        f"entry{number} " + " ".join(drawn[number * step : (number + 1) * step])
        for number in range(size)
    ]


def questions_about(entries: list[str], count: int) -> Iterator[tuple[str, str]]:
    """Questions of four words of an entry each, and the entry; its number is not asked for."""
    chance = random.Random(count)
    for entry in chance.choices(entries, k=count):
        words = entry.split()[1:]
        yield " ".join(chance.sample(words, _WORDS_IN_QUESTION)), entry


def write_notes(workspace: Path, entries: list[str]) -> None:
    """Write the entries as list items, 200 to a file."""
    folder = workspace / "memory" / "entries"
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(entries), _ENTRIES_IN_FILE):
        items = "".join(f"- {entry}\n" for entry in entries[start : start + _ENTRIES_IN_FILE])
        (folder / f"{start:06}.md").write_text(items, encoding="utf-8")


def _vocabulary() -> list[str]:
    chance = random.Random(0)
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        words["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4)))] = None
    return list(words)
