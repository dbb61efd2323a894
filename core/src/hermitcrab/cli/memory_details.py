"""What a memory backend tells of itself, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# These stand in lines of their own already.
_SHOWN_ELSEWHERE = frozenset({"provider", "model", "remote", "batch", "sourceCounts"})


def detail_fields(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The details of a :class:`~hermitcrab.memory.MemoryStatus` as names and values; empty ones are left out."""
    for name, value in details.items():
        text = _text(value)
        if text and name not in _SHOWN_ELSEWHERE:
            yield name, text


def cost_note(details: Mapping[str, Any]) -> str | None:
    """What making the missing vectors costs, where the embedding provider may charge for it."""
    vector = details.get("vector")
    cost = vector.get("cost") if isinstance(vector, Mapping) else None
    if not isinstance(cost, Mapping):
        return None
    from hermitcrab.cli.wording import amount

    return (
        f"{details.get('provider')}/{details.get('model')} is asked for the vectors of"
        f" {amount(cost['texts'], 'text')}, about {cost['tokens']:,} tokens; it may charge for them"
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
