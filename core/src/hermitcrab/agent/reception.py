"""Receiving a message: hooks, commands, the turn, and the delivery of its reply (design 6)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.commands import (
    BEGINNING,
    CommandCall,
    parse_command,
    plain_text,
    run_command,
    unknown_command,
)
from hermitcrab.agent.events import Emit, Reply
from hermitcrab.agent.preparation import RefusedTurn, prepare_turn, wanted_model
from hermitcrab.agent.prompt import INTRODUCTION, PromptParts, build_system_prompt
from hermitcrab.agent.running import RunningTurns
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.toolbox import Toolbox
from hermitcrab.agent.tools import ToolContext
from hermitcrab.agent.turn import Turn
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.errors import ConfigError, HermitcrabError, TranscriptError
from hermitcrab.hooks import (
    AgentStart,
    BeforeAgentReply,
    InboundClaim,
    MessageReceived,
    MessageSending,
    MessageSent,
    ReplyPayloadSending,
)
from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.types import Message
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.keys import agent_id_of, is_private

if TYPE_CHECKING:
    from hermitcrab.agent.host import Host

logger = logging.getLogger("hermitcrab.agent")

_KINDS = frozenset({"external_user", "inter_session", "internal_system"})


@frozen(kw_only=True)
class TurnSetup:
    """A session that is ready for a turn: its agent, its model's window, the tools and the system prompt.

    ``older`` is what plugins answered to the older hook ``before_agent_start``.
    """

    agent: Agent
    toolbox: Toolbox
    system: str
    older: AgentStart | None = None


class Reception:
    """The one path on which messages come in. Turns of one session run one after another."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._turns = RunningTurns()
        self._syncs: set[asyncio.Task[None]] = set()
        self.sync_error: str | None = None

    async def receive(
        self,
        message: InboundMessage,
        *,
        provenance: Mapping[str, Any] | None = None,
        emit: Emit = lambda event: None,
    ) -> Reply:
        """Answer one message."""
        key = self._host.resolve_key(message)
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

    async def answer(
        self,
        message: InboundMessage,
        *,
        provenance: Mapping[str, Any] | None = None,
        emit: Emit = lambda event: None,
    ) -> Reply:
        """Answer a message whose session the caller holds already."""
        session = await self._session(message)
        session.hook_context = evolve(
            session.hook_context,
            channel=message.channel,
            provenance=_provenance(provenance),
            session_id=session.log.session_id,
            run_id=uuid.uuid4().hex,
        )
        claimed = await self._announce(session, message)
        if claimed is not None:
            return await self._deliver(session, message, claimed)
        command = await self._command(session, message)
        if command is not None:
            return command
        reply = await self._run(
            session, evolve(message, text=plain_text(message.text)), provenance, emit
        )
        return await self._deliver(session, message, reply)

    async def _session(self, message: InboundMessage) -> SessionContext:
        """The session of a message; one that cannot be read can still be begun afresh."""
        key = self._host.resolve_key(message)
        try:
            return await self._host.open_session(key)
        except TranscriptError as error:
            name, _ = parse_command(message.text) or ("", "")
            if name not in BEGINNING:
                raise
            logger.warning("%s", error, extra={"session_key": key})
            return await self._host.begin_session(key)

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
                is_group=message.chat_type == "group",
                session_key=session.log.key,
            )
        )
        if claim is None or not claim.handled:
            return None
        return self._plain_reply(session, claim.reply or "", silent=not claim.reply)

    async def _command(self, session: SessionContext, message: InboundMessage) -> Reply | None:
        parsed = parse_command(message.text)
        if parsed is None:
            return None
        name, arguments = parsed
        commands = self._host.commands()
        command = commands.get(name)
        if command is None:
            hint = unknown_command(name, arguments, commands)
            return None if hint is None else self._plain_reply(session, hint)
        call = CommandCall(name=name, arguments=arguments, session=session, host=self._host)
        text = await run_command(command, call)
        current = await self._host.open_session(session.log.key)
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
            asked = _user_message(message.text, provenance, self._now_ms())
            return await self._answered_by_plugin(session, asked, claim.reply or "")
        setup = await self.set_up(session, message.text)
        prepared = await prepare_turn(session, message.text, setup.system, setup.older)
        if isinstance(prepared, RefusedTurn):
            refused = user(prepared.text)
            refused["provenance"] = {"kind": "internal_system"}
            session.begin_turn()
            await session.append(refused)
            await session.end_turn()
            return self._plain_reply(session, prepared.text)
        if prepared.tools_allow is not None:
            setup.toolbox.restrict(prepared.tools_allow)
        prepared = evolve(prepared, degraded=self._degraded(setup.agent))
        turn = Turn(
            session,
            prepared,
            setup.toolbox,
            max_rounds=setup.agent.settings.max_tool_rounds,
            emit=emit,
        )
        reply = await turn.run(_user_message(prepared.text, provenance, self._now_ms()))
        await session.log.update_entry(record=False, last_interaction_at=self._now_ms())
        self.sync_memory(setup.agent, "turn")
        return reply

    async def _answered_by_plugin(
        self, session: SessionContext, asked: Message, text: str
    ) -> Reply:
        session.begin_turn()
        await session.append(asked)
        if text:
            await session.append(assistant(text, model="plugin", timestamp=self._now_ms()))
        await session.end_turn()
        return self._plain_reply(session, text, silent=not text)

    async def set_up(self, session: SessionContext, prompt: str | None) -> TurnSetup:
        """Choose the model, and build the tools and the system prompt of a turn, if there is a prompt for one."""
        host = self._host
        agent = await host.agent(agent_id_of(session.log.key))
        wish = await wanted_model(session, prompt)
        configured = host.model_reference(session.log.entry, agent)
        reference = wish.applied_to(configured)
        try:
            model = host.model_for(reference)
        except ConfigError as error:
            if reference == configured:
                raise
            logger.warning(
                "the model %s that a plugin asks for is not there: %s",
                reference,
                error,
                extra={"session_key": session.log.key},
            )
            reference, model = configured, host.model_for(configured)
        window = await host.window_of(model, reference, agent.settings.context_tokens)
        session.use_model(model, window.tokens)
        toolbox = Toolbox(
            agent.tools,
            ToolContext(
                agent_id=agent.agent_id,
                session_key=session.log.key,
                session_id=session.log.session_id,
                workspace=agent.workspace,
                memory=agent.memory,
            ),
        )
        names = [schema.name for schema in toolbox.schemas]
        section = None if agent.memory is None else agent.memory.prompt_section(names)
        settings = agent.settings
        system = await asyncio.to_thread(
            build_system_prompt,
            PromptParts(
                introduction=settings.system_prompt or INTRODUCTION,
                workspace=agent.workspace,
                private=is_private(session.log.key),
                per_file=settings.bootstrap_max_chars,
                total=settings.bootstrap_total_max_chars,
                window=window.tokens,
                tools=names,
                memory_section=section,
                date_line=self._date_line(session),
            ),
        )
        return TurnSetup(agent=agent, toolbox=toolbox, system=system, older=wish.older)

    def _date_line(self, session: SessionContext) -> str:
        local = self._host.clock().astimezone(session.parts.zone)
        return f"Today is {local:%A, %Y-%m-%d} ({local.tzname()})."

    async def compact(self, session: SessionContext, instructions: str | None) -> CompactionOutcome:
        """Compact a session by hand; the flush of a cycle that has had none runs first."""
        setup = await self.set_up(session, None)
        budget = session.budget(setup.system, setup.toolbox.schemas)
        await session.flush(budget)
        outcome = await session.compact(
            budget, trigger="manual", must_fit=False, focus=instructions
        )
        self.sync_memory(setup.agent, "compaction")
        return outcome

    async def _deliver(
        self, session: SessionContext, message: InboundMessage, reply: Reply
    ) -> Reply:
        """Offer the reply to plugins, and tell them that it went out."""
        if reply.silent:
            return reply
        target = message.peer or message.sender or "user"
        payload = await session.fire(
            ReplyPayloadSending(
                payload={"text": reply.text},
                kind="final",
                channel=message.channel,
                session_key=session.log.key,
            )
        )
        if payload is not None and payload.cancel:
            return evolve(reply, silent=True)
        if payload is not None and payload.payload is not None:
            reply = evolve(reply, text=str(payload.payload.get("text", reply.text)))
        sending = await session.fire(
            MessageSending(to=target, content=reply.text, thread_id=message.thread)
        )
        if sending is not None and sending.cancel:
            return evolve(reply, silent=True)
        if sending is not None and sending.content is not None:
            reply = evolve(reply, text=sending.content)
        session.fire_background(
            MessageSent(to=target, content=reply.text, success=True, session_key=session.log.key)
        )
        return reply

    def _degraded(self, agent: Agent) -> tuple[str, ...]:
        found = (agent.memory_failure, self.sync_error)
        return tuple(text for text in found if text)

    def sync_memory(self, agent: Agent, reason: str) -> None:
        """Bring the memory index up to date in the background; a failure is logged and shown in the next reply."""
        if agent.memory is None:
            return
        task = asyncio.ensure_future(self._sync(agent, reason))
        self._syncs.add(task)
        task.add_done_callback(self._syncs.discard)

    async def _sync(self, agent: Agent, reason: str) -> None:
        if agent.memory is None:
            return
        try:
            await agent.memory.sync(reason)
        except (HermitcrabError, OSError) as error:
            self.sync_error = f"the memory index is behind: {error}"
            logger.warning("the memory of agent %s did not sync: %s", agent.agent_id, error)
        except Exception as error:
            self.sync_error = f"the memory index is behind: {type(error).__name__}: {error}"
            logger.exception("the memory of agent %s did not sync", agent.agent_id)
        else:
            self.sync_error = None

    async def close(self) -> None:
        """Wait for syncs that are under way."""
        if self._syncs:
            await asyncio.wait(self._syncs, timeout=30)

    def _now_ms(self) -> int:
        return int(self._host.clock().timestamp() * 1000)


def _provenance(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Where the input came from; an unknown kind counts as none, and none as the user (sessions 5.5)."""
    if given is None or given.get("kind") not in _KINDS:
        return {"kind": "external_user"}
    return {name: value for name, value in given.items() if str(value).strip()}


def _user_message(text: str, provenance: Mapping[str, Any] | None, now_ms: int) -> Message:
    message = user(text, timestamp=now_ms)
    message["provenance"] = dict(_provenance(provenance))
    return message
