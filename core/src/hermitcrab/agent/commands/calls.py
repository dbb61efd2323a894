"""What a chat command is, what it is called with, and what it may ask of the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import field, frozen

from hermitcrab.agent.events import Reply
from hermitcrab.agent.session import SessionContext
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.config import Config
from hermitcrab.sessions.effective_levels import SessionLevels
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.inbound import InboundMessage


@frozen(kw_only=True)
class ModelFacts:
    """The model that a session has chosen: its name, and what it can be told."""

    name: str
    thinking_levels: Sequence[str] = ()
    has_fast_mode: bool = False


class CommandHost(Protocol):
    """What a command can ask of the host; the caller holds the session, so nothing here waits for its turn to end."""

    @property
    def config(self) -> Config:
        """The configuration."""

    def commands(self) -> Mapping[str, ChatCommand]:
        """All chat commands."""

    def model_facts(self, session: SessionContext) -> ModelFacts:
        """The model that answers in a session."""

    async def levels(self, key: str) -> SessionLevels:
        """The levels that hold in a session."""

    async def patch_session(self, key: str, patch: Mapping[str, Any]) -> SessionEntry:
        """Set fields of a session; raises SessionError and ConfigError, and then nothing is changed."""

    async def compact_now(
        self, context: SessionContext, instructions: str | None
    ) -> CompactionOutcome:
        """Compact the session."""

    async def reset_now(self, old: SessionContext, reason: str) -> SessionContext:
        """Begin a new session id in place of the session."""

    async def continue_turn(self, key: str, text: str) -> Reply:
        """Run a turn in the session."""

    async def describe_session(self, context: SessionContext) -> Mapping[str, str]:
        """The state of the session, line by line."""


@frozen(kw_only=True)
class CommandCall:
    """A command as the user gave it; ``arguments`` is the text behind its name, ``message`` the whole message."""

    name: str
    arguments: str
    session: SessionContext
    host: CommandHost
    message: InboundMessage = field(factory=lambda: InboundMessage(text=""))


#: Runs a command and returns what to say to the user.
CommandRunner = Callable[[CommandCall], "str | Awaitable[str]"]


@frozen
class ChatCommand:
    """A chat command; ``help`` is one line."""

    name: str
    help: str
    run: CommandRunner
