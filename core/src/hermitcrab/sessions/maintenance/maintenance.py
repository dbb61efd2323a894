"""What of an agent's sessions is due to go: a plan, decided from what stands in the folder (sessions 2.8). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hermitcrab.sessions.maintenance.draft import Draft
from hermitcrab.sessions.maintenance.file_names import ArchiveReason
from hermitcrab.sessions.maintenance.folder import Snapshot, StoredFile
from hermitcrab.sessions.maintenance.plan import Limits, Plan, Rule, duration_words
from hermitcrab.sessions.maintenance.protection import Protection

#: What nobody finishes any more after so long: temporary files, and locks of transcripts that are gone.
STALE_MS = 3_600_000
#: A transcript that no entry names may be one that is being begun; after so long it is not.
ORPHAN_MS = 86_400_000


def plan_maintenance(
    snapshot: Snapshot,
    limits: Limits,
    protection: Protection,
    *,
    now: int,
    is_automatic: bool = False,
) -> Plan:
    """Decide what goes (sessions 2.8): by age, by number, transcripts and archives past their time, leftovers, by size.

    :param now: milliseconds since the epoch.
    :param is_automatic: whether the host does it by itself, so that it caps in batches.
    """
    draft = Draft(snapshot, protection, now=now)
    _finish_deletions(draft)
    _prune(draft, limits)
    _cap(draft, limits, is_automatic)
    _expire(draft, limits)
    _sweep(draft, limits)
    _fit_budget(draft, limits)
    return Plan(
        limits=limits,
        removals=draft.removals(),
        sessions=len(snapshot.entries),
        protected=sum(draft.protected(entry) for entry in snapshot.entries),
        total_bytes=sum(file.bytes for file in snapshot.files),
        bytes_after=draft.bytes,
    )


def _finish_deletions(draft: Draft) -> None:
    for entry in draft.oldest_sessions():
        if draft.was_deleted(entry):
            draft.remove_session(entry, "unfinished", "its deletion was interrupted")


def _prune(draft: Draft, limits: Limits) -> None:
    why = f"not used for more than {duration_words(limits.prune_after)}"
    for entry in draft.oldest_sessions():
        is_old = entry.updated_at > 0 and draft.age(entry) > limits.prune_after
        if is_old and not draft.protected(entry):
            draft.remove_session(entry, "age", why)


def _cap(draft: Draft, limits: Limits, is_automatic: bool) -> None:
    count = len(draft.entries)
    if count < limits.cap_reached_at(is_automatic=is_automatic):
        return
    why = f"beyond the newest {limits.max_entries:,} sessions"
    due = (entry for entry in draft.oldest_sessions() if not draft.protected(entry))
    for entry, _ in zip(due, range(count - limits.max_entries), strict=False):
        draft.remove_session(entry, "cap", why)


def _expire(draft: Draft, limits: Limits) -> None:
    """Archives past their time, and the transcripts that resets left."""
    _expire_archives(draft, "deleted", "deleted", limits.prune_after)
    if limits.reset_retention is None:
        return
    _expire_archives(draft, "reset", "retention", limits.reset_retention)
    for file, ended_at in draft.generations():
        if draft.now - ended_at > limits.reset_retention:
            draft.remove_file(file, "retention", _kept_for("reset", limits.reset_retention))


def _expire_archives(draft: Draft, reason: ArchiveReason, rule: Rule, limit: int) -> None:
    for file in draft.standing("archive"):
        moment = file.parsed.moment
        if file.parsed.reason == reason and moment is not None and draft.now - moment > limit:
            draft.remove_file(file, rule, _kept_for(reason, limit))


def _kept_for(what: str, limit: int) -> str:
    return f"{what} more than {duration_words(limit)} ago"


def _sweep(draft: Draft, limits: Limits) -> None:
    """What nobody needs any more."""
    for file in (*draft.standing("backup"), *draft.standing("archive")):
        is_backup = file.parsed.kind == "backup" or file.parsed.reason == "bak"
        if is_backup and draft.now - file.modified_at > limits.prune_after:
            why = f"a backup of more than {duration_words(limits.prune_after)} ago"
            draft.remove_file(file, "backup", why)
    for file in draft.standing("temporary"):
        if draft.now - file.modified_at > STALE_MS:
            draft.remove_file(file, "temporary", "left by a process that is gone")
    for file in draft.standing("lock"):
        if not draft.has_transcript(file.parsed.stem) and draft.now - file.modified_at > STALE_MS:
            draft.remove_file(file, "lock", "its transcript is gone")
    for file in draft.standing("blobs"):
        is_old = draft.now - file.modified_at > ORPHAN_MS
        if is_old and not draft.needs_blobs(file.parsed.stem):
            draft.remove_file(file, "blobs", "its transcript is gone")


def _fit_budget(draft: Draft, limits: Limits) -> None:
    """Archives and what no entry names first, then sessions, each the oldest first, down to the high water."""
    if limits.max_bytes is None or draft.bytes <= limits.max_bytes:
        return
    why = f"more than {limits.max_bytes:,} bytes in all"
    for file in sorted(_expendable(draft), key=lambda file: (file.modified_at, file.name)):
        if draft.bytes <= limits.high_water:
            return
        draft.remove_file(file, "disk", why)
    for entry in draft.oldest_sessions():
        if draft.bytes <= limits.high_water:
            return
        if not draft.protected(entry) and any(file.bytes for file in draft.files_of(entry)):
            draft.remove_session(entry, "disk", why, at_once=True)


def _expendable(draft: Draft) -> Iterator[StoredFile]:
    yield from draft.standing("archive")
    yield from draft.standing("backup")
    yield from draft.archived()
    yield from (file for file, _ in draft.generations())
    for file in draft.standing("transcript"):
        if not draft.belonging(file).keys and draft.now - file.modified_at > ORPHAN_MS:
            yield file
