"""Events and results of an agent's turn and of its model calls (sessions 6.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attrs import frozen

from hermitcrab.hooks import merge
from hermitcrab.hooks.events import HookEvent, shared

if TYPE_CHECKING:
    from hermitcrab.messages.types import Message
    from hermitcrab.models.contract import TokenUsage, ToolSchema

__all__ = [
    "AgentEnd",
    "AgentStart",
    "AgentTurnPrepare",
    "Attachment",
    "BeforeAgentFinalize",
    "BeforeAgentReply",
    "BeforeAgentRun",
    "BeforeAgentStart",
    "BeforeModelResolve",
    "BeforePromptBuild",
    "Claim",
    "Finalize",
    "LlmInput",
    "LlmOutput",
    "ModelCallEnded",
    "ModelCallStarted",
    "ModelChoice",
    "PromptBuild",
    "RunDecision",
    "TurnPreparation",
]


@frozen
class Attachment:
    """A file that came with the prompt; ``kind`` is for example ``image``."""

    kind: str
    mime_type: str | None = None


@frozen(kw_only=True)
class ModelChoice:
    """Which model answers this turn; the highest priority decides, per field."""

    model_override: str | None = merge.first(str)
    provider_override: str | None = merge.first(str)


@frozen(kw_only=True)
class TurnPreparation:
    """Text to put before and after the user's prompt."""

    prepend_context: str | None = merge.concatenate()
    append_context: str | None = merge.concatenate()


@frozen(kw_only=True)
class PromptBuild:
    """What a plugin adds to the prompts of a turn.

    ``prepend_context`` and ``append_context`` go around the user's prompt, the two ``system`` texts around the system
    prompt, ``system_prompt`` replaces it. ``tools_allow`` limits the optional tools; an empty list allows none.
    """

    system_prompt: str | None = merge.first(str)
    prepend_context: str | None = merge.concatenate()
    append_context: str | None = merge.concatenate()
    prepend_system_context: str | None = merge.concatenate()
    append_system_context: str | None = merge.concatenate()
    tools_allow: tuple[str, ...] | None = merge.intersect()


@frozen(kw_only=True)
class AgentStart:
    """The fields of :class:`ModelChoice` and :class:`PromptBuild` together, for the older single hook."""

    model_override: str | None = merge.first(str)
    provider_override: str | None = merge.first(str)
    system_prompt: str | None = merge.first(str)
    prepend_context: str | None = merge.concatenate()
    append_context: str | None = merge.concatenate()
    prepend_system_context: str | None = merge.concatenate()
    append_system_context: str | None = merge.concatenate()
    tools_allow: tuple[str, ...] | None = merge.intersect()


@frozen(kw_only=True)
class RunDecision:
    """Whether the run may go on; the first ``block`` is final.

    ``reason`` is for the operator and must not be blank in a block; ``message`` is what the user may read.
    """

    outcome: Literal["pass", "block"] = merge.ranked("block", "pass", default="pass", ends="block")
    reason: str | None = merge.along("outcome", str)
    message: str | None = merge.along("outcome", str)
    category: str | None = merge.along("outcome", str)
    metadata: Mapping[str, Any] | None = merge.along("outcome", dict)
    decided_by: str | None = merge.source_of("outcome")

    def __attrs_post_init__(self) -> None:
        if self.outcome == "block" and not (self.reason and self.reason.strip()):
            raise ValueError("a block needs a reason")


@frozen(kw_only=True)
class Claim:
    """A plugin takes a message over; the first ``handled`` wins and its ``reply`` is delivered."""

    handled: bool = merge.sticky_true(ends=True)
    reply: str | None = merge.along("handled", str)
    reason: str | None = merge.along("handled", str)
    decided_by: str | None = merge.source_of("handled")


@frozen(kw_only=True)
class Finalize:
    """What happens with the finished answer: ``finalize`` beats ``revise`` beats ``continue``.

    The reasons of several revisions are joined. The first ``retry_instruction`` that is not blank is used, with the
    ``idempotency_key`` and ``max_attempts`` of the same handler.
    """

    action: Literal["continue", "revise", "finalize"] = merge.ranked(
        "finalize", "revise", "continue", default="continue"
    )
    reason: str | None = merge.concatenate()
    retry_instruction: str | None = merge.first_text()
    idempotency_key: str | None = merge.along("retry_instruction", str)
    max_attempts: int | None = merge.along("retry_instruction", int)


