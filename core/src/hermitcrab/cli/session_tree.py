"""The branches of a transcript, for ``hermitcrab sessions show KEY --tree``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermitcrab.messages.types import Message
    from hermitcrab.sessions.format import Entry
    from hermitcrab.sessions.reading import TranscriptContents
    from hermitcrab.sessions.tree import Labels, TranscriptBranch

_TEXT_CHARACTERS = 60


def tree_json(contents: TranscriptContents) -> dict[str, Any]:
    """The tree as JSON data."""
    from hermitcrab.sessions.tree import transcript_tree

    tree = transcript_tree(contents.entries)
    return {
        "leafId": tree.leaf_id,
        "depth": tree.depth,
        "labels": dict(_labels(contents).by_entry),
        "branches": [
            {
                "tipId": branch.tip_id,
                "forkId": branch.fork_id,
                "entries": branch.length,
                "depth": branch.depth,
                "active": branch.is_active,
                "timestamp": branch.tip.get("timestamp"),
                "text": _text(branch.last_said),
            }
            for branch in tree.branches
        ],
    }


def print_tree(contents: TranscriptContents) -> None:
    """Print a line for each branch, the active one marked, and the labels of the active branch."""
    from hermitcrab.cli.output import note, print_table, say, warn
    from hermitcrab.sessions.tree import transcript_tree

    tree = transcript_tree(contents.entries)
    if not tree.branches:
        note("no entries yet")
        return
    print_table(
        ("", "tip", "leaves at", "entries", "depth", "time", "ends with"),
        [_row(branch) for branch in tree.branches],
        numbers={"entries", "depth"},
    )
    labels = _labels(contents)
    if labels.by_entry:
        say()
        print_table(("labelled", "label"), labels.by_entry.items())
    if tree.leaf_id is None:
        note("the next message begins a branch of its own")
    for target in labels.unknown:
        warn(f"a label names entry {target}, which this transcript does not have")


def _row(branch: TranscriptBranch) -> Sequence[str]:
    from hermitcrab.cli.output import show_time
    from hermitcrab.sessions.format import parse_time

    moment = parse_time(branch.tip.get("timestamp"))
    return (
        "*" if branch.is_active else "",
        branch.tip_id,
        branch.fork_id or "-",
        f"{branch.length:,}",
        f"{branch.depth:,}",
        show_time(None if moment is None else int(moment.timestamp() * 1000)),
        _text(branch.last_said),
    )


def _labels(contents: TranscriptContents) -> Labels:
    from hermitcrab.sessions.tree import labels_on

    return labels_on(contents.branch(), {entry["id"] for entry in contents.entries})


def _text(entry: Entry | None) -> str:
    """What an entry says, on one line."""
    from hermitcrab.cli.output import one_line
    from hermitcrab.sessions.context import message_of

    message = None if entry is None else message_of(entry)
    return "" if message is None else one_line(_said(message), _TEXT_CHARACTERS)


def _said(message: Message) -> str:
    from hermitcrab.cli.attachments import attachment_lines
    from hermitcrab.messages.text import text_of, tool_calls_of

    calls = " ".join(f"→ {call['name']}" for call in tool_calls_of(message))
    return f"{message['role']}: {text_of(message) or calls or ' '.join(attachment_lines(message))}"
