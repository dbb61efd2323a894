"""Keeping what users say of themselves, after each turn (memory 7.5)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attrs import define, field, frozen

from hermitcrab.memory.longterm.contract import LongTermStore
from hermitcrab.memory.longterm.counting import CaptureCounts, add_counts, read_counts
from hermitcrab.memory.longterm.recalling import failure_text, store_of
from hermitcrab.memory.longterm.remembering import remember
from hermitcrab.memory.longterm.sanitising import sanitised
from hermitcrab.memory.longterm.screening import unfit
from hermitcrab.memory.longterm.settings import LongTermSettings
from hermitcrab.memory.longterm.triggers import guessed_category, has_trigger, is_long_enough
from hermitcrab.messages.provenance import is_group_context
from hermitcrab.messages.text import scrub_text, text_of

if TYPE_CHECKING:
    from hermitcrab.hooks.context import HookContext
    from hermitcrab.hooks.turn import AgentEnd
    from hermitcrab.messages.types import Message

#: At most this many texts of one turn are considered; duplicates count.
MOST_PER_TURN = 3
IMPORTANCE = 0.7

#: How long the texts of a turn may take to be kept, in seconds; less than the 30 s that the hook has.
_DEADLINE_S = 20.0
#: Texts that a failing store did not take are tried again with the next turn, at most this many of a session.
_MOST_WAITING = 10
_MOST_TRIES = 5
_MOST_SESSIONS = 1_000
_log = logging.getLogger("hermitcrab.memory")


@frozen
class Candidate:
    """What a user said, sanitised, and why it is not kept: a word for the counters, ``None`` if it is."""

    text: str
    rejected: str | None = None


def candidates(messages: Iterable[Message], settings: LongTermSettings) -> list[Candidate]:
    """What the users among ``messages`` said: one candidate a message. Nobody else is heard (C79, C81)."""
    return [_judged(each, settings) for each in messages if each.get("role") == "user"]


def _judged(message: Message, settings: LongTermSettings) -> Candidate:
    if not _is_from_user(message):
        return Candidate("", "provenance")
    text = sanitised(scrub_text(text_of(message)))
    problem = unfit(text, longest=settings.capture_max_chars)
    if problem is not None:
        return Candidate(text, problem)
    if not has_trigger(text, settings.custom_triggers):
        return Candidate(text, "no trigger")
    return Candidate(text, None if is_long_enough(text) else "short")


def _is_from_user(message: Message) -> bool:
    provenance = message.get("provenance")
    kind = provenance.get("kind") if isinstance(provenance, dict) else None
    return kind in (None, "external_user") and not is_group_context(message)


def mark_of(messages: Sequence[Message]) -> str | None:
    """A fingerprint of where ``messages`` end: their last user message and their last message."""
    if not messages:
        return None
    users = [each for each in messages if each.get("role") == "user"]
    digest = hashlib.sha256()
    for message in (*users[-1:], messages[-1]):
        said = (message.get("role"), message.get("timestamp"), text_of(message))
        digest.update(repr(said).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def unseen(messages: Sequence[Message], mark: str | None) -> Sequence[Message]:
    """The messages behind ``mark``; all of them where it is not found, so that no message is lost for ever."""
    if mark is None:
        return messages
    for end in range(len(messages), 0, -1):
        if mark_of(messages[:end]) == mark:
            return messages[end:]
    return messages


@define
class _Waiting:
    """A text that is to be kept, and how often that failed."""

    text: str
    tries: int = 0


@define
class _Session:
    """What is known of a session between its turns: where the last one ended, and what is still to be kept."""

    mark: str | None = None
    waiting: deque[_Waiting] = field(factory=lambda: deque(maxlen=_MOST_WAITING))


class Capturer:
    """Captures for the sessions of all agents; one for each plugin."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[Path | None, str, str], _Session] = OrderedDict()
        # A lock belongs to one event loop, and hosts of one process may have loops of their own.
        self._locks: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[tuple[Path | None, str], asyncio.Lock]
        ] = WeakKeyDictionary()

    async def after_turn(
        self, event: AgentEnd, ctx: HookContext, settings: LongTermSettings
    ) -> None:
        """Keep what is worth it of a turn that went well. A store that fails is a warning; it is tried again later."""
        store = store_of(ctx, settings)
        if store is None or not settings.auto_capture or not event.success:
            return
        agent_id, session_key = ctx.agent_id or "main", ctx.session_key or ""
        # One turn of an agent at a time: otherwise two that say the same would both be new.
        async with self._lock(ctx.home, agent_id):
            session = self._session((ctx.home, agent_id, session_key))
            messages = unseen(event.messages, session.mark)
            session.mark = mark_of(event.messages)
            found = candidates(messages, settings)
            counts = await _keep(store, session, found, session_key, settings)
        if ctx.home is not None and counts:
            await _count(ctx.home, agent_id, counts)

    def forget_session(self, ctx: HookContext) -> None:
        """Forget where a session stood, but not what is still to be kept; for the hook ``session_end``."""
        key = (ctx.home, ctx.agent_id or "main", ctx.session_key or "")
        session = self._sessions.get(key)
        if session is not None and session.waiting:
            session.mark = None
        else:
            self._sessions.pop(key, None)

    def _session(self, key: tuple[Path | None, str, str]) -> _Session:
        session = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _lock(self, home: Path | None, agent_id: str) -> asyncio.Lock:
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        return locks.setdefault((home, agent_id), asyncio.Lock())


