"""What is wrong with a transcript (design 5): findings over what its lines say. Nothing here touches a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from attrs import frozen

from hermitcrab.messages.pairing import find_faults
from hermitcrab.sessions.branch import kept_part, leaf_after, path_to, without_repeats
from hermitcrab.sessions.context import context_items
from hermitcrab.sessions.format import FORMAT_VERSION, is_header, parse_time, reference
from hermitcrab.sessions.keys import is_session_id
from hermitcrab.sessions.repair.lineage import (
    NOWHERE,
    Lineage,
    kept_place,
    lineage_of,
    without_breaks,
)
from hermitcrab.sessions.repair.repeats import repeats_in
from hermitcrab.sessions.repair.survey import Line, Survey

_IN_THE_BACKUP = "mending leaves it out, the backup keeps it"
_JOINED = "mending lets it follow {parent}, so that what stands before is in the conversation again"


@frozen(kw_only=True)
class Finding:
    """One thing about a transcript.

    :param line: the line number from 1, and ``offset`` its byte offset; ``None`` for the file as a whole.
    :param level: ``information`` harms nobody and needs no mending.
    :param fixable: whether mending the file takes it away.
    :param changes_branch: whether mending may change which messages the active branch shows; the message says how.
    """

    kind: str
    message: str
    line: int | None = None
    offset: int | None = None
    level: Literal["error", "information"] = "error"
    fixable: bool = False
    changes_branch: bool = False

    @property
    def is_error(self) -> bool:
        """Whether it is more than information."""
        return self.level == "error"


def findings_in(survey: Survey, *, session_id: str | None) -> list[Finding]:
    """What is wrong with a transcript, in the order of its lines.

    :param session_id: the id that its header must have, because of its place; ``None`` for a file that may be called
        anything.
    """
    if survey.is_newer:
        return [_newer(survey)]
    if not survey.is_transcript:
        return [_no_transcript(survey)]
    lineage = lineage_of(survey.entries)
    found = [
        *_header_findings(survey, session_id),
        *_line_findings(survey),
        *_entry_findings(survey, lineage),
        *_repeat_findings(survey, lineage),
        *_backward_times(survey),
        *_pairing(survey),
    ]
    return sorted(found, key=lambda finding: finding.line or 0)


def _at(line: Line | None) -> dict[str, Any]:
    return (
        {"line": 1, "offset": 0} if line is None else {"line": line.number, "offset": line.offset}
    )


def _newer(survey: Survey) -> Finding:
    return Finding(
        kind="newer-format",
        message=f"format {survey.version} is newer than {FORMAT_VERSION}: upgrade hermitcrab; it is left alone",
        **_at(survey.header_line),
    )


def _no_transcript(survey: Survey) -> Finding:
    return Finding(
        kind="no-transcript",
        message="no line of this file is a transcript entry: there is nothing to mend",
        **_at(survey.header_line),
    )


def _header_findings(survey: Survey, session_id: str | None) -> Iterator[Finding]:
    where = _at(survey.header_line)
    if survey.header_rebuilt:
        missing = survey.header_line is None
        yield Finding(
            kind="missing-header" if missing else "damaged-header",
            message=(
                f"the header {'is missing' if missing else 'is damaged'}; its id and time are taken from the file's"
                " name and the first entries"
            ),
            fixable=True,
            **where,
        )
        return
    if not survey.is_named_after_header:
        fixable = session_id is not None and is_session_id(session_id)
        yield Finding(
            kind="header-id",
            message=f"the header says {survey.header['id']!r}, the file is called {survey.path.name!r}",
            level="error" if fixable else "information",
            fixable=fixable,
            **where,
        )
    if survey.has_unreadable_version:
        yield Finding(
            kind="unreadable-version",
            message=f"the format version {survey.header.get('version')!r} cannot be read",
            fixable=True,
            **where,
        )


def _line_findings(survey: Survey) -> Iterator[Finding]:
    for line in survey.bad_lines:
        second = line.value is not None and is_header(line.value)
        yield Finding(
            kind="second-header" if second else "bad-line",
            message=f"{'a second header' if second else _why_bad(line)}: {_IN_THE_BACKUP}",
            fixable=True,
            **_at(line),
        )
    if survey.torn is not None:
        yield Finding(
            kind="torn-tail",
            message=f"the last line has no end, or is being written: {_IN_THE_BACKUP}",
            fixable=True,
            **_at(survey.torn),
        )
    for line in survey.lines:
        if _holds_surrogate(line):
            yield Finding(
                kind="lone-surrogate",
                message="a text holds half a character, which is read as U+FFFD",
                level="information",
                **_at(line),
            )


def _why_bad(line: Line) -> str:
    if line.value is not None:
        return "a second header, without an id"
    try:
        value = json.loads(line.content)
    except (ValueError, RecursionError):
        return "no JSON"
    return "an object without a type" if isinstance(value, dict) else "no JSON object"


def _holds_surrogate(line: Line) -> bool:
    """Whether a line says something else than what is read, which is free of lone surrogates."""
    if b"\\u" not in line.content and b"\xed" not in line.content:
        return False
    value = json.loads(line.content)
    return value != line.value and "\ufffd" in json.dumps(line.value, ensure_ascii=False)


def _entry_findings(survey: Survey, lineage: Lineage) -> Iterator[Finding]:
    as_read = lineage.as_read()
    mended = without_breaks(survey.entries, lineage)
    for place, entry in enumerate(survey.entries):
        where = _at(survey.lines[place])
        if survey.version >= FORMAT_VERSION and _has_no_id(survey.lines[place]):
            yield Finding(
                kind="missing-id", message="an entry without an id", fixable=True, **where
            )
        if lineage.is_broken(place):
            joined = mended[place]
            parent = "nothing" if joined is None else f"entry {survey.entries[joined]['id']}"
            yield Finding(
                kind=_kind_of_break(place, survey, lineage),
                message=f"{_break(place, survey, lineage)}; {_JOINED.format(parent=parent)}",
                fixable=True,
                changes_branch=True,
                **where,
            )
        if entry["type"] == "compaction" and not kept_place(place, survey.entries, as_read)[0]:
            yield Finding(
                kind="compaction",
                message=(
                    f"its first kept entry {entry.get('firstKeptEntryId')!r} is not on its way: nothing before this"
                    " compaction is kept"
                ),
                fixable=True,
                **where,
            )
        if (
            entry["type"] == "label"
            and lineage.place_of(reference(entry.get("targetId")), 0) is None
        ):
            yield Finding(
                kind="label-target",
                message=f"a label for {entry.get('targetId')!r}, which is nowhere: it has no effect",
                level="information",
                **where,
            )


def _has_no_id(line: Line) -> bool:
    return line.value is not None and reference(line.value.get("id")) is None


def _kind_of_break(place: int, survey: Survey, lineage: Lineage) -> str:
    if lineage.parents[place] != NOWHERE:
        return "cycle"
    return "leaf-target" if survey.entries[place]["type"] == "leaf" else "missing-ancestor"


def _break(place: int, survey: Survey, lineage: Lineage) -> str:
    entry = survey.entries[place]
    if entry["type"] == "leaf":
        named = f"the leaf is moved to {entry.get('targetId')!r}"
    else:
        named = f"the parent {entry.get('parentId')!r}"
    is_missing = lineage.parents[place] == NOWHERE
    return f"{named}{' is nowhere in the file' if is_missing else ' closes a cycle'}"


def _repeat_findings(survey: Survey, lineage: Lineage) -> Iterator[Finding]:
    repeats = repeats_in(survey, lineage)
    for place in repeats.dropped:
        yield Finding(
            kind="duplicate-id",
            message=f"entry {survey.entries[place]['id']} again, byte by byte: {_IN_THE_BACKUP}",
            fixable=True,
            **_at(survey.lines[place]),
        )
    for place, new_id in repeats.renamed.items():
        entry = survey.entries[place]
        effect = (
            "as the last compaction it decides what is kept"
            if entry["type"] == "compaction"
            else "it shows in the conversation even where the other does"
        )
        yield Finding(
            kind="duplicate-id",
            message=f"another entry has the id {entry['id']} too; mending calls this one {new_id}, and {effect}",
            fixable=True,
            changes_branch=True,
            **_at(survey.lines[place]),
        )


def _backward_times(survey: Survey) -> Iterator[Finding]:
    before = None
    earlier: list[Line] = []
    for line, entry in zip(survey.lines, survey.entries, strict=True):
        moment = parse_time(entry.get("timestamp"))
        if moment is not None:
            if before is not None and moment < before:
                earlier.append(line)
            before = moment
    if earlier:
        yield Finding(
            kind="time-goes-back",
            message=f"the time is before that of the entry above, here and {len(earlier) - 1} times more below"
            if len(earlier) > 1
            else "the time is before that of the entry above",
            level="information",
            **_at(earlier[0]),
        )


def _pairing(survey: Survey) -> Iterator[Finding]:
    """Calls and results on the active branch that do not belong together; the view repairs them (context 4.3)."""
    path = path_to(leaf_after(survey.entries, None), survey.entries)[0]
    messages = [item.message for item in context_items(without_repeats(kept_part(path)))]
    faults = find_faults(messages)
    counts = {
        "orphan-results": (faults.orphan_results, "tool results without a call"),
        "missing-results": (faults.missing_results, "tool calls without a result"),
    }
    for kind, (count, what) in counts.items():
        if count:
            message = f"{what} on the active branch: {count:,}; the view repairs them"
            yield Finding(kind=kind, message=message, level="information")


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether something is more than information."""
    return any(finding.is_error for finding in findings)


def is_mendable(findings: Iterable[Finding]) -> bool:
    """Whether mending the file would take something away."""
    return any(finding.fixable for finding in findings)
