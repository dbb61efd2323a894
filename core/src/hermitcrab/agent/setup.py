"""Making a session ready for a turn: which model answers, with which tools and which system prompt."""

from __future__ import annotations

import asyncio
import logging

from attrs import frozen

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.preparation import ModelWish, wanted_model
from hermitcrab.agent.prompt import INTRODUCTION, SUBAGENT_ROLE, PromptParts, build_system_prompt
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.toolbox import Toolbox
from hermitcrab.agent.tools import ToolContext
from hermitcrab.errors import ConfigError
from hermitcrab.hooks import AgentStart
from hermitcrab.sessions.effective_levels import SessionLevels, levels_of
from hermitcrab.sessions.keys import is_private, is_subagent

logger = logging.getLogger("hermitcrab.agent")


@frozen(kw_only=True)
class TurnSetup:
    """A session that is ready for a turn: its agent, its model's window, the tools and the system prompt.

    ``levels`` are those that hold with the model of this turn, ``older`` is what plugins answered to the older hook
    ``before_agent_start``.
    """

    agent: Agent
    toolbox: Toolbox
    system: str
    levels: SessionLevels
    older: AgentStart | None = None


async def set_up_turn(services: Services, session: SessionContext, prompt: str | None) -> TurnSetup:
    """Choose the model, and build the tools and the system prompt of a turn, if there is a prompt for one.

    :raises ConfigError: if the configured model cannot be made.
    """
    agent = await services.agent_of(session.log.key)
    wish = await wanted_model(session, prompt)
    reference, window = await _choose_model(services, session, agent, wish)
    known = services.thinking_levels(reference)
    toolbox = Toolbox(
        [*agent.tools, *services.session_tools(session.log.key, agent)],
        ToolContext(
            agent_id=agent.agent_id,
            session_key=session.log.key,
            session_id=session.log.session_id,
            workspace=agent.workspace,
            memory=agent.memory,
        ),
    )
    names = [schema.name for schema in toolbox.schemas]
    settings = agent.settings
    system = await asyncio.to_thread(
        build_system_prompt,
        PromptParts(
            introduction=settings.system_prompt or INTRODUCTION,
            role=SUBAGENT_ROLE if is_subagent(session.log.key) else None,
            workspace=agent.workspace,
            private=is_private(session.log.key),
            per_file=settings.bootstrap_max_chars,
            total=settings.bootstrap_total_max_chars,
            window=window,
            tools=names,
            memory_section=None if agent.memory is None else agent.memory.prompt_section(names),
            date_line=_date_line(services, session),
        ),
    )
    return TurnSetup(
        agent=agent,
        toolbox=toolbox,
        system=system,
        levels=levels_of(session.log.entry, settings, known),
        older=wish.older,
    )


async def _choose_model(
    services: Services, session: SessionContext, agent: Agent, wish: ModelWish
) -> tuple[str | None, int]:
    """Give the session its model; one that a plugin asks for and nobody has is not worth a turn.

    :return: the model's reference, and its context window in tokens.
    """
    configured = services.model_reference(session.log.entry, agent)
    reference = wish.applied_to(configured)
    try:
        model = services.model_for(reference)
    except ConfigError as error:
        if reference == configured:
            raise
        logger.warning(
            "the model %s that a plugin asks for is not there: %s",
            reference,
            error,
            extra={"session_key": session.log.key},
        )
        reference, model = configured, services.model_for(configured)
    window = await services.window_of(model, reference, agent.settings.context_tokens)
    session.use_model(model, window.tokens)
    return reference, window.tokens


def _date_line(services: Services, session: SessionContext) -> str:
    local = services.clock().astimezone(session.parts.zone)
    return f"Today is {local:%A, %Y-%m-%d} ({local.tzname()})."
