"""What does not grow with history: appending, reading a compacted context, updating one entry."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from bench.harness import Report, Row, Run, Side, compare

from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.log import SessionLog

from .homes import (
    KEY,
    new_session_entry,
    sample_message,
    sessions_in,
    write_compacted_transcript,
    write_transcript,
)
from .scale import Scale

_EXPLANATION = (
    "Ratio: what the second takes in units of the first; 1 means that size costs nothing."
)


async def appending(folder: Path, scale: Scale) -> Report:
    """One message appended to a short and to a long transcript that was never compacted."""
    few, many = folder / "few", folder / "many"
    await asyncio.to_thread(write_transcript, few, "few", entries=scale.few_entries)
    await asyncio.to_thread(write_transcript, many, "many", entries=scale.many_entries)
    async with sessions_in(few) as short, sessions_in(many) as long:
        row = await compare(
            "append one message",
            Side(f"{scale.few_entries:,} entries", _appends(await short.open(KEY))),
            Side(f"{scale.many_entries:,} entries", _appends(await long.open(KEY))),
            count=scale.cheap,
            runs=scale.runs,
        )
    await asyncio.to_thread(shutil.rmtree, many)
    return Report("append", "Appending to a transcript", _EXPLANATION, [row])


def _appends(log: SessionLog) -> Run:
    message = sample_message()

    async def run(count: int) -> None:
        for _ in range(count):
            await log.append_messages([message])

    return run


async def reading(folder: Path, scale: Scale) -> Report:
    """The context of a session opened afresh, in a short and in a long file compacted near the end."""
    small, large = folder / "small", folder / "large"
    await asyncio.to_thread(write_compacted_transcript, small, "small", size=scale.small_bytes)
    await asyncio.to_thread(write_compacted_transcript, large, "large", size=scale.large_bytes)
    row = await compare(
        "open a session and read its context",
        Side(_size_of(small / "small.jsonl"), _reads(small)),
        Side(_size_of(large / "large.jsonl"), _reads(large)),
        count=scale.dear,
        runs=scale.runs,
    )
    await asyncio.to_thread(shutil.rmtree, large)
    return Report("read", "Reading what a turn needs", _EXPLANATION, [row])


def _size_of(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:,.0f} MB"


def _reads(folder: Path) -> Run:
    async def run(count: int) -> None:
        for _ in range(count):
            async with sessions_in(folder) as sessions:
                log = await sessions.open(KEY, create=False)
                if not log.items()[0].is_summary:
                    raise RuntimeError("the context does not begin with the summary")

    return run


async def updating(folder: Path, scale: Scale) -> Report:
    """One field of one entry changed, among few and among many."""
    row = await _update_row(folder, scale)
    return Report("entries", "Updating one session entry", _EXPLANATION, [row])


async def _update_row(folder: Path, scale: Scale) -> Row:
    few, many = folder / "few-keys", folder / "many-keys"
    await asyncio.to_thread(_write_entries, few, scale.few_keys)
    await asyncio.to_thread(_write_entries, many, scale.many_keys)
    async with sessions_in(few) as short, sessions_in(many) as long:
        return await compare(
            "update one entry",
            Side(f"{scale.few_keys:,} entries", _updates(await short.open(KEY))),
            Side(f"{scale.many_keys:,} entries", _updates(await long.open(KEY))),
            count=scale.cheap,
            runs=scale.runs,
        )


def _write_entries(folder: Path, count: int) -> None:
    write_transcript(folder, "main", entries=10)
    entries = SessionEntries(folder / "sessions.sqlite")
    try:
        for number in range(count - 1):
            key = f"agent:main:telegram:direct:{number * 7919 % 1_000_003}"
            entries.put(new_session_entry(key, f"session-{number}"))
    finally:
        entries.close()


def _updates(log: SessionLog) -> Run:
    async def run(count: int) -> None:
        for number in range(count):
            await log.update_entry(record=False, context_tokens=number)

    return run
