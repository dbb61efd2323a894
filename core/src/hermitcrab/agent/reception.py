"""Receiving a message: hooks, commands, the turn, and the delivery of its reply (design 6)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.commands.calls import CommandCall, CommandHost
from hermitcrab.agent.commands.commands import (
    BEGINNING,
    parse_command,
    plain_text,
    run_command,
    unknown_command,
)
from hermitcrab.agent.delivery import deliver
from hermitcrab.agent.events import Emit, Reply
from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.preparation import RefusedTurn, prepare_turn
from hermitcrab.agent.running import RunningTurns
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.setup import set_up_turn
from hermitcrab.agent.startup_notes import startup_notes
from hermitcrab.agent.turn import Turn
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.errors import TranscriptError
from hermitcrab.hooks import (
    BeforeAgentReply,
    InboundClaim,
    MessageReceived,
)
from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.types import Message
from hermitcrab.sessions.activation import is_for_agent, unanswered_context
from hermitcrab.sessions.inbound import InboundMessage, group_kind
from hermitcrab.sessions.reset_policy import StaleReason, policy_for, stale_reason

logger = logging.getLogger("hermitcrab.agent")

#: What the user is told of a conversation that was over.
_BEGUN = {
    "daily": "A new conversation has begun, as every day. The old one is kept.",
    "idle": "A new conversation has begun after a long pause. The old one is kept.",
}
_KINDS = frozenset({"external_user", "inter_session", "internal_system"})


class Reception:
    """The one path on which messages come in. Turns of one session run one after another."""

    def __init__(
        self, services: Services, opener: SessionOpener, sync: MemorySync, host: CommandHost
    ) -> None:
        self._services = services
        self._opener = opener
        self._sync = sync
        self._host = host
        self._turns = RunningTurns()

    async def receive(
        self,
        message: InboundMessage,
        *,
        provenance: Mapping[str, Any] | None = None,
        emit: Emit = lambda event: None,
    ) -> Reply:
        """Answer one message."""
        key = self._services.resolve_key(message)
        with self._turns.counted():
            async with self.turn(key):
                return await self.answer(
                    evolve(message, session_key=key), provenance=provenance, emit=emit
                )

    def turn(self, key: str) -> asyncio.Lock:
        """What holds a session for one turn."""
        return self._turns.lock(key)

    async def end_turns(self) -> None:
        """Cancel the turns that still run; what they said so far is kept."""
        await self._turns.end()

    async def run_unheard(
        self, key: str, text: str, *, provenance: Mapping[str, Any], run_id: str
    ) -> Reply:
        """Run a turn that no channel has to do with, such as a subagent's: no command, no claim, no delivery."""
        with self._turns.counted():
            async with self.turn(key):
                session = await self._opener.open(key, provenance=_provenance(provenance))
                session.hook_context = evolve(
                    session.hook_context,
                    provenance=_provenance(provenance),
                    session_id=session.log.session_id,
                    run_id=run_id,
                )
                message = InboundMessage(text=text, session_key=key)
                async with session.activity.turn():
                    return await self._run(session, message, provenance, lambda event: None)

    async def answer(
        self,
        message: InboundMessage,
        *,
        provenance: Mapping[str, Any] | None = None,
        emit: Emit = lambda event: None,
    ) -> Reply:
        """Answer a message whose session the caller holds already."""
        run_id = uuid.uuid4().hex
        session = await self._session(message, provenance)
        _tell_hooks(session, message, provenance, run_id)
        is_ours = is_for_agent(
            message, session.log.entry.group_activation, self._services.config.session
        )
        over = self._over(session, message, provenance) if is_ours else None
        if over is not None:
            session = await self._begin_again(session, over)
            _tell_hooks(session, message, provenance, run_id)
        claimed = await self._announce(session, message)
        if claimed is not None:
            return await self._deliver(session, message, claimed)
        command = await self._command(session, message, is_ours=is_ours)
        if command is not None:
            return command
        if not is_ours:
            return await self._overhear(session, message, provenance)
        async with session.activity.turn():
            reply = await self._run(
                session, evolve(message, text=plain_text(message.text)), provenance, emit
            )
        if over is not None:
            reply = evolve(reply, notes=(_BEGUN[over], *reply.notes))
        return await self._deliver(session, message, reply)

    def _over(
        self,
        session: SessionContext,
        message: InboundMessage,
        provenance: Mapping[str, Any] | None,
    ) -> StaleReason | None:
        """Why the conversation is over, before anything is written; only the user's own messages can end one."""
        name, _ = parse_command(message.text) or ("", "")
        if not _is_from_user(provenance) or name in BEGINNING or not session.log.items():
            return None
        policy = policy_for(message, session.log.key, self._services.config.session)
        return stale_reason(policy, session.log.entry, self._services.clock(), session.parts.zone)

    async def _begin_again(self, old: SessionContext, reason: StaleReason) -> SessionContext:
        """A new session in place of one that is over; what a group has said since the last answer goes with it."""
        limit = self._services.config.session.group_history_limit
        heard = unanswered_context([item.message for item in old.log.items()], limit)
        session = await self._host.reset_now(old, reason)
        if heard:
            await session.log.append_messages(heard)
        return session

    async def _overhear(
        self,
        session: SessionContext,
        message: InboundMessage,
        provenance: Mapping[str, Any] | None,
    ) -> Reply:
        """Keep what was said in a group to others, so that the agent knows of it when it is asked."""
        heard = _user_message(message.text, provenance, self._services.now_ms())
        heard["groupContext"] = {"sender": message.sender} if message.sender else {}
        session.begin_turn()
        await session.append(heard)
        await session.end_turn(status=None)
        return self._plain_reply(session, "", silent=True)

    async def _session(
        self, message: InboundMessage, provenance: Mapping[str, Any] | None
    ) -> SessionContext:
        """The session of a message; one that cannot be read can still be begun afresh."""
        key = self._services.resolve_key(message)
        try:
            session = await self._opener.open(key, provenance=_provenance(provenance))
            # What another process has set, such as the model, holds from this message on.
            await session.log.refresh()
            return session
        except TranscriptError as error:
            name, _ = parse_command(message.text) or ("", "")
            if name not in BEGINNING:
                raise
            logger.warning("%s", error, extra={"session_key": key})
            return await self._opener.begin(key, provenance=_provenance(provenance))

    async def _announce(self, session: SessionContext, message: InboundMessage) -> Reply | None:
        """Tell plugins of the message; a reply if one of them claims it."""
        session.fire_background(
            MessageReceived(
                sender=message.sender or message.peer or "user",
                content=message.text,
                thread_id=message.thread,
                message_id=message.message_id,
                sender_id=message.sender,
                session_key=session.log.key,
            )
        )
        claim = await session.fire(
            InboundClaim(
                content=message.text,
                channel=message.channel,
                account_id=message.account or None,
                conversation_id=message.peer or None,
                thread_id=message.thread,
                message_id=message.message_id,
                sender_id=message.sender,
                is_group=group_kind(message) == "group",
                session_key=session.log.key,
            )
        )
        if claim is None or not claim.handled:
            return None
        return self._plain_reply(session, claim.reply or "", silent=not claim.reply)

    async def _command(
        self, session: SessionContext, message: InboundMessage, *, is_ours: bool
    ) -> Reply | None:
        """The answer to a command. In a group it needs no mention, but what only looks like one is for others then."""
        parsed = parse_command(message.text)
        if parsed is None:
            return None
        name, arguments = parsed
        commands = self._services.commands()
        command = commands.get(name)
        if command is None and not is_ours:
            return None
        if command is None:
            hint = unknown_command(name, arguments, commands)
            return None if hint is None else self._plain_reply(session, hint)
        call = CommandCall(
            name=name, arguments=arguments, session=session, host=self._host, message=message
        )
        owner = self._services.plugins.registries.commands.owner_of(name)
        text = await run_command(command, call, owner)
        current = await self._opener.open(session.log.key)
        return self._plain_reply(current, text)

    def _plain_reply(self, session: SessionContext, text: str, *, silent: bool = False) -> Reply:
        return Reply(
            text=text,
            session_key=session.log.key,
            session_id=session.log.session_id,
            engine=session.engine.engine_id,
            silent=silent,
        )

    async def _run(
        self,
        session: SessionContext,
        message: InboundMessage,
        provenance: Mapping[str, Any] | None,
        emit: Emit,
    ) -> Reply:
        claim = await session.fire(BeforeAgentReply(cleaned_body=message.text))
        if claim is not None and claim.handled:
            asked = _asked(message, message.text, provenance, self._services.now_ms())
            return await self._answered_by_plugin(session, asked, claim.reply or "")
        setup = await set_up_turn(self._services, session, message.text)
        notes = await startup_notes(session, self._services.clock())
        prepared = await prepare_turn(session, message.text, setup.system, setup.older, notes)
        if isinstance(prepared, RefusedTurn):
            refused = user(prepared.text)
            refused["provenance"] = {"kind": "internal_system"}
            session.begin_turn()
            await session.append(refused)
            await session.end_turn("failed")
            return self._plain_reply(session, prepared.text)
        if prepared.tools_allow is not None:
            setup.toolbox.restrict(prepared.tools_allow)
        prepared = evolve(prepared, degraded=self._degraded(setup.agent))
        turn = Turn(
            session,
            prepared,
            setup.toolbox,
            max_rounds=setup.agent.settings.max_tool_rounds,
            levels=setup.levels,
            emit=emit,
        )
        now_ms = self._services.now_ms()
        reply = await turn.run(_asked(message, prepared.text, provenance, now_ms))
        if _is_from_user(provenance):
            await session.log.update_entry(
                record=False, last_interaction_at=self._services.now_ms()
            )
        self._sync.start(setup.agent, "turn")
        return reply

    async def _answered_by_plugin(
        self, session: SessionContext, asked: Message, text: str
    ) -> Reply:
        session.begin_turn()
        await session.append(asked)
        if text:
            await session.append(assistant(text, model="plugin", timestamp=self._services.now_ms()))
        await session.end_turn()
        return self._plain_reply(session, text, silent=not text)

    async def compact(self, session: SessionContext, instructions: str | None) -> CompactionOutcome:
        """Compact a session by hand; the flush of a cycle that has had none runs first."""
        setup = await set_up_turn(self._services, session, None)
        budget = session.budget(setup.system, setup.toolbox.schemas)
        outcome = await session.compact_by_hand(budget, instructions)
        if not outcome.compacted:
            # The flush may have written all the same.
            self._sync.start(setup.agent, "turn")
        return outcome

    async def _deliver(
        self, session: SessionContext, message: InboundMessage, reply: Reply
    ) -> Reply:
        return await deliver(session, message, reply, self._services.config.session.send_policy)

    def _degraded(self, agent: Agent) -> tuple[str, ...]:
        found = (agent.memory_failure, self._sync.error)
        return tuple(text for text in found if text)


