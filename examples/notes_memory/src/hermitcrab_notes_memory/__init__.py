"""A memory for hermitcrab whose index is one JSON file."""

from __future__ import annotations

from typing import Any

from hermitcrab import hookimpl
from hermitcrab_notes_memory.backend import NotesMemory

__all__ = ["NotesMemory"]


@hookimpl
def register_memory_backends(registry: Any) -> None:
    """Offer the memory under the plugin's id."""
    registry.register("notes-memory", NotesMemory)
