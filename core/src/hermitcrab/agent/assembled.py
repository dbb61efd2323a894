"""What is assembled for one model call, and the error where it cannot be."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.errors import CompactionError
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message

#: What a user can do about a conversation that does not fit the window.
WAY_OUT = "Start afresh with /new or /reset, or use a model with a larger context window."
#: The same where compaction was switched off.
SWITCH_ON = f"Set agents.defaults.compaction.enabled to true, or compact with /compact. {WAY_OUT}"


@frozen(kw_only=True)
class AssembledContext:
    """What the model gets: messages, the system prompt with the engine's addition, and sizes in tokens.

    ``request_tokens`` is everything: system prompt, tool schemas and messages. ``window`` is the context window.
    ``compaction_id`` is the entry of the compaction behind which the messages stand.
    """

    messages: Sequence[Message]
    system: str
    system_prompt_addition: str | None
    tokens: int
    request_tokens: int
    window: int
    compaction_id: str | None = None
    flushes: Sequence[FlushOutcome] = ()
    compactions: Sequence[CompactionOutcome] = ()


def too_large(
    tokens: int, budget: Budget, *, where: str, is_enabled: bool, reason: str | None
) -> CompactionError:
    """The error of a context of so many tokens that nothing has made fit.

    :param is_enabled: whether automatic compaction is on; :param reason: why the last one did not help.
    """
    said = f"the context takes {tokens} tokens and at most {budget.usable} fit"
    if not is_enabled:
        said = f"{said}, and automatic compaction is off"
        return CompactionError(said, where="agents.defaults.compaction.enabled", hint=SWITCH_ON)
    return CompactionError(f"{said}; {reason}" if reason else said, where=where, hint=WAY_OUT)


def prompt_of(messages: Sequence[Message]) -> str:
    """The text of the last user message, which engines get as the prompt."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return text_of(message)
    return ""
