"""The archived generations of sessions on the command line: listing them, and finding one to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermitcrab.cli.options import Settings

if TYPE_CHECKING:
    from hermitcrab.sessions.maintenance.archives import ArchivedSession


def archived_sessions(
    settings: Settings, agent_id: str | None = None, key: str | None = None
) -> list[ArchivedSession]:
    """The archived generations of one agent or of all, by key, the oldest first.

    :param key: only those of this stored key.
    :raises SessionError: if a table cannot be read.
    """
    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.cli.sessions import agent_folders, all_entries
    from hermitcrab.sessions.keys import normalise_agent_id
    from hermitcrab.sessions.maintenance.archives import archives_in

    home = settings.home_folder()
    wanted = None if agent_id is None else normalise_agent_id(agent_id)
    found: list[ArchivedSession] = []
    with ProgressBar("archives") as bar:
        for folder in agent_folders(home):
            if wanted in {None, folder.name}:
                entries = all_entries(home, folder.name)
                found += archives_in(folder / "sessions", entries, key=key, on_progress=bar.update)
    return found


def print_archived(found: list[ArchivedSession]) -> None:
    """Print archived generations as a table."""
    from hermitcrab.cli.output import note, print_table, show_time
    from hermitcrab.messages.media import shown_size

    if not found:
        note("nothing is archived yet")
        return
    print_table(
        ("key", "session id", "begun", "ended", "messages", "size", "reason", "file"),
        (
            (
                each.key or "-",
                each.session_id,
                show_time(each.started_at),
                show_time(each.ended_at),
                "?" if each.messages is None else f"{each.messages:,}",
                shown_size(each.bytes),
                each.problem or each.reason or "-",
                each.file.name,
            )
            for each in found
        ),
        numbers={"messages", "size"},
    )


def archived_json(each: ArchivedSession) -> dict[str, Any]:
    """An archived generation as JSON data; times are milliseconds."""
    return {
        "key": each.key,
        "sessionId": each.session_id,
        "startedAt": each.started_at,
        "endedAt": each.ended_at,
        "messages": each.messages,
        "bytes": each.bytes,
        "reason": each.reason,
        "problem": each.problem,
        "file": str(each.file),
    }


def archived_session(settings: Settings, key: str, session_id: str) -> ArchivedSession:
    """The archived generation of a key with this session id, the newest if there are several.

    :raises SessionNotFoundError: if there is none.
    """
    from hermitcrab.agent.addressing import owner_of
    from hermitcrab.errors import SessionNotFoundError

    stored = stored_key(settings, key)
    found = archived_sessions(settings, owner_of(settings.config(), stored), stored)
    same = [each for each in found if each.session_id == session_id]
    if not same:
        ids = ", ".join(dict.fromkeys(each.session_id for each in found)) or "none"
        raise SessionNotFoundError(
            f"{stored} has no archived session {session_id!r}",
            hint=f"See `hermitcrab sessions list --archived`; it has {ids}.",
        )
    return max(same, key=lambda each: each.ended_at or 0)


def stored_key(settings: Settings, key: str) -> str:
    """The key under which a session is stored, for what a person writes.

    :raises SessionKeyError: for a malformed key.
    """
    from hermitcrab.agent.addressing import stored_key as of_config

    return of_config(settings.config(), key)
