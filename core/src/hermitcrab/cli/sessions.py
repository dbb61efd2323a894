"""``hermitcrab sessions``: the conversations of a home, read from disk without loading a plugin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings
from hermitcrab.cli.session_export import export_command
from hermitcrab.cli.session_import import import_command
from hermitcrab.cli.session_prune import delete_command, prune_command
from hermitcrab.cli.session_set import set_command
from hermitcrab.cli.session_verify import verify_command

if TYPE_CHECKING:
    from hermitcrab.messages.types import Message
    from hermitcrab.sessions.entries import SessionEntry
    from hermitcrab.sessions.format import Entry

_TEXT_CHARACTERS = 400
_SUMMARY_CHARACTERS = 200
_LABELS = {"toolResult": "result"}


@click.group("sessions")
@common_options
def sessions_command() -> None:
    """List, show, change and verify conversations."""


sessions_command.add_command(delete_command)
sessions_command.add_command(export_command)
sessions_command.add_command(import_command)
sessions_command.add_command(prune_command)
sessions_command.add_command(set_command)
sessions_command.add_command(verify_command)


@sessions_command.command("list")
@click.option("--agent", "agent_id", help="Only those of this agent.")
@click.option(
    "--archived", "is_archived", is_flag=True, help="Earlier transcripts and archives instead."
)
@json_option
@common_options
@pass_settings
def list_command(
    settings: Settings, agent_id: str | None, is_archived: bool, as_json: bool
) -> None:
    """List the sessions of all agents, the newest first."""
    from hermitcrab.cli.output import note, print_json, print_table, show_time
    from hermitcrab.cli.session_archives import archived_json, archived_sessions, print_archived

    if is_archived:
        found = archived_sessions(settings, agent_id)
        if as_json:
            print_json(list(map(archived_json, found)))
        else:
            print_archived(found)
        return
    home = settings.home_folder()
    entries = all_entries(home, agent_id)
    standing = {file.stem for folder in agent_folders(home) for file in _transcripts_in(folder)}
    if as_json:
        print_json(
            [{**_entry_json(each), "missing": each.session_id not in standing} for each in entries]
        )
    elif entries:
        print_table(
            ("key", "session id", "updated", "messages"),
            (
                (
                    each.key,
                    each.session_id + ("" if each.session_id in standing else " (missing)"),
                    show_time(each.updated_at),
                    f"{each.message_count:,}",
                )
                for each in entries
            ),
            numbers={"messages"},
        )
    else:
        note("no sessions yet")


@sessions_command.command("show")
@click.argument("key")
@click.option("--limit", type=click.IntRange(min=1), help="Only the last messages, this many.")
@click.option("--tree", "as_tree", is_flag=True, help="The branches of the transcript instead.")
@click.option("--session", "session_id", help="An archived session id of KEY instead.")
@json_option
@common_options
@pass_settings
def show_command(
    settings: Settings,
    key: str,
    limit: int | None,
    as_tree: bool,
    session_id: str | None,
    as_json: bool,
) -> None:
    """Show the messages of the session KEY, from its beginning."""
    from hermitcrab.cli.output import print_json, warn
    from hermitcrab.cli.session_tree import print_tree, tree_json
    from hermitcrab.cli.wording import describe_faults
    from hermitcrab.sessions.reading import read_transcript

    about, file = _transcript_of(settings, key, session_id)
    contents = read_transcript(file)
    for sentence in describe_faults(contents.faults):
        warn(sentence)
    if as_tree:
        if as_json:
            print_json({**about, "file": str(file), **tree_json(contents)})
        else:
            print_tree(contents)
        return
    shown = [each for each in contents.branch() if each["type"] in {"message", "compaction"}]
    if limit is not None:
        shown = _last_messages(shown, limit)
    if as_json:
        messages = [_message_json(each) for each in shown if each["type"] == "message"]
        print_json({**about, "file": str(file), "messages": messages})
    else:
        _print_entries(shown)


def all_entries(home: Path, agent_id: str | None = None) -> list[SessionEntry]:
    """The session entries of one agent or of all, the newest first.

    :raises SessionError: if a table cannot be read.
    """
    from hermitcrab.sessions.entries import SessionEntries
    from hermitcrab.sessions.keys import normalise_agent_id

    wanted = None if agent_id is None else normalise_agent_id(agent_id)
    found: list[SessionEntry] = []
    for folder in agent_folders(home):
        if wanted is None or folder.name == wanted:
            entries = SessionEntries(folder / "sessions" / "sessions.sqlite")
            try:
                found += entries.list()
            finally:
                entries.close()
    return sorted(found, key=lambda entry: (-entry.updated_at, entry.key))


def agent_folders(home: Path) -> list[Path]:
    """The folders of the agents that were used in a home."""
    agents = home / "agents"
    return (
        sorted(folder for folder in agents.iterdir() if folder.is_dir()) if agents.is_dir() else []
    )


def sessions_folder(settings: Settings, key: str) -> Path:
    """The folder that holds the transcripts of a stored key's agent."""
    from hermitcrab.agent.addressing import owner_of

    return settings.home_folder() / "agents" / owner_of(settings.config(), key) / "sessions"


