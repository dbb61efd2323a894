"""What is decided before the model sees a message: model, prompts, gates, and the hooks around them (design 6)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from attrs import frozen

from hermitcrab.agent.session import SessionContext
from hermitcrab.errors import HookError
from hermitcrab.hooks import (
    AgentStart,
    AgentTurnPrepare,
    BeforeAgentRun,
    BeforeAgentStart,
    BeforeModelResolve,
    BeforePromptBuild,
)

logger = logging.getLogger("hermitcrab.agent")


@frozen(kw_only=True)
class PreparedTurn:
    """A turn that may run: the system prompt, the user's text with what plugins put around it.

    ``prompt`` is the user's own text; ``tools_allow`` limits optional tools where a plugin asks for it.
    """

    prompt: str
    text: str
    system: str
    tools_allow: Sequence[str] | None = None
    degraded: Sequence[str] = ()


@frozen(kw_only=True)
class RefusedTurn:
    """A gate refused the turn: the model never sees the prompt, ``text`` takes its place in the transcript."""

    text: str


@frozen(kw_only=True)
class ModelWish:
    """The model that plugins want for this turn, ``provider/name`` or only one of the two.

    ``older`` is the whole answer of the older hook that covers model and prompts at once.
    """

    provider: str | None = None
    model: str | None = None
    older: AgentStart | None = None

    def applied_to(self, reference: str | None) -> str | None:
        """The reference to use in place of the configured one."""
        if self.model is not None and "/" in self.model and self.provider is None:
            return self.model
        provider, _, name = (reference or "").partition("/")
        provider, name = self.provider or provider, self.model or name
        return f"{provider}/{name}" if provider and name else reference


async def wanted_model(session: SessionContext, prompt: str | None) -> ModelWish:
    """Ask plugins which model answers; without a prompt no run begins, so the older hook is not asked."""
    choice = await session.fire(BeforeModelResolve(prompt=prompt or ""))
    older = None if prompt is None else await _older_answer(session, prompt)
    answers = [answer for answer in (choice, older) if answer is not None]
    return ModelWish(
        provider=_first(answer.provider_override for answer in answers),
        model=_first(answer.model_override for answer in answers),
        older=older,
    )


async def _older_answer(session: SessionContext, prompt: str) -> AgentStart | None:
    history = [item.message for item in session.log.items()]
    run_id = session.hook_context.run_id
    answer: AgentStart | None = await session.fire(
        BeforeAgentStart(prompt=prompt, messages=history, run_id=run_id)
    )
    return answer


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value is not None), None)


async def prepare_turn(
    session: SessionContext,
    prompt: str,
    system: str,
    older: AgentStart | None = None,
    notes: str | None = None,
) -> PreparedTurn | RefusedTurn:
    """Fire the hooks that shape the prompts, then the gate. Explicit hooks win over the older one (sessions 6.8).

    :param notes: what the host itself puts before the prompt, ahead of what plugins put there.
    """
    history = [item.message for item in session.log.items()]
    around = await session.fire(AgentTurnPrepare(prompt=prompt, messages=history))
    built = await session.fire(BeforePromptBuild(prompt=prompt, messages=history))
    sources = [answer for answer in (built, older) if answer is not None]
    for answer in sources:
        if answer.system_prompt is not None:
            system = answer.system_prompt
            break
    system = _joined(
        *(answer.prepend_system_context for answer in sources),
        system,
        *(answer.append_system_context for answer in sources),
    )
    framing = [answer for answer in (around, *sources) if answer is not None]
    before = [notes, *(answer.prepend_context for answer in framing)]
    behind = [answer.append_context for answer in framing]
    text = _joined(*before, prompt, *behind) if any((*before, *behind)) else prompt
    refusal = await _gate(session, prompt, system)
    if refusal is not None:
        return RefusedTurn(text=refusal)
    allowed = [answer.tools_allow for answer in sources if answer.tools_allow is not None]
    return PreparedTurn(
        prompt=prompt,
        text=text,
        system=system,
        tools_allow=allowed[0] if allowed else None,
    )


async def _gate(session: SessionContext, prompt: str, system: str) -> str | None:
    """The text that replaces the user's message if a plugin blocks the run; the reason is never shown."""
    event = BeforeAgentRun(
        prompt=prompt,
        messages=[item.message for item in session.log.items()],
        system_prompt=system,
        channel=session.hook_context.channel,
    )
    try:
        decision = await session.fire(event)
    except HookError as error:
        plugin_id = failed_plugin(error)
        logger.warning("%s", error, extra={"session_key": session.log.key, "plugin_id": plugin_id})
        return f"Your message could not be sent: a check failed (blocked by {plugin_id})"
    if decision is None or decision.outcome != "block":
        return None
    logger.info(
        "plugin %s blocked a run",
        decision.decided_by,
        extra={"session_key": session.log.key, "plugin_id": decision.decided_by},
    )
    message = decision.message or "it was refused"
    return f"Your message could not be sent: {message} (blocked by {decision.decided_by})"


def failed_plugin(error: HookError) -> str:
    """The plugin whose handler made a gate fail."""
    return (error.where or "").removeprefix("plugin ")


def _joined(*texts: str | None) -> str:
    return "\n\n".join(text for text in texts if text and text.strip())