def capture_report(home: Path, agent_id: str) -> dict[str, Any]:
    """What capture has seen, kept and rejected for an agent, for a status; empty before the first. Reads a file."""
    counts = read_counts(home, agent_id)
    return counts.as_data() if counts else {}


async def _keep(
    store: LongTermStore,
    session: _Session,
    found: Sequence[Candidate],
    session_key: str,
    settings: LongTermSettings,
) -> CaptureCounts:
    counts = CaptureCounts(seen=len(found))
    for candidate in found:
        if candidate.rejected is not None:
            counts = counts.with_rejected(candidate.rejected)
    fit = [candidate.text for candidate in found if candidate.rejected is None]
    for _ in fit[MOST_PER_TURN:]:
        counts = counts.with_rejected("too many")
    session.waiting.extend(_Waiting(text) for text in fit[:MOST_PER_TURN])
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while session.waiting:
                # It leaves the queue once it is kept: neither a failure nor a cancellation loses it.
                kept = await _kept(store, session.waiting[0].text, session_key, settings)
                session.waiting.popleft()
                counts = counts.plus(kept)
    except Exception as error:  # noqa: BLE001 - a turn that is over must not fail
        _put_off(session, failure_text(error, _DEADLINE_S), session_key)
        counts = counts.plus(CaptureCounts(failed=1))
    return counts


def _put_off(session: _Session, problem: str, session_key: str) -> None:
    """Let the first text wait behind the others, or give it up: it may be the one that cannot be kept."""
    failed = session.waiting.popleft()
    failed.tries += 1
    again = failed.tries < _MOST_TRIES
    if again:
        session.waiting.append(failed)
    _log.warning(
        "a memory was not captured and is %s: %s",
        "tried again later" if again else "given up",
        problem,
        extra={"session_key": session_key},
    )


async def _kept(
    store: LongTermStore, text: str, session_key: str, settings: LongTermSettings
) -> CaptureCounts:
    outcome = await remember(
        store,
        text,
        category=guessed_category(text),
        importance=IMPORTANCE,
        session_key=session_key,
        source="user",
        duplicate_min_score=settings.duplicate_min_score,
    )
    if outcome.action == "created":
        return CaptureCounts(captured=1)
    return CaptureCounts(duplicates=1)


async def _count(home: Path, agent_id: str, counts: CaptureCounts) -> None:
    try:
        await asyncio.to_thread(add_counts, home, agent_id, counts)
    except Exception as error:  # noqa: BLE001 - counts are worth a warning, not a failed hook
        _log.warning("%s", error)
