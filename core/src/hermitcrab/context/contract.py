"""The contract of a context engine: what it says of itself, and the methods that the host calls.

Every parameter is keyword-only. An engine may leave out parameters that it does not need: what its signature does not
take is not passed (context 2.5). Cancelling is task cancellation, so an engine lets ``CancelledError`` through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from logging import Logger
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import and_, deep_iterable, in_, instance_of, min_len, optional

from hermitcrab.context.results import (
    AssembleResult,
    BootstrapResult,
    CompactResult,
    IngestBatchResult,
    IngestResult,
    MaintainResult,
    SubagentPreparation,
    neutral_result,
)
from hermitcrab.messages.types import Message

#: The engine that answers where none is selected or the selected one cannot; only the core may register it.
DEFAULT_ENGINE_ID = "legacy"

REQUIRED_METHODS = ("ingest", "assemble", "compact")
OPTIONAL_METHODS = (
    "bootstrap",
    "maintain",
    "ingest_batch",
    "after_turn",
    "prepare_subagent_spawn",
    "on_subagent_ended",
    "dispose",
)

#: Parameters that the host adds where it has them; an engine may restrict or refuse them (context 2.5).
OPTIONAL_HOST_PARAMETERS = frozenset(
    {"session_key", "prompt", "runtime_settings", "session_target", "runtime_context"}
)

CompactionTarget = Literal["budget", "threshold"]
SubagentContextMode = Literal["isolated", "fork"]
SubagentEndReason = Literal["deleted", "completed", "swept", "released"]

_NAME = and_(instance_of(str), min_len(1))


def _names(value: object) -> object:
    return tuple(value) if isinstance(value, list | set | frozenset) else value


@frozen
class ContextEngineInfo:
    """What an engine says of itself (context 1.1).

    ``id`` should equal the id under which the engine is registered; where it does not, the registered id is used.
    ``owns_compaction`` says that the engine runs its own compaction; an engine that does not own it delegates
    (:func:`~hermitcrab.context.delegate_compaction`). ``accepted_host_params`` restricts the optional host parameters
    (:data:`OPTIONAL_HOST_PARAMETERS`) that are passed; None means all of them.
    """

    id: str = field(validator=_NAME)
    name: str = field(validator=_NAME)
    version: str | None = field(default=None, validator=optional(instance_of(str)))
    owns_compaction: bool = field(default=False, validator=instance_of(bool))
    turn_maintenance_mode: Literal["foreground", "background"] = field(
        default="foreground", validator=in_(("foreground", "background"))
    )
    accepted_host_params: tuple[str, ...] | None = field(
        default=None,
        converter=_names,
        validator=optional(deep_iterable(instance_of(str), instance_of(tuple))),
    )


@frozen(kw_only=True)
class EngineContext:
    """What a factory is called with.

    ``config`` is the whole validated configuration, ``plugin_config`` the plugin's own part of it; ``workspace`` is
    the agent's workspace folder and ``home`` the folder of all of hermitcrab's files.
    """

    config: Any
    plugin_config: Any
    agent_id: str
    workspace: Path
    home: Path
    logger: Logger


class ContextEngine(ABC):
    """Decides which messages the model sees.

    ``info``, ``ingest``, ``assemble`` and ``compact`` must be there. The other methods are optional and count as
    present only when overridden: an engine without ``after_turn`` and ``ingest_batch`` gets ``ingest`` for each
    message. There is one instance per session. ``commit_turn`` is a reserved name.
    """

    @property
    @abstractmethod
    def info(self) -> ContextEngineInfo:
        """What the engine says of itself; a property, or a class attribute."""

    @abstractmethod
    async def ingest(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        message: Message,
        is_heartbeat: bool = False,
    ) -> IngestResult:
        """Store one message; ``ingested`` is false for a duplicate."""

    @abstractmethod
    async def assemble(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        messages: list[Message],
        token_budget: int | None = None,
        available_tools: Set[str] = frozenset(),
        citations_mode: str | None = None,
        model: str | None = None,
        prompt: str | None = None,
    ) -> AssembleResult:
        """Choose what the model sees.

        ``messages`` is the active branch since the last compaction, the current user message last; ``prompt`` repeats
        that message's text for retrieval. ``token_budget`` is what the messages may take, in tokens.
        """

    @abstractmethod
    async def compact(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        session_file: str | None = None,
        token_budget: int | None = None,
        force: bool = False,
        current_token_count: int | None = None,
        compaction_target: CompactionTarget = "budget",
        custom_instructions: str | None = None,
        runtime_context: Mapping[str, Any] | None = None,
    ) -> CompactResult:
        """Reduce the context of a session to ``token_budget`` tokens; every trigger of a compaction calls this."""

    async def bootstrap(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        session_file: str | None = None,
        runtime_context: Mapping[str, Any] | None = None,
    ) -> BootstrapResult:
        """Prepare state for a session that exists already; may import its history."""
        result: BootstrapResult = neutral_result("bootstrap")
        return result

    async def maintain(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        session_file: str | None = None,
        runtime_context: Mapping[str, Any] | None = None,
    ) -> MaintainResult:
        """Tidy up after bootstrap, a successful turn or a compaction."""
        result: MaintainResult = neutral_result("maintain")
        return result

    async def ingest_batch(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        messages: Sequence[Message],
        is_heartbeat: bool = False,
    ) -> IngestBatchResult:
        """Store all new messages of a turn."""
        result: IngestBatchResult = neutral_result("ingest_batch")
        return result

    async def after_turn(
        self,
        *,
        session_id: str,
        session_key: str | None = None,
        session_file: str | None = None,
        messages: Sequence[Message],
        pre_prompt_message_count: int,
        auto_compaction_summary: str | None = None,
        is_heartbeat: bool = False,
        token_budget: int | None = None,
        runtime_context: Mapping[str, Any] | None = None,
    ) -> None:
        """Work after a turn, instead of ingesting; the turn's messages begin at ``pre_prompt_message_count``."""
        return

    async def prepare_subagent_spawn(
        self,
        *,
        parent_session_key: str,
        child_session_key: str,
        context_mode: SubagentContextMode = "isolated",
        parent_session_id: str | None = None,
        parent_session_file: str | None = None,
        child_session_id: str | None = None,
        child_session_file: str | None = None,
        ttl_ms: int | None = None,
    ) -> SubagentPreparation | None:
        """Prepare shared state before a child session runs; an exception stops the child."""
        return None

    async def on_subagent_ended(self, *, child_session_key: str, reason: SubagentEndReason) -> None:
        """Clean up after a child session."""
        return

    async def dispose(self) -> None:
        """Release what the instance holds; may be called more than once."""
        return


def has_method(engine: object, name: str) -> bool:
    """Whether an engine has the method ``name`` of the contract.

    A method of :class:`ContextEngine` counts when it is overridden, one of any other object when it is callable.
    """
    offers = getattr(engine, "offers_method", None)
    if isinstance(engine, ContextEngine) and callable(offers):
        return bool(offers(name))
    own = getattr(engine, name, None)
    if not callable(own):
        return False
    if not isinstance(engine, ContextEngine):
        return True
    return getattr(own, "__func__", own) is not getattr(ContextEngine, name, None)
