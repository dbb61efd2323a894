"""The default memory of hermitcrab: Markdown files behind a SQLite index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermitcrab import hookimpl

if TYPE_CHECKING:
    from hermitcrab.memory import MemoryBackend, MemoryContext

__all__ = ["register_memory_backends"]


@hookimpl
def register_memory_backends(registry: Any) -> None:
    """Offer the backend ``memory-core``."""
    registry.register("memory-core", create)


def create(context: MemoryContext) -> MemoryBackend:
    """The backend of one agent; nothing is opened until it is used."""
    from hermitcrab_memory_core.making import make_backend

    return make_backend(context)
