"""What config allows a plugin's handlers, and how long they may take (sessions 6.4, 6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import attrs
from attrs import field, frozen

from hermitcrab.hooks.specifications import HookSpecification
from hermitcrab.hooks.turn import AgentStart, PromptBuild

R = TypeVar("R")

#: Hooks whose only purpose is to put text into a prompt.
PROMPT_HOOKS = frozenset({"agent_turn_prepare", "before_prompt_build"})

#: Hooks that show a plugin what was said.
CONVERSATION_HOOKS = frozenset(
    {
        "agent_end",
        "agent_turn_prepare",
        "before_agent_finalize",
        "before_agent_reply",
        "before_agent_run",
        "before_model_resolve",
        "before_prompt_build",
        "llm_input",
        "llm_output",
        "session_before_compact",
    }
)

_PROMPT_FIELDS = tuple(each.name for each in attrs.fields(PromptBuild))


@frozen(kw_only=True)
class HookPolicy:
    """``plugins.entries.<id>.hooks``; times are in milliseconds.

    ``allow_conversation_access`` refuses only where it is False, not where it is None.
    """

    allow_prompt_injection: bool = True
    allow_conversation_access: bool | None = None
    timeout_ms: int | None = None
    timeouts: Mapping[str, int] = field(factory=dict)


def refusal(hook: str, policy: HookPolicy) -> str | None:
    """Why ``policy`` keeps a plugin from implementing ``hook``; None if it may."""
    if hook in PROMPT_HOOKS and not policy.allow_prompt_injection:
        return "hooks.allowPromptInjection is false"
    if hook in CONVERSATION_HOOKS and policy.allow_conversation_access is False:
        return "hooks.allowConversationAccess is false"
    return None


def permitted(result: R, policy: HookPolicy) -> R | None:
    """``result`` without what ``policy`` forbids; None if nothing is left of it."""
    if policy.allow_prompt_injection or not isinstance(result, AgentStart):
        return result
    stripped = attrs.evolve(result, **dict.fromkeys(_PROMPT_FIELDS))
    return None if stripped == AgentStart() else stripped


def chosen_timeout_ms(hook: str, policy: HookPolicy, own_timeout_ms: int | None) -> int | None:
    """The timeout that somebody chose: per hook in config, per plugin in config, or the handler's own."""
    choices = (policy.timeouts.get(hook), policy.timeout_ms, own_timeout_ms)
    return next((choice for choice in choices if choice is not None), None)


def timeout_ms(
    specification: HookSpecification, policy: HookPolicy, own_timeout_ms: int | None
) -> int | None:
    """How long a handler may take, in milliseconds; None is no limit."""
    chosen = chosen_timeout_ms(specification.name, policy, own_timeout_ms)
    return specification.default_timeout_ms if chosen is None else chosen
