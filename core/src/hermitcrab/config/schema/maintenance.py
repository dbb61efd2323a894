"""``session.maintenance`` (sessions 2.7, 2.8)."""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import ByteSize, Duration, Range

__all__ = ["MaintenanceConfig"]


@frozen(kw_only=True)
class MaintenanceConfig:
    """What of old sessions is kept, and for how long. Durations stay texts; ``parse_duration_ms`` reads them."""

    mode: Literal["warn", "enforce"] = field(
        default="warn",
        metadata=about(
            "`warn` says what is due and removes nothing; `enforce` removes it, once a day."
        ),
    )
    prune_after: Annotated[str, Duration(unit="d")] = field(
        default="30d",
        metadata=about(
            "How long a session lasts that is not used and not protected, and how long deleted transcripts and "
            "backups are kept; a bare number is days."
        ),
    )
    max_entries: Annotated[int, Range(minimum=1)] = field(
        default=500,
        metadata=about("How many sessions an agent keeps; protected ones count and stay."),
    )
    reset_archive_retention: Annotated[str | None, Duration(unit="d", may_be_off=True)] = field(
        default=None,
        metadata=about(
            "How long transcripts are kept that a reset left behind; null and false keep them for good."
        ),
    )
    max_disk_bytes: Annotated[int, ByteSize()] | None = field(
        default=None,
        metadata=about("How much the sessions of an agent may take on disk; null and 0 are off."),
    )
    high_water_bytes: Annotated[int, ByteSize()] | None = field(
        default=None,
        metadata=about(
            "Down to which size they are cleared once they take more than `maxDiskBytes`; null and 0 are 80 % of it."
        ),
    )
