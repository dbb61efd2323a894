"""``agents.defaults.startupContext`` (memory 1.4)."""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import Range

__all__ = ["StartupContextConfig"]


@frozen(kw_only=True)
class StartupContextConfig:
    """The daily notes that a new private conversation begins with."""

    enabled: bool = field(
        default=True,
        metadata=about(
            "Whether a new private conversation begins with the notes of the last days."
        ),
    )
    apply_on: tuple[Literal["new", "reset"], ...] = field(
        default=(),
        metadata=about(
            "After which commands: `/new`, `/reset`; a conversation that ends by itself counts as `reset`. Empty is"
            " both."
        ),
    )
    daily_memory_days: Annotated[int, Range(minimum=1, maximum=14)] = field(
        default=2, metadata=about("The notes of how many days; 1 is today alone.")
    )
    max_file_bytes: Annotated[int, Range(minimum=1, maximum=65_536)] = field(
        default=16_384, metadata=about("Larger files are left out, in bytes.")
    )
    max_file_chars: Annotated[int, Range(minimum=1, maximum=10_000)] = field(
        default=1_200, metadata=about("How many characters of one file are shown.")
    )
    max_total_chars: Annotated[int, Range(minimum=1, maximum=50_000)] = field(
        default=2_800, metadata=about("How many characters all notes take together.")
    )
