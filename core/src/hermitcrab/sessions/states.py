"""The states of a session, what leads from one to another, and how its last turn is remembered (sessions 4).

A state belongs to one process and is never written to disk: a process that dies leaves none behind. What is kept is how
the last turn ended, in the write that ends every turn anyway.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from hermitcrab.errors import SessionStateError
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message

SessionState = Literal["idle", "running", "compacting", "archived"]
#: ``turn_resumed`` ends a compaction within a turn, ``compaction_ended`` one outside of turns. ``reset`` is this
#: process's own beginning of a new session id under the key, ``replaced`` another process's.
StateChange = Literal[
    "turn_began",
    "turn_ended",
    "compaction_began",
    "compaction_ended",
    "turn_resumed",
    "reset",
    "replaced",
]
#: How the last turn ended; ``running`` comes from elsewhere only, such as an imported entry.
RunStatus = Literal["running", "done", "failed", "killed", "timeout"]

#: Where each change leads from each state; what is not here is illegal. Work that another process's reset overtakes
#: may still come to its end, and so may a turn beside which somebody's own loop compacts.
TRANSITIONS: Mapping[SessionState, Mapping[StateChange, SessionState]] = MappingProxyType(
    {
        "idle": {
            "turn_began": "running",
            "compaction_began": "compacting",
            "reset": "archived",
            "replaced": "archived",
        },
        "running": {
            "turn_ended": "idle",
            "compaction_began": "compacting",
            "replaced": "archived",
        },
        "compacting": {
            "compaction_ended": "idle",
            "turn_resumed": "running",
            "turn_ended": "compacting",
            "replaced": "archived",
        },
        "archived": {
            "turn_ended": "archived",
            "compaction_ended": "archived",
            "turn_resumed": "archived",
        },
    }
)

_WHY_NOT: Mapping[SessionState, str] = MappingProxyType(
    {
        "idle": "nothing runs in it",
        "running": "a turn runs in it",
        "compacting": "it is being compacted",
        "archived": "another session has taken its place",
    }
)


def next_state(
    state: SessionState, change: StateChange, *, where: str | None = None
) -> SessionState:
    """The state that a change leads to.

    :param where: the session, for the error.
    :raises SessionStateError: if the change is illegal in that state.
    """
    after = TRANSITIONS[state].get(change)
    if after is None:
        raise SessionStateError(
            f"the session is {state}, so {change.replace('_', ' ')} cannot be: {_WHY_NOT[state]}",
            where=where,
            hint="Open the session again."
            if state == "archived"
            else "Wait until what runs in the session is over.",
        )
    return after


def status_after(failure: BaseException | None) -> RunStatus:
    """How a turn ended that ``failure`` ended, or nothing did (sessions 4)."""
    if failure is None:
        return "done"
    if isinstance(failure, CancelledError):
        return "killed"
    return "timeout" if isinstance(failure, TimeoutError) else "failed"


def describe_state(state: SessionState, status: str | None, last: Message | None) -> str:
    """The state of a session for people; where nothing runs, how its last turn ended.

    :param status: what the session entry says.
    :param last: the last message of the conversation: one that waits for an answer tells of a process that died.
    """
    if state != "idle":
        return state
    if status == "running" or (last is not None and _waits_for_answer(last)):
        return "idle (the last turn did not come to its end)"
    return "idle" if status is None else f"idle (last turn: {status})"


def _waits_for_answer(message: Message) -> bool:
    role = message.get("role")
    if role == "user":
        provenance = message.get("provenance")
        kind = provenance.get("kind") if isinstance(provenance, dict) else None
        return kind in {None, "external_user"}
    return role == "toolResult" or (role == "assistant" and bool(tool_calls_of(message)))
