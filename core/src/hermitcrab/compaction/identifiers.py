"""Which identifiers a summary must repeat (design 7, row "identifiers in summaries")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from hermitcrab.messages.identifiers import normal_form
from hermitcrab.messages.tokens import TokenCounter


@frozen(kw_only=True)
class IdentifierSelection:
    """Identifiers of what is summarised: those that must stand in the text, and all others, newest first."""

    required: tuple[str, ...]
    others: tuple[str, ...]


def select_identifiers(
    newest_first: Sequence[str],
    everything: Iterable[str],
    *,
    limit: int,
    characters: int,
    counter: TokenCounter,
) -> IdentifierSelection:
    """Those that must stand in the summary: as many as fit, newest first (design 7).

    :param limit: tokens and
    :param characters: characters that they may take, each on a line of its own.
    :param newest_first: candidates, in order of preference.
    :param everything: all identifiers of what is summarised; those not required are the others.
    """
    required: dict[str, str] = {}
    left = limit
    for identifier in newest_first:
        line = f"- {identifier}\n"
        cost = counter.text(line) + 1
        if normal_form(identifier) in required or cost > left or len(line) > characters:
            continue
        left -= cost
        characters -= len(line)
        required[normal_form(identifier)] = identifier
    others = {normal_form(one): one for one in (*newest_first, *everything)}
    return IdentifierSelection(
        required=tuple(required.values()),
        others=tuple(one for form, one in others.items() if form not in required),
    )
