"""What the names of transcript files say, and where an entry's ``sessionFile`` points (sessions 2.1, 2.10). Pure."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal
from urllib.parse import unquote

from attrs import frozen

from hermitcrab.sessions.keys import is_session_id, normalise_agent_id

_STAMP = r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}"
_ARCHIVE = re.compile(
    rf"(?P<file>.+\.jsonl)\.(?P<reason>reset|deleted|bak)\.(?P<time>{_STAMP}(?:\.\d{{3}})?Z)(?P<zip>\.\w+)?"
)
_FORK = re.compile(rf"{_STAMP}-\d{{3}}Z_(?P<id>.+)")
_CHECKPOINT = re.compile(r".+\.checkpoint\.[0-9A-Fa-f-]{8,}\.jsonl")
_TOPIC = "-topic-"
#: Why a file that is named like a transcript, or beside one, is none.
_NO_BACKUPS = "it is a backup copy; name the file itself to import it"

Archive = Literal["reset", "deleted"]


@frozen(kw_only=True)
class TranscriptName:
    """What the name of a transcript says: the session id, its topic, and why and when it was archived."""

    session_id: str
    topic: str | None = None
    archived: Archive | None = None
    archived_at: str = ""
    is_plain: bool = True


def parse_name(name: str) -> TranscriptName | None:
    """What a file name says of the transcript in it, or ``None`` if it does not name one."""
    archive = _ARCHIVE.fullmatch(name)
    if archive is not None:
        name = archive["file"]
    stem, dot, rest = name.rpartition(".")
    if not dot or rest != "jsonl" or not stem:
        return None
    fork = _FORK.fullmatch(stem)
    head, marker, topic = (fork["id"] if fork else stem).partition(_TOPIC)
    has_topic = bool(marker and head and topic)
    archived: Archive | None = None
    if archive is not None and archive["reason"] != "bak":
        archived = "reset" if archive["reason"] == "reset" else "deleted"
    return TranscriptName(
        session_id=head if has_topic else (fork["id"] if fork else stem),
        topic=unquote(topic) if has_topic else None,
        archived=archived,
        archived_at=archive["time"] if archive else "",
        is_plain=not (fork or has_topic or archive),
    )


def why_not_imported(name: str) -> str | None:
    """Why a file of this name is no conversation, although it is kept beside one; ``None`` if it may be one."""
    archive = _ARCHIVE.fullmatch(name)
    if archive is not None:
        if archive["zip"]:
            return "it is a compressed archive; unpack it and import the file"
        return _NO_BACKUPS if archive["reason"] == "bak" else None
    if ".jsonl.bak-" in name:
        return _NO_BACKUPS
    if _CHECKPOINT.fullmatch(name):
        return "it is the checkpoint of a compaction, a copy of what its session's transcript holds"
    if name.endswith(".trajectory.jsonl"):
        return "it is a record of events, not a conversation"
    return None


def is_interesting(name: str) -> bool:
    """Whether a file is worth a word if it is not imported: what looks like a transcript, or like a copy of one."""
    return ".jsonl" in name and not name.endswith((".lock", ".tmp"))


def safe_session_id(text: str) -> str:
    """A session id that is safe as a file name, made of any text; a safe text is its own."""
    if is_session_id(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "_", text).lstrip("._-")
    return f"{cleaned[:100]}-{digest}" if cleaned else f"session-{digest}"


def session_file(text: str, folder: Path) -> Path | None:
    """The file that a ``sessionFile`` in the entries of ``folder`` names, or ``None`` if it may not name it.

    A relative path stays inside the folder. Of an absolute one, which may be from another machine, only the part from
    ``agents/<id>/sessions/`` counts: it names a file of this folder or of a sibling agent's.
    """
    path = PureWindowsPath(text) if "\\" in text else PurePosixPath(text)
    parts = path.parts
    if not parts or "\0" in text:
        return None
    if not path.is_absolute() and ".." not in parts:
        return folder.joinpath(*parts)
    if len(parts) < 2 or parts[-2] != "sessions" or ".." in parts:
        return None
    agent = parts[-3] if len(parts) > 3 and parts[-4] == "agents" else None
    own = agent_of_folder(folder)
    if agent is None or own is None or normalise_agent_id(agent) == own:
        return folder / parts[-1]
    return folder.parent.parent / agent / "sessions" / parts[-1]


def agent_of_folder(folder: Path) -> str | None:
    """The agent whose sessions a folder holds by its place, ``agents/<id>/sessions``."""
    if folder.name == "sessions" and folder.parent.parent.name == "agents":
        return normalise_agent_id(folder.parent.name)
    return None
