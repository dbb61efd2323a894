"""What ``hermitcrab memory explain`` prints: each hit with what its place in the order came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermitcrab.memory.contract import Explanation


def print_explanations(explanations: Sequence[Explanation]) -> None:
    """One line for each hit with its reasons behind it, then what it shows."""
    from hermitcrab.cli.output import note, say

    for position, each in enumerate(explanations):
        if position:
            say()
        hit = each.hit
        say(f"{position + 1}. {hit.path}:{hit.start_line}-{hit.end_line}  {hit.score:.2f}")
        say(f"   {', '.join(_reasons(each))}", dim=True)
        say(hit.snippet.rstrip())
    if not explanations:
        note("nothing found")


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """An explanation as JSON data; ``fusion`` is the score that the parts were joined to."""
    hit = explanation.hit
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "snippet": hit.snippet,
        "keyword": explanation.keyword,
        "vector": explanation.vector,
        "decay": explanation.decay,
        "namedDate": explanation.named_date,
        "fusion": hit.score,
    }


def _reasons(explanation: Explanation) -> list[str]:
    reasons = [
        f"{name} {share:.2f}"
        for name, share in (("keyword", explanation.keyword), ("vector", explanation.vector))
        if share is not None
    ]
    if explanation.named_date:
        reasons.append("of a date that the query names")
    return [*reasons, f"decay {explanation.decay:.3f}", f"fusion {explanation.hit.score:.2f}"]
