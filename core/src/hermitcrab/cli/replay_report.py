"""The report of a replay, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermitcrab.cli.output import print_fields, print_table, say
from hermitcrab.cli.wording import amount

_COLUMNS = ("compaction", "before", "after", "summary", "messages", "identifiers", "mode", "ms")


def print_report(report: Mapping[str, Any]) -> None:
    """Print what a replay measured."""
    print_fields(_fields(report))
    if report["compactions"]:
        say()
        rows = (_row(number, each) for number, each in enumerate(report["compactions"], 1))
        print_table(_COLUMNS, rows, numbers=set(_COLUMNS) - {"mode"})


def _fields(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    source, pairing, timings = report["source"], report["pairing"], report["timings"]
    damage = f", {amount(source['badLines'], 'bad line')}" if source["badLines"] else ""
    yield (
        "source",
        f"{source['path']} ({source['entries']:,} entries, {source['messages']:,} messages{damage})",
    )
    yield "engine", report["engine"]
    if report["degraded"]:
        yield "degraded", report["degraded"]
    yield "window", f"{report['contextWindow']:,} tokens ({report['tokenizer']})"
    yield "turns", f"{report['turns']:,}"
    share = report["peakTokens"] / report["contextWindow"] if report["contextWindow"] else 0
    yield "peak", f"{report['peakTokens']:,} tokens ({share:.0%} of the window)"
    yield "overflows", f"{report['overflows']:,}"
    yield "compactions", f"{len(report['compactions']):,}"
    yield "flushes", _flushes(report)
    yield (
        "pairing",
        f"{amount(pairing['orphanResults'], 'orphan result')},"
        f" {amount(pairing['missingResults'], 'missing result')}",
    )
    memory = report["memory"]
    yield "memory", f"{amount(memory['files'], 'file')}, {amount(memory['chunks'], 'chunk')}"
    yield (
        "timings",
        f"{timings['totalMs'] / 1000:.1f} s, a turn {timings['turnP50Ms']} ms (p50),"
        f" {timings['turnP99Ms']} ms (p99)",
    )
    yield "session", f"{report['sessionKey']}\n{report['sessionFile']}"


def _flushes(report: Mapping[str, Any]) -> str:
    flushes = report["flushes"]
    written = sum(each["bytes"] for each in flushes)
    failed = [each["error"] for each in flushes if each.get("error")]
    files = sorted({each["path"] for each in flushes if each["bytes"]})
    text = f"{len(flushes):,}, {written:,} bytes"
    text += f" in {', '.join(files)}" if files else ""
    return text + (f"; {len(failed)} failed, the last: {failed[-1]}" if failed else "")


def _row(number: int, compaction: Mapping[str, Any]) -> tuple[str, ...]:
    kept, required = compaction["identifiersKept"], compaction["identifiersRequired"]
    after = compaction["tokensAfter"]
    return (
        str(number),
        f"{compaction['tokensBefore']:,}",
        "-" if after is None else f"{after:,}",
        f"{compaction['summaryTokens']:,}",
        f"{compaction['messagesSummarized']:,}",
        f"{kept} of {required}",
        compaction["mode"] or "-",
        f"{compaction['durationMs']:,}",
    )
