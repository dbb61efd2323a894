"""Passages of memory files as rows, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.memory.files import CHUNKER_VERSION, PASSAGE_VERSION, Passage, passages_of
from hermitcrab.memory.ranking import EMBEDDING_TEXT_VERSION, embedding_texts
from hermitcrab.messages.text import scrub_text
from hermitcrab_memory_chroma.names import digest
from hermitcrab_memory_chroma.rows import Row
from hermitcrab_memory_chroma.words import WORDS_VERSION, folded

#: Files that were cut by other rules are indexed again.
RULES = f"{CHUNKER_VERSION}.{PASSAGE_VERSION}.{EMBEDDING_TEXT_VERSION}.{WORDS_VERSION}"


@frozen(kw_only=True)
class Scope:
    """One agent in one workspace."""

    agent_id: str
    workspace: str

    @property
    def key(self) -> str:
        return digest(self.agent_id, self.workspace)

    @property
    def agent_key(self) -> str:
        return digest(self.agent_id)

    @property
    def metadata(self) -> dict[str, Any]:
        return {"agent": self.agent_id, "workspace": self.workspace}

    def file_id(self, path: str) -> str:
        """The id of the row that says what is indexed of a file; those of its passages begin with it."""
        return f"{self.key}:{digest(path)}"

    def vector_id(self, text: str) -> str:
        """The id of the vector of a text: passages with the same text share it."""
        return f"{self.key}:{digest(text, length=24)}"


def passage_id(file_id: str, position: int) -> str:
    """The id of a passage by its position in the file, counted from 0."""
    return f"{file_id}:{position:06d}"


def beside(row_id: str, steps: Sequence[int] = (-1, 1)) -> tuple[str, ...]:
    """The ids of passages that stand near one."""
    file_id, _, position = row_id.rpartition(":")
    numbers = (int(position) + step for step in steps)
    return tuple(passage_id(file_id, number) for number in numbers if number >= 0)


@frozen(kw_only=True)
class FileRows:
    """The passages of one file, and the text to embed for each vector."""

    rows: tuple[Row, ...]
    texts: Mapping[str, str]


def cut_of(file_hash: str) -> str:
    """Tells apart the passages of two versions of a file, or of two ways to cut it."""
    return digest(file_hash, RULES)


def file_rows(scope: Scope, path: str, text: str, file_hash: str) -> FileRows:
    """Cut a file into passages."""
    passages = passages_of(scrub_text(text))
    embedded = embedding_texts(passages)
    vector_ids = [scope.vector_id(each) for each in embedded]
    rows = tuple(
        _row(scope, path, position, passage, {"cut": cut_of(file_hash), "vector": vector_id})
        for position, (passage, vector_id) in enumerate(zip(passages, vector_ids, strict=True))
    )
    return FileRows(rows=rows, texts=dict(zip(vector_ids, embedded, strict=True)))


def _row(
    scope: Scope, path: str, position: int, passage: Passage, hashes: Mapping[str, str]
) -> Row:
    return Row(
        id=passage_id(scope.file_id(path), position),
        metadata={
            **scope.metadata,
            **hashes,
            "path": path,
            "position": position,
            "startLine": passage.start_line,
            "endLine": passage.end_line,
            "text": passage.text,
        },
        document=folded(passage.text, path, *passage.headings),
    )
