"""What each word piece of a text weighs, by what its word weighs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_WORD = re.compile(r"[^\W_]+")


def piece_weights(
    text: str, spans: Iterable[tuple[int, int]], weights: Mapping[str, float]
) -> list[float]:
    """For each span of ``text`` the weight of the first word in it; 0 without one, and for words without a weight.

    ``weights`` has words in lower case.
    """
    at: dict[int, float] = {}
    for word in _WORD.finditer(text):
        at.update(dict.fromkeys(range(*word.span()), weights.get(word[0].lower(), 0.0)))
    return [next((at[place] for place in range(*span) if place in at), 0.0) for span in spans]
