"""A plan of maintenance: what goes, and why; and the limits from which it follows (sessions 2.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Literal

from attrs import frozen

from hermitcrab.config.units import parse_duration_ms
from hermitcrab.messages.media import shown_size
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.maintenance.folder import StoredFile

if TYPE_CHECKING:
    from hermitcrab.config.schema.maintenance import MaintenanceConfig

#: Why something is due. ``unfinished``: its deletion was interrupted. ``retention``: a transcript that a reset left.
Rule = Literal[
    "unfinished",
    "age",
    "cap",
    "deleted",
    "retention",
    "backup",
    "temporary",
    "lock",
    "blobs",
    "disk",
    "asked",
]


@frozen(kw_only=True)
class Limits:
    """The settings of maintenance in milliseconds and bytes; ``None`` is no limit."""

    prune_after: int
    max_entries: int
    reset_retention: int | None = None
    max_bytes: int | None = None
    high_water: int = 0

    @classmethod
    def of(cls, config: MaintenanceConfig) -> Limits:
        """The limits that a configuration sets."""
        retention = config.reset_archive_retention
        most = config.max_disk_bytes or None
        wanted = config.high_water_bytes or (most or 0) * 8 // 10
        return cls(
            prune_after=parse_duration_ms(config.prune_after, default_unit="d"),
            max_entries=config.max_entries,
            reset_retention=None
            if retention is None
            else parse_duration_ms(retention, default_unit="d"),
            max_bytes=most,
            high_water=min(wanted, most or 0),
        )

    def cap_reached_at(self, *, is_automatic: bool) -> int:
        """The number of sessions from which the cap acts: by itself only now and then, not for each session."""
        if not is_automatic or self.max_entries <= 49:
            return self.max_entries + 1
        return self.max_entries + max(25, ceil(self.max_entries / 10))


@frozen(kw_only=True)
class SessionRemoval:
    """A session whose entry goes.

    :param archived: its transcripts that no other session needs, to be kept as ``.deleted`` archives for a while.
    :param deleted: what of its files goes at once.
    """

    rule: Rule
    why: str
    entry: SessionEntry
    archived: tuple[StoredFile, ...] = ()
    deleted: tuple[StoredFile, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """Bytes that the disk has again."""
        return sum(file.bytes for file in self.deleted)


@frozen(kw_only=True)
class FileRemoval:
    """A file that goes.

    :param keys: the sessions that it belongs to; theirs are also the entries that name it as an earlier transcript.
    """

    rule: Rule
    why: str
    file: StoredFile
    keys: tuple[str, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """Bytes that the disk has again."""
        return self.file.bytes


Removal = SessionRemoval | FileRemoval


@frozen(kw_only=True)
class Plan:
    """What is due, in the order in which it is to be done, and what there is in all.

    :param protected: how many sessions are left alone whatever their age.
    :param total_bytes: what all files take now, and ``bytes_after`` what they take once the plan is carried out.
    """

    limits: Limits
    removals: tuple[Removal, ...]
    sessions: int
    protected: int
    total_bytes: int
    bytes_after: int

    @property
    def counts(self) -> Counter[Rule]:
        """How many removals follow from each rule."""
        return Counter(removal.rule for removal in self.removals)

    @property
    def removed_sessions(self) -> tuple[SessionRemoval, ...]:
        """The sessions that are due."""
        return tuple(each for each in self.removals if isinstance(each, SessionRemoval))

    @property
    def is_over_budget(self) -> bool:
        """Whether more than ``maxDiskBytes`` is left even so."""
        return self.limits.max_bytes is not None and self.bytes_after > self.limits.max_bytes


def duration_words(milliseconds: int) -> str:
    """A duration as it stands in configuration: ``30d``, ``36h``."""
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % factor == 0:
            return f"{milliseconds // factor:,}{unit}"
    return f"{milliseconds:,}ms"


def describe_plan(plan: Plan) -> str:
    """What is due, on one line: the sessions by rule, then the files."""
    size = shown_size(plan.total_bytes)
    if not plan.removals:
        return f"nothing is due among {plan.sessions:,} sessions, {size}"
    files = len(plan.removals) - len(plan.removed_sessions)
    due = f"due are {len(plan.removed_sessions):,} of {plan.sessions:,} sessions"
    if parts := list(_by_rule(plan)):
        due += f" ({', '.join(parts)})"
    return f"{due} and {files:,} files, {shown_size(plan.total_bytes - plan.bytes_after)} of {size}"


def _by_rule(plan: Plan) -> Iterator[str]:
    counts = plan.counts
    if counts["age"]:
        yield f"{counts['age']:,} not used for more than {duration_words(plan.limits.prune_after)}"
    if counts["cap"]:
        yield f"{counts['cap']:,} beyond the newest {plan.limits.max_entries:,}"
    others = len(plan.removed_sessions) - counts["age"] - counts["cap"]
    if others:
        yield f"{others:,} for another reason"
