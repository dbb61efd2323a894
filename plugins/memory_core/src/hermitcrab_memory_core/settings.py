"""What memory-core takes from the agent's memory search settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from hermitcrab.memory.contract import MemoryContext


@frozen(kw_only=True)
class Settings:
    """Chunk sizes in tokens; ``extra_paths`` are absolute or relative to the workspace."""

    chunk_tokens: int = 400
    chunk_overlap: int = 80
    extra_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: MemoryContext) -> Settings:
        """The settings of an agent; without any, the defaults."""
        config = context.config
        if config is None:
            return cls()
        return cls(
            chunk_tokens=config.chunking.tokens,
            chunk_overlap=config.chunking.overlap,
            extra_paths=tuple(map(str, config.extra_paths)),
        )
