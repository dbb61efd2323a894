"""When a transcript that grows is worth indexing again (memory 3.9)."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.sessions.format import decode_line

_BLOCK_BYTES = 64 * 1024


@frozen(kw_only=True)
class Thresholds:
    """How much a transcript may grow before it is indexed again; at 0 or below every change counts.

    ``after_compaction`` says that a transcript that was compacted does not wait for either.
    """

    delta_bytes: int = 100_000
    delta_messages: int = 50
    after_compaction: bool = True


@frozen(kw_only=True)
class Growth:
    """What came to a transcript since it was indexed: in bytes, in lines, and whether a compaction is among it.

    ``seen`` is the size of the file up to which that is known.
    """

    seen: int = 0
    bytes: int = 0
    messages: int = 0
    compacted: bool = False


def grown(known: Growth, size: int, *, messages: int = 0, compacted: bool = False) -> Growth:
    """The growth now that the file has ``size`` bytes; ``messages`` and ``compacted`` tell of those not yet seen.

    A file that has shrunk is another one: its whole size is new.
    """
    if size < known.seen:
        return Growth(seen=size, bytes=size, messages=messages, compacted=compacted)
    return evolve(
        known,
        seen=size,
        bytes=known.bytes + size - known.seen,
        messages=known.messages + messages,
        compacted=known.compacted or compacted,
    )


def is_due(growth: Growth, thresholds: Thresholds) -> bool:
    """Whether a transcript has grown enough to be indexed again."""
    if growth.bytes <= 0:
        return False
    return (
        growth.bytes >= thresholds.delta_bytes
        or growth.messages >= thresholds.delta_messages
        or (growth.compacted and thresholds.after_compaction)
    )


def measured(known: Growth, path: Path, size: int, thresholds: Thresholds) -> Growth:
    """The growth of the file at ``path``; what is new is read only where its size does not decide. Blocking.

    :raises OSError: if it cannot be read.
    """
    if size == known.seen:
        return known
    by_size = grown(known, size)
    if is_due(by_size, thresholds):
        return by_size
    start = known.seen if size > known.seen else 0
    messages, compacted = _counted(path, start, size)
    return grown(known, size, messages=messages, compacted=compacted)


def _counted(path: Path, start: int, end: int) -> tuple[int, bool]:
    """How many lines end between two offsets, and whether a compaction is among them."""
    messages, compacted, rest = 0, False, b""
    with path.open("rb") as file:
        file.seek(start)
        while start < end:
            block = file.read(min(_BLOCK_BYTES, end - start))
            if not block:
                break
            start += len(block)
            *lines, rest = (rest + block).split(b"\n")
            messages += len(lines)
            compacted = compacted or any(map(_is_compaction, lines))
    return messages, compacted


def _is_compaction(line: bytes) -> bool:
    if b'"compaction"' not in line:
        return False
    entry = decode_line(line)
    return entry is not None and entry["type"] == "compaction"
