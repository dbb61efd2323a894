"""Finding, chunking, tokenising and reading the Markdown files of memory; every backend indexes them with this.

Everything here is deterministic and needs only the standard library.
"""

from __future__ import annotations

from hermitcrab.memory.files.chunks import CHUNKER_VERSION, Chunk, chunk_markdown, weighted_length
from hermitcrab.memory.files.discover import Discovery, MemoryFile, SkippedPath, discover, load
from hermitcrab.memory.files.passages import PASSAGE_VERSION, Passage, passages_of
from hermitcrab.memory.files.paths import memory_path, safe_path
from hermitcrab.memory.files.reading import read_lines, read_memory
from hermitcrab.memory.files.sections import RULES_FILE, rules_sections, sections_named
from hermitcrab.memory.files.words import Keywords, index_terms, keywords

__all__ = [
    "CHUNKER_VERSION",
    "PASSAGE_VERSION",
    "RULES_FILE",
    "Chunk",
    "Discovery",
    "Keywords",
    "MemoryFile",
    "Passage",
    "SkippedPath",
    "chunk_markdown",
    "discover",
    "index_terms",
    "keywords",
    "load",
    "memory_path",
    "passages_of",
    "read_lines",
    "read_memory",
    "rules_sections",
    "safe_path",
    "sections_named",
    "weighted_length",
]
