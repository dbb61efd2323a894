"""The table of hooks in the guide is the table in the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from hermitcrab.hooks.specifications import HOOKS, HookSpecification

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "writing-a-plugin.md"
MODES = {"void": "observing", "sync": "synchronous"}
#: Fields that the host fills in; what a handler puts there is ignored.
FILLED_BY_HOST = ("decided_by", "cancelled_by", "summarised_by")


def expected_rows() -> Iterator[str]:
    yield "| Hook | When | Event | Answer | Mode | Timeout |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for hook in HOOKS.values():
        limit = hook.default_timeout_ms
        cells = (
            f"`{hook.name}`",
            first_sentence(hook.event.__doc__ or ""),
            ", ".join(f"`{each.name}`" for each in attrs.fields(hook.event)),
            answer(hook.result),
            mode(hook),
            "none" if limit is None else f"{limit / 1000:g} s",
        )
        yield f"| {' | '.join(cells)} |"


def first_sentence(text: str) -> str:
    words = " ".join(text.replace("``", "`").split())
    return words.partition(". ")[0].rstrip(".") + "."


def answer(result: type | None) -> str:
    if result is None:
        return ""
    names = [each.name for each in attrs.fields(result) if each.name not in FILLED_BY_HOST]
    return f"`{result.__name__}`: {', '.join(f'`{name}`' for name in names)}"


def mode(hook: HookSpecification) -> str:
    words = [MODES.get(hook.mode, hook.mode)]
    if hook.gate:
        words.append("gate")
    if hook.mode == "void":
        words.append("awaited" if hook.awaited else "in the background")
    return ", ".join(words)


def test_the_table_of_hooks_is_the_one_in_the_code():
    section = PAGE.read_text("utf-8").partition("\n## All hooks\n")[2]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert "\n".join(rows) == "\n".join(expected_rows())


def test_every_hook_in_the_picture_of_a_turn_exists():
    shown = re.findall(r'class="hook"[^>]*>(\w+)<', (DOCS / "turn.svg").read_text("utf-8"))
    assert len(shown) > 15
    assert set(shown) <= set(HOOKS)
