"""A session in the hands of an agent builder: your own loop around our parts (design 4)."""

from __future__ import annotations

import uuid
from pathlib import Path

from attrs import evolve

from hermitcrab.agent.assembled import AssembledContext, prompt_of
from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.setup import TurnSetup, set_up_turn
from hermitcrab.hooks import AgentEnd
from hermitcrab.messages.types import Message
from hermitcrab.sessions.branching import SessionTree


class Session:
    """One session. Append messages as they happen, assemble before every model call, end the turn.

    Call :meth:`assemble` only at safe points: before a model call, after each complete round of tool calls.
    """

    def __init__(self, context: SessionContext, services: Services, sync: MemorySync) -> None:
        self._context = context
        self._services = services
        self._sync = sync
        self._setup: TurnSetup | None = None
        self._begin_turn()

    @property
    def key(self) -> str:
        return self._context.log.key

    @property
    def session_id(self) -> str:
        return self._context.log.session_id

    @property
    def file(self) -> Path:
        """The transcript."""
        return self._context.log.file

    @property
    def messages(self) -> list[Message]:
        """The messages of the context, the summary of compacted ones first.

        Media are read from their files. A tool result over 1 MiB is there with its head and its tail;
        :meth:`restored` gives all of it.
        """
        return self._context.media.restored_at_once(
            [item.message for item in self._context.log.items()]
        )

    @property
    def tree(self) -> SessionTree:
        """The branches of the transcript, its labels, and its entries that are no messages."""
        return SessionTree(self._context.log)

    async def append(self, message: Message) -> None:
        """Append a message to the transcript."""
        await self._context.append(message)

    async def restored(self, message: Message) -> Message:
        """A message of this session as it was appended, with its media and the whole text of a large result."""
        return await self._context.log.restored(message)

    async def assemble(self) -> AssembledContext:
        """What to give to the model: messages, system prompt and sizes. Flushes and compacts where that is due.

        :raises CompactionError: if the context cannot be brought to fit the window.
        """
        if self._setup is None:
            self._setup = await set_up_turn(self._services, self._context, None)
        return await self._context.assemble(
            system=self._setup.system,
            tools=self._setup.toolbox.schemas,
            prompt=prompt_of([item.message for item in self._context.log.items()]),
        )

    async def end_turn(self) -> None:
        """Let the engine take in the turn, sync memory, tell plugins, and make the turn durable."""
        context = self._context
        await context.end_turn()
        context.fire_background(AgentEnd(messages=context.new_messages, success=True))
        self._sync.start(await self._services.agent_of(context.log.key), "turn")
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._setup = None
        context = self._context
        context.hook_context = evolve(context.hook_context, run_id=uuid.uuid4().hex)
        context.begin_turn()