def _tell_hooks(
    session: SessionContext,
    message: InboundMessage,
    provenance: Mapping[str, Any] | None,
    run_id: str,
) -> None:
    """Let the hooks of this turn know where its message came from."""
    session.hook_context = evolve(
        session.hook_context,
        channel=message.channel,
        provenance=_provenance(provenance),
        session_id=session.log.session_id,
        run_id=run_id,
    )


def _provenance(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Where the input came from; an unknown kind counts as none, and none as the user (sessions 5.5)."""
    if given is None or given.get("kind") not in _KINDS:
        return {"kind": "external_user"}
    return {name: value for name, value in given.items() if str(value).strip()}


def _is_from_user(provenance: Mapping[str, Any] | None) -> bool:
    """Whether a turn is the user's own; others neither extend nor end a conversation (sessions 9.6)."""
    return bool(_provenance(provenance)["kind"] == "external_user")


def _asked(
    message: InboundMessage, text: str, provenance: Mapping[str, Any] | None, now_ms: int
) -> Message:
    """What the agent is asked; in a group with who asks, whom the view names."""
    asked = _user_message(text, provenance, now_ms)
    if message.sender and group_kind(message) is not None:
        asked["groupSender"] = message.sender
    return asked


def _user_message(text: str, provenance: Mapping[str, Any] | None, now_ms: int) -> Message:
    message = user(text, timestamp=now_ms)
    message["provenance"] = dict(_provenance(provenance))
    return message
