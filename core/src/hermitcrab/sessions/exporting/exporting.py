"""Writing a conversation out: as the transcript that it is, as Markdown, or as one web page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from attrs import evolve

from hermitcrab.errors import SessionError, SessionNotFoundError
from hermitcrab.messages.identifiers import redact as without_credentials
from hermitcrab.sessions.blobs.blobs import has_references
from hermitcrab.sessions.blobs.files import blob_folder, restore_entry, restore_message
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.exporting import html as export_html
from hermitcrab.sessions.exporting import markdown as export_markdown
from hermitcrab.sessions.exporting.outline import Outline, OutlinedBranch, entry_at, outline
from hermitcrab.sessions.exporting.parts import Folded, Picture, Said, Section, section_of
from hermitcrab.sessions.format import Entry, decode_line, encode_line
from hermitcrab.sessions.keys import agent_id_of, to_store_key
from hermitcrab.sessions.lines import open_transcript

if TYPE_CHECKING:
    from hermitcrab.config import Config

ExportFormat = Literal["jsonl", "markdown", "html"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)
#: Told how much of how much is written: bytes of the transcript, or entries of a page.
ExportProgress = Callable[[int, int, str], None]
#: Told in a sentence what could not be written out.
Report = Callable[[str], None]


class _Renderer(Protocol):
    """A module that renders the parts of a conversation."""

    def opening(self, title: str, facts: list[tuple[str, str]]) -> Iterator[str]: ...
    def remark(self, text: str) -> str: ...
    def branch_title(self, text: str) -> str: ...
    def section(self, shown: Section) -> Iterator[str]: ...
    def closing(self) -> str: ...


def _nothing(sentence: str) -> None:
    return None


def _no_progress(done: int, total: int, label: str) -> None:
    return None


def _same(text: str) -> str:
    return text


def export_session(
    key: str,
    *,
    home: Path | str | None = None,
    config: Config | None = None,
    format: ExportFormat = "jsonl",
    session_id: str | None = None,
    all_branches: bool = False,
    redact: bool = False,
    report: Report = _nothing,
    on_progress: ExportProgress = _no_progress,
) -> Iterator[bytes]:
    """The conversation of a session key in pieces of UTF-8, in which it is read: one entry is in memory at a time.

    ``jsonl`` is the transcript with all its branches, line by line; :func:`import_sessions` makes the same session of
    it. ``markdown`` and ``html`` show the conversation from its beginning, what was compacted included.

    :param home: by default ``$HERMITCRAB_HOME``, else ``~/.hermitcrab``; ``config`` by default what is read from it.
    :param session_id: an earlier session of the key instead of the present one.
    :param all_branches: whether the readable formats show branches that were left too.
    :param redact: whether the readable formats hide what looks like a credential; images stay as they are.
    :param report: told what could not be written out. ``on_progress`` is told how far it is.
    :raises SessionNotFoundError: if there is no such session.
    :raises SessionError: if its transcript cannot be read, or there is no such format.
    """
    from hermitcrab.config import default_agent_id, load_config, resolve_home

    if format not in FORMATS:
        raise SessionError(
            f"there is no format {format!r}", hint=f"There are {', '.join(FORMATS)}."
        )
    target = resolve_home(home)
    config = load_config(home=target) if config is None else config
    session = config.session
    agent_id = default_agent_id(config)
    stored = to_store_key(key, agent_id=agent_id, main_key=session.main_key, scope=session.scope)
    folder = target / "agents" / agent_id_of(stored, agent_id) / "sessions"
    entry = _entry(folder, stored)
    path = _transcript(folder, entry, session_id)
    if format == "jsonl":
        return _lines(path, report, on_progress)
    # Read now, so that what is wrong is said before a first piece is written somewhere.
    outlined = outline(path)
    if outlined.bad_lines:
        report(f"{outlined.bad_lines} lines hold no entry and are left out")
    renderer: _Renderer = export_html if format == "html" else export_markdown
    pages = _Pages(path, outlined, entry, renderer, all_branches, redact, on_progress)
    return (piece.encode("utf-8", "replace") for piece in pages.pieces())


def _entry(folder: Path, key: str) -> SessionEntry:
    table = SessionEntries(folder / "sessions.sqlite")
    try:
        entry = table.get(key)
    finally:
        table.close()
    if entry is None:
        raise SessionNotFoundError(
            f"there is no session {key!r}", hint="See `hermitcrab sessions list`."
        )
    return entry


def _transcript(folder: Path, entry: SessionEntry, session_id: str | None) -> Path:
    known = (entry.session_id, *entry.previous_session_ids)
    if session_id is not None and session_id not in known:
        raise SessionNotFoundError(
            f"{entry.key} has no session {session_id!r}", hint=f"It has {', '.join(known)}."
        )
    return folder / f"{session_id or entry.session_id}.jsonl"


# -- the transcript itself ---------------------------------------------------------------------


def _lines(path: Path, report: Report, on_progress: ExportProgress) -> Iterator[bytes]:
    """The whole lines of a transcript, with what is kept beside it put back into them."""
    open_transcript(path).close()  # what is wrong is said before a first piece is asked for
    return _read_lines(path, report, on_progress)


def _read_lines(path: Path, report: Report, on_progress: ExportProgress) -> Iterator[bytes]:
    folder = blob_folder(path)
    done = 0
    with open_transcript(path) as file:
        size = os.fstat(file.fileno()).st_size
        for line in file:
            done += len(line)
            on_progress(done, size, path.name)
            if not line.endswith(b"\n"):
                if decode_line(line) is None:
                    report("the last line has no end, or is being written; it is left out")
                    continue
                line += b"\n"
            yield _whole_line(line, folder, report) if b'"blob"' in line else line


def _whole_line(line: bytes, folder: Path, report: Report) -> bytes:
    value = decode_line(line)
    if value is None:
        return line
    entry: Entry = value  # type: ignore[assignment]
    faults: list[str] = []
    message = entry.get("message")
    if isinstance(message, dict) and has_references(message):
        restored = restore_message(message, folder, report=faults.append)
        if faults:
            report(f"entry {value.get('id')} stays as it is: {faults[0]}")
            return line
        return encode_line({**value, "message": restored})
    whole = restore_entry(entry, folder)
    return line if whole is entry else encode_line(whole)


# -- for reading -------------------------------------------------------------------------------


def _not_shown(branches: int) -> str:
    if branches == 1:
        return "1 branch that was left is not shown."
    return f"{branches:,} branches that were left are not shown."


class _Pages:
    """One transcript, shown by a renderer."""

    def __init__(
        self,
        path: Path,
        outlined: Outline,
        entry: SessionEntry,
        renderer: _Renderer,
        all_branches: bool,
        redact: bool,
        on_progress: ExportProgress,
    ) -> None:
        self._path = path
        self._outline = outlined
        self._entry = entry
        self._renderer = renderer
        self._all_branches = all_branches
        self._clean: Callable[[str], str] = without_credentials if redact else _same
        self._on_progress = on_progress
        self._done = 0

    def pieces(self) -> Iterator[str]:
        """The page from its beginning."""
        show = self._renderer
        active, *others = self._outline.branches
        yield from show.opening(self._clean(self._title()), self._facts())
        if others and not self._all_branches:
            yield show.remark(_not_shown(len(others)))
        if not active.places:
            yield show.remark("No messages yet.")
        labels = self._outline.labels()
        yield from self._sections(active, labels)
        for number, branch in enumerate(others if self._all_branches else (), start=1):
            yield show.branch_title(self._branch_title(number, branch))
            yield from self._sections(branch, labels)
        yield show.closing()

    def _title(self) -> str:
        entry = self._entry
        return entry.label or entry.display_name or self._outline.name or entry.key

    def _facts(self) -> list[tuple[str, str]]:
        header = self._outline.header
        facts = [
            ("Session", self._entry.key),
            ("Session id", self._path.name.removesuffix(".jsonl")),
            ("Began", str(header.get("timestamp") or "?")),
        ]
        return [(name, self._clean(value)) for name, value in facts]

    def _branch_title(self, number: int, branch: OutlinedBranch) -> str:
        if branch.fork is None:
            return f"Branch {number}, from the beginning"
        return f"Branch {number}, behind entry {self._outline.entries[branch.fork]['id']}"

    def _sections(self, branch: OutlinedBranch, labels: dict[str, str]) -> Iterator[str]:
        folder = blob_folder(self._path)
        with open_transcript(self._path) as file:
            for place in branch.places:
                self._done += 1
                self._on_progress(self._done, len(self._outline.entries), self._path.name)
                entry = restore_entry(entry_at(file, self._outline, place), folder, texts=False)
                shown = section_of(entry, labels.get(self._outline.entries[place]["id"]))
                if shown is not None:
                    yield from self._renderer.section(self._cleaned(shown))

    def _cleaned(self, shown: Section) -> Section:
        return evolve(
            shown,
            title=self._clean(shown.title),
            label=None if shown.label is None else self._clean(shown.label),
            parts=tuple(map(self._cleaned_part, shown.parts)),
        )

    def _cleaned_part(self, part: Said | Folded | Picture) -> Said | Folded | Picture:
        if isinstance(part, Said):
            return evolve(part, text=self._clean(part.text))
        if isinstance(part, Folded):
            return evolve(part, title=self._clean(part.title), text=self._clean(part.text))
        return part
