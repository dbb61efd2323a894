"""What a file in a sessions folder is, by its name alone (design 5, sessions 2.1, 2.10)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Literal

from attrs import frozen

from hermitcrab.sessions.keys import is_session_id

FileKind = Literal[
    "transcript", "archive", "backup", "temporary", "lock", "blobs", "table", "other"
]
ArchiveReason = Literal["reset", "deleted", "bak"]

_STAMP = r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d{3})?Z"
_ARCHIVE = re.compile(
    rf"(?P<stem>.+)\.jsonl\.(?P<reason>reset|deleted|bak)\.(?P<stamp>{_STAMP})(?:\.zst)?"
)
#: The files whose names begin with that of a transcript, by what follows it.
_BESIDE: tuple[tuple[FileKind, re.Pattern[str]], ...] = (
    ("lock", re.compile(r"(?P<stem>.+)\.jsonl\.lock")),
    ("temporary", re.compile(r"(?P<stem>.+)\.jsonl\.mending(?:-backup)?")),
    ("backup", re.compile(r"(?P<stem>.+)\.jsonl\.bak-.+")),
    ("transcript", re.compile(r"(?P<stem>.+)\.jsonl")),
)
_TABLE = re.compile(r"sessions\.sqlite(?:-wal|-shm|-journal|\.lock)?")
#: Tables that were set aside, and what the reference kept of its index.
_TABLE_BACKUP = re.compile(r"sessions\.sqlite\.corrupt-.+|sessions\.json\.bak\..+")
_TEMPORARY = re.compile(r".+\.tmp")
_BLOBS = re.compile(r"(?P<stem>.+)\.blobs")


@frozen(kw_only=True)
class FileName:
    """A name taken apart.

    :param stem: the name of the transcript that it belongs to, without ``.jsonl``; mostly a session id.
    :param reason: why an archive was made, and ``moment`` when, in milliseconds.
    """

    kind: FileKind
    stem: str | None = None
    reason: ArchiveReason | None = None
    moment: int | None = None


def parse_name(name: str, *, is_folder: bool = False) -> FileName:
    """What a file is; ``other`` is what is nobody's business."""
    if is_folder:
        blobs = _BLOBS.fullmatch(name)
        return (
            FileName(kind="other") if blobs is None else FileName(kind="blobs", stem=blobs["stem"])
        )
    if _TABLE.fullmatch(name):
        return FileName(kind="table")
    archive = _ARCHIVE.fullmatch(name)
    if archive is not None and (moment := _moment_of(archive["stamp"])) is not None:
        reason: ArchiveReason = archive["reason"]  # type: ignore[assignment]
        return FileName(kind="archive", stem=archive["stem"], reason=reason, moment=moment)
    for kind, pattern in _BESIDE:
        match = pattern.fullmatch(name)
        if match is not None and is_session_id(match["stem"]):
            return FileName(kind=kind, stem=match["stem"])
    if _TABLE_BACKUP.fullmatch(name):
        return FileName(kind="backup")
    return FileName(kind="temporary" if _TEMPORARY.fullmatch(name) else "other")


def archive_name(transcript: str, reason: ArchiveReason, moment: datetime) -> str:
    """What a transcript is called once it is archived: ``<file>.<reason>.<time>`` (sessions 2.10)."""
    stamp = moment.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    return f"{transcript}.{reason}.{stamp}.{moment.microsecond // 1000:03}Z"


def base_stem(stem: str) -> str:
    """The session id that a transcript of one of its topics belongs to: ``<sessionId>-topic-<id>``."""
    return stem.partition("-topic-")[0]


def _moment_of(stamp: str) -> int | None:
    day, _, time = stamp.partition("T")
    try:
        moment = datetime.fromisoformat(f"{day}T{time.replace('-', ':').removesuffix('Z')}+00:00")
    except ValueError:
        return None
    return int(moment.timestamp() * 1000)