def _transcript_of(
    settings: Settings, key: str, session_id: str | None
) -> tuple[dict[str, Any], Path]:
    """What is to be said of a session, current or archived, and its transcript."""
    from hermitcrab.cli.session_archives import archived_session

    if session_id is not None:
        archived = archived_session(settings, key, session_id)
        about = {
            "key": archived.key,
            "sessionId": archived.session_id,
            "updatedAt": archived.ended_at,
            "reason": archived.reason,
        }
        return about, archived.file
    entry = _entry_of(settings, key)
    return _entry_json(entry), sessions_folder(settings, entry.key) / f"{entry.session_id}.jsonl"


def _entry_of(settings: Settings, key: str) -> SessionEntry:
    from hermitcrab.agent.addressing import owner_of, stored_key
    from hermitcrab.errors import SessionNotFoundError

    config = settings.config()
    stored = stored_key(config, key)
    for entry in all_entries(settings.home_folder(), owner_of(config, stored)):
        if stored == entry.key:
            return entry
    raise SessionNotFoundError(
        f"there is no session {stored!r}", hint="See `hermitcrab sessions list`."
    )


def _transcripts_in(agent_folder: Path) -> Iterator[Path]:
    return (agent_folder / "sessions").glob("*.jsonl")


def _entry_json(entry: SessionEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "sessionId": entry.session_id,
        "updatedAt": entry.updated_at,
        "messages": entry.message_count,
    }


def _message_json(entry: Entry) -> dict[str, Any]:
    return {"id": entry.get("id"), "timestamp": entry.get("timestamp"), **entry.get("message", {})}


def _last_messages(entries: list[Entry], limit: int) -> list[Entry]:
    messages = [index for index, entry in enumerate(entries) if entry["type"] == "message"]
    return entries[messages[-limit] :] if len(messages) > limit else entries


def _print_entries(entries: Sequence[Entry]) -> None:
    from hermitcrab.cli.output import note, print_fields, say

    if not entries:
        note("no messages yet")
    for position, entry in enumerate(entries):
        if position:
            say()
        print_fields([(_title(entry), "\n".join(_lines(entry)))])


def _title(entry: Entry) -> str:
    from hermitcrab.cli.output import show_time
    from hermitcrab.sessions.format import parse_time

    moment = parse_time(entry.get("timestamp"))
    time = show_time(None if moment is None else int(moment.timestamp() * 1000))
    if entry["type"] == "compaction":
        return f"{time}  compacted"
    role = str(entry.get("message", {}).get("role", "?"))
    return f"{time}  {_LABELS.get(role, role):9}"


def _lines(entry: Entry) -> Iterator[str]:
    from hermitcrab.cli.output import one_line

    if entry["type"] == "compaction":
        yield f"{_count(entry.get('tokensBefore'))} → {_count(entry.get('tokensAfter'))} tokens"
        yield one_line(str(entry.get("summary", "")), _SUMMARY_CHARACTERS)
        return
    if (message := entry.get("message")) is not None:
        yield from message_lines(message)


def _count(tokens: object) -> str:
    return f"{tokens:,}" if isinstance(tokens, int) else "?"


def message_lines(message: Message) -> Iterator[str]:
    """A message in a few lines: its text, cut, its media, and its tool calls."""
    from hermitcrab.agent.shown_work import short_arguments
    from hermitcrab.cli.attachments import attachment_lines
    from hermitcrab.cli.output import one_line
    from hermitcrab.messages.text import text_of, tool_calls_of

    text = one_line(text_of(message), _TEXT_CHARACTERS)
    calls, attachments = tool_calls_of(message), list(attachment_lines(message))
    if text or not (calls or attachments):
        yield text or "(no text)"
    yield from attachments
    for call in calls:
        arguments = call.get("arguments")
        shown = short_arguments(arguments) if isinstance(arguments, dict) else str(arguments or "")
        yield f"→ {call['name']}({shown})"
    if message.get("stopReason") in {"aborted", "error"}:
        yield f"({message['stopReason']}: {one_line(str(message.get('errorMessage', '')), 120)})"
