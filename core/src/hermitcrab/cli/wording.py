"""Sentences about things that several commands report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermitcrab.sessions.reading import ReadFaults


def describe_faults(faults: ReadFaults) -> list[str]:
    """What a reader of a transcript passed over, one sentence each."""
    sentences = []
    if faults.header_rebuilt:
        sentences.append(
            "the header is missing or damaged; id and time come from the file name and the first entries"
        )
    if faults.bad_lines:
        count = len(faults.bad_lines)
        sentences.append(
            f"{count} {'line holds' if count == 1 else 'lines hold'} no entry and"
            f" {'is' if count == 1 else 'are'} passed over, the first at byte {faults.bad_lines[0]:,}"
        )
    if faults.missing_ancestor:
        sentences.append(
            f"the entry {faults.missing_ancestor} is named as a parent and is not there"
        )
    if faults.unfinished_bytes:
        sentences.append(f"the last line has no end, {faults.unfinished_bytes:,} bytes")
    return sentences


def amount(count: int, thing: str, things: str | None = None) -> str:
    """``1 file``, ``2 files``; ``things`` where the plural is another word."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {things or f'{thing}s'}"
