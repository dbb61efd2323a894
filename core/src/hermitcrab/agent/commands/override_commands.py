"""Chat commands that show and change what is set on a session: the model, levels, sending, activation (sessions 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hermitcrab.agent.commands.calls import ChatCommand, CommandCall
from hermitcrab.agent.commands.level_wording import (
    activation_text,
    fast_text,
    reasoning_text,
    sending_text,
    thinking_text,
    verbose_text,
)
from hermitcrab.agent.delivery import is_sent
from hermitcrab.errors import ConfigError, SessionError
from hermitcrab.sessions.activation import configured_activation
from hermitcrab.sessions.effective_levels import SessionLevels
from hermitcrab.sessions.inbound import group_kind
from hermitcrab.sessions.keys import chat_type
from hermitcrab.sessions.levels import (
    REASONING_LEVELS,
    THINKING_LEVELS,
    VERBOSE_LEVELS,
)

_GROUPS = frozenset({"group", "channel"})


#: Says what holds in a session.
Show = Callable[[CommandCall], Awaitable[str]]


def _setting(name: str, field: str, show: Show, help_line: str) -> ChatCommand:
    """A command that sets a field of the session to what follows it, or only shows what holds."""

    async def run(call: CommandCall) -> str:
        if call.arguments:
            try:
                await call.host.patch_session(call.session.log.key, {field: call.arguments})
            except SessionError as error:
                return f"Not changed: {error.message}."
            except ConfigError as error:
                return f"Not changed: {error.message}. {error.hint or ''}".rstrip()
        return await show(call)

    return ChatCommand(name, help_line, run)


async def _model(call: CommandCall) -> str:
    name = call.host.model_facts(call.session).name
    is_own = call.session.log.entry.model_override is not None
    return f"Model: {name} ({'set for this session' if is_own else 'as configured'})"


async def _thinking(call: CommandCall) -> str:
    facts = call.host.model_facts(call.session)
    return thinking_text(await _levels(call), facts.name, facts.thinking_levels)


async def _fast(call: CommandCall) -> str:
    facts = call.host.model_facts(call.session)
    return fast_text(await _levels(call), facts.name, has_fast_mode=facts.has_fast_mode)


async def _verbose(call: CommandCall) -> str:
    return verbose_text(await _levels(call))


async def _reasoning(call: CommandCall) -> str:
    return reasoning_text(await _levels(call))


async def _levels(call: CommandCall) -> SessionLevels:
    return await call.host.levels(call.session.log.key)


async def _sending(call: CommandCall) -> str:
    policy = call.host.config.session.send_policy
    own = call.session.log.entry.send_policy
    text = sending_text(own, is_sent=is_sent(call.session, call.message, policy))
    return f"Replies are sent: {text}"


async def _activation(call: CommandCall) -> str:
    configured = configured_activation(call.message.channel, call.host.config.session)
    return f"Activation: {activation_text(call.session.log.entry.group_activation, configured)}"


_ACTIVATION = _setting(
    "activation",
    "groupActivation",
    _activation,
    "in groups, what is answered: mention, always, or default",
)


async def _in_groups(call: CommandCall) -> str:
    """The command ``/activation``, where there is something to activate."""
    kind = chat_type(call.session.log.key)
    if not {kind, group_kind(call.message)} & _GROUPS:
        return "Not changed: this is no group." if call.arguments else "This is no group."
    if kind not in _GROUPS:
        return "Groups share a conversation here, so `session.groupActivation` decides for them."
    answer = _ACTIVATION.run(call)
    return answer if isinstance(answer, str) else await answer


OVERRIDE_COMMANDS = (
    _setting("model", "model", _model, "show or choose the model: provider/name, or default"),
    _setting(
        "think",
        "thinkingLevel",
        _thinking,
        f"how much the model thinks: {', '.join(THINKING_LEVELS)}, or default",
    ),
    _setting("fast", "fastMode", _fast, "the provider's fast mode: on, off, auto, or default"),
    _setting(
        "verbose",
        "verboseLevel",
        _verbose,
        f"tool calls told: {', '.join(VERBOSE_LEVELS)} (with results), or default",
    ),
    _setting(
        "reasoning",
        "reasoningLevel",
        _reasoning,
        f"thinking shown: {', '.join(REASONING_LEVELS)}, or default",
    ),
    _setting("send", "sendPolicy", _sending, "whether replies go out: on, off, or inherit"),
    ChatCommand(_ACTIVATION.name, _ACTIVATION.help, _in_groups),
)