@frozen(kw_only=True)
class BeforeModelResolve(HookEvent[ModelChoice]):
    """Before the model of a turn is chosen."""

    hook: ClassVar[str] = "before_model_resolve"
    prompt: str
    attachments: Sequence[Attachment] = shared(default=())


@frozen(kw_only=True)
class AgentTurnPrepare(HookEvent[TurnPreparation]):
    """Before the prompts of a turn are built; ``queued_injections`` are texts that wait for this turn."""

    hook: ClassVar[str] = "agent_turn_prepare"
    prompt: str
    messages: Sequence[Message] = shared(default=())
    queued_injections: Sequence[str] = shared(default=())


@frozen(kw_only=True)
class BeforePromptBuild(HookEvent[PromptBuild]):
    """While the prompts of a turn are built; ``messages`` is the history."""

    hook: ClassVar[str] = "before_prompt_build"
    prompt: str
    messages: Sequence[Message] = shared(default=())


@frozen(kw_only=True)
class BeforeAgentStart(HookEvent[AgentStart]):
    """The older hook that covers model and prompts at once; prefer the two hooks of their own."""

    hook: ClassVar[str] = "before_agent_start"
    prompt: str
    messages: Sequence[Message] = shared(default=())
    run_id: str | None = None


@frozen(kw_only=True)
class BeforeAgentRun(HookEvent[RunDecision]):
    """The last gate before the model sees the prompt. A handler that fails, or answers nothing, blocks the run."""

    hook: ClassVar[str] = "before_agent_run"
    prompt: str
    messages: Sequence[Message] = shared(default=())
    system_prompt: str | None = None
    account_id: str | None = None
    channel: str | None = None
    sender_id: str | None = None
    sender_is_owner: bool | None = None


@frozen(kw_only=True)
class BeforeAgentReply(HookEvent[Claim]):
    """Before the agent answers a message; a plugin may answer in its place."""

    hook: ClassVar[str] = "before_agent_reply"
    cleaned_body: str


@frozen(kw_only=True)
class BeforeAgentFinalize(HookEvent[Finalize]):
    """The model has answered; the answer is not delivered yet."""

    hook: ClassVar[str] = "before_agent_finalize"
    run_id: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    turn_id: str | None = None
    provider: str | None = None
    model: str | None = None
    transcript_path: str | None = None
    stop_hook_active: bool = False
    last_assistant_message: str | None = None
    messages: Sequence[Message] = shared(default=())


@frozen(kw_only=True)
class AgentEnd(HookEvent[None]):
    """A turn is over; ``duration_ms`` is in milliseconds, ``compactions`` are records of all that were tried."""

    hook: ClassVar[str] = "agent_end"
    messages: Sequence[Message] = shared()
    success: bool
    error: str | None = None
    duration_ms: int | None = None
    run_id: str | None = None
    compactions: Sequence[Mapping[str, Any]] = shared(default=())


@frozen(kw_only=True)
class LlmInput(HookEvent[None]):
    """What a model is about to be asked."""

    hook: ClassVar[str] = "llm_input"
    run_id: str
    session_id: str
    provider: str
    model: str
    prompt: str
    system_prompt: str | None = None
    history_messages: Sequence[Message] = shared(default=())
    images_count: int = 0
    tools: Sequence[ToolSchema] = shared(default=())


@frozen(kw_only=True)
class LlmOutput(HookEvent[None]):
    """What a model has answered in a turn."""

    hook: ClassVar[str] = "llm_output"
    run_id: str
    session_id: str
    provider: str
    model: str
    assistant_texts: Sequence[str] = shared(default=())
    last_assistant: Message | None = None
    usage: TokenUsage | None = None


@frozen(kw_only=True)
class ModelCallStarted(HookEvent[None]):
    """One call to a model begins; no content is carried. The budget is in tokens."""

    hook: ClassVar[str] = "model_call_started"
    run_id: str
    call_id: str
    session_key: str | None = None
    session_id: str | None = None
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    context_token_budget: int | None = None


@frozen(kw_only=True)
class ModelCallEnded(HookEvent[None]):
    """One call to a model is over; times are in milliseconds, no content is carried.

    ``failure_kind`` is ``aborted``, ``connection_closed``, ``connection_reset``, ``terminated`` or ``timeout``.
    """

    hook: ClassVar[str] = "model_call_ended"
    run_id: str
    call_id: str
    outcome: Literal["completed", "error"]
    duration_ms: int
    session_key: str | None = None
    session_id: str | None = None
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    context_token_budget: int | None = None
    error_category: str | None = None
    failure_kind: str | None = None
    time_to_first_byte_ms: int | None = None
