"""Where the texts of plugins end up, and what is kept of them (sessions 6.7, 6.8, 9.4)."""

from __future__ import annotations

from hermitcrab import hookimpl
from hermitcrab.hooks import AgentStart, ModelChoice, PromptBuild, TurnPreparation

MAIN = "agent:main:main"


def _texts(messages):
    return [block["text"] for message in messages for block in message["content"]]


async def test_contexts_stand_around_the_users_text_and_are_kept(open_host, crab, handlers):
    async def before_prompt_build(event, ctx):
        return PromptBuild(prepend_context="Before.", append_context="After.")

    model = crab.ScriptedModel()
    async with open_host(
        model, plugins=[handlers(before_prompt_build=before_prompt_build)]
    ) as host:
        await host.send(MAIN, "hello")
        stored = crab.stored_messages((await host.session(MAIN)).file)
    assert _texts(model.requests[0].messages) == ["Before.\n\nhello\n\nAfter."]
    assert _texts(stored)[0] == "Before.\n\nhello\n\nAfter."
    assert "Before." not in model.requests[0].system


async def test_system_contexts_stand_around_the_system_prompt_and_are_not_kept(
    open_host, crab, handlers
):
    """appendSystemContext was ignored once, and prependContext once moved to the system prompt (sessions 9.4)."""

    async def before_prompt_build(event, ctx):
        return PromptBuild(prepend_system_context="First of all.", append_system_context="Finally.")

    model = crab.ScriptedModel()
    async with open_host(
        model, plugins=[handlers(before_prompt_build=before_prompt_build)]
    ) as host:
        await host.send(MAIN, "hello")
        file = (await host.session(MAIN)).file
    system = model.requests[0].system
    assert system.startswith("First of all.\n\n")
    assert system.endswith("\n\nFinally.")
    assert "personal assistant" in system
    assert _texts(model.requests[0].messages) == ["hello"]
    assert "Finally." not in file.read_text()


async def test_a_system_prompt_is_replaced_and_still_wrapped(open_host, crab, handlers):
    async def before_prompt_build(event, ctx):
        return {"systemPrompt": "You are a crab.", "appendSystemContext": "Finally."}

    model = crab.ScriptedModel()
    async with open_host(
        model, plugins=[handlers(before_prompt_build=before_prompt_build)]
    ) as host:
        await host.send(MAIN, "hello")
    assert model.requests[0].system == "You are a crab.\n\nFinally."


async def test_texts_of_several_plugins_are_joined_by_priority(open_host, crab, handlers):
    @hookimpl(priority=1)
    async def low(event, ctx):
        return PromptBuild(prepend_context="low")

    @hookimpl(priority=10, specname="before_prompt_build")
    async def high(event, ctx):
        return PromptBuild(prepend_context="high")

    low.hermitcrab_impl["specname"] = "before_prompt_build"
    model = crab.ScriptedModel()
    plugins = [handlers("one", low=low), handlers("two", high=high)]
    async with open_host(model, plugins=plugins) as host:
        await host.send(MAIN, "hello")
    assert _texts(model.requests[0].messages) == ["high\n\nlow\n\nhello"]


async def test_the_older_hook_comes_behind_the_explicit_ones(open_host, crab, handlers):
    async def before_agent_start(event, ctx):
        return AgentStart(prepend_context="older", system_prompt="older prompt")

    async def agent_turn_prepare(event, ctx):
        return TurnPreparation(prepend_context="preparation")

    async def before_prompt_build(event, ctx):
        return PromptBuild(prepend_context="newer", system_prompt="newer prompt")

    model = crab.ScriptedModel()
    plugin = handlers(
        before_agent_start=before_agent_start,
        agent_turn_prepare=agent_turn_prepare,
        before_prompt_build=before_prompt_build,
    )
    async with open_host(model, plugins=[plugin]) as host:
        await host.send(MAIN, "hello")
    assert _texts(model.requests[0].messages) == ["preparation\n\nnewer\n\nolder\n\nhello"]
    assert model.requests[0].system == "newer prompt"


async def test_a_plugin_chooses_the_model_of_a_turn(open_host, recorder, handlers):
    async def before_model_resolve(event, ctx):
        return ModelChoice(model_override="large") if "hard" in event.prompt else None

    async def before_agent_start(event, ctx):
        return AgentStart(model_override="small", provider_override="box")

    provider = {"api": "openai-compatible", "baseUrl": "http://127.0.0.1:9/v1"}
    config = {
        "models": {"providers": {"box": provider}},
        "agents": {"defaults": {"contextTokens": 9_000}},
    }
    plugin = handlers(
        before_model_resolve=before_model_resolve, before_agent_start=before_agent_start
    )
    async with open_host(config=config, plugins=[("r", recorder), plugin]) as host:
        session = await host.open_session(MAIN)
        await host.set_up(session, "a hard question")
        assert session.model.id == "box/large"
        await host.set_up(session, "an easy question")
        assert session.model.id == "box/small"


async def test_hooks_of_the_prompt_see_the_history_and_the_users_own_text(
    open_host, crab, recorder
):
    async with open_host(crab.ScriptedModel("Noted."), plugins=[("r", recorder)]) as host:
        await host.send(MAIN, "one")
        await host.send(MAIN, "two")
    for hook in ("before_agent_start", "agent_turn_prepare", "before_prompt_build"):
        event = recorder.of(hook)[1]
        assert event.prompt == "two"
        assert _texts(event.messages) == ["one", "Noted."]


async def test_plugins_leave_out_optional_tools_only(open_host, crab, handlers):
    async def before_prompt_build(event, ctx):
        return PromptBuild(tools_allow=("memory_get",))

    model = crab.ScriptedModel(crab.calling("memory_search", query="port"), "Then not.")
    async with open_host(
        model, plugins=[handlers(before_prompt_build=before_prompt_build)]
    ) as host:
        reply = await host.send(MAIN, "Search.")
    assert [tool.name for tool in model.requests[0].tools] == [
        "read",
        "write",
        "edit",
        "memory_get",
    ]
    assert "there is no tool 'memory_search'" in str(reply.messages[2]["content"])


async def test_no_prompt_injection_means_no_text_of_the_plugin_reaches_the_model(
    open_host, crab, handlers
):
    async def before_prompt_build(event, ctx):
        return PromptBuild(prepend_context="injected")

    async def before_agent_start(event, ctx):
        return AgentStart(prepend_context="injected", append_system_context="injected")

    config = {"plugins": {"entries": {"tester": {"hooks": {"allowPromptInjection": False}}}}}
    model = crab.ScriptedModel()
    plugin = handlers(
        before_prompt_build=before_prompt_build, before_agent_start=before_agent_start
    )
    async with open_host(model, config=config, plugins=[plugin]) as host:
        await host.send(MAIN, "hello")
        diagnostics = [str(each) for each in host.plugins.diagnostics]
    assert "injected" not in model.requests[0].system + str(model.requests[0].messages)
    assert any("allowPromptInjection" in text for text in diagnostics)


async def test_the_answer_can_be_sent_back_for_revision_but_not_for_ever(open_host, crab, handlers):
    from hermitcrab.hooks import Finalize

    async def before_agent_finalize(event, ctx):
        if "please" not in (event.last_assistant_message or ""):
            return Finalize(action="revise", retry_instruction="Say please.", max_attempts=2)
        return None

    plugin = handlers(before_agent_finalize=before_agent_finalize)
    polite = crab.ScriptedModel("Go.", "Go, please.")
    async with open_host(polite, plugins=[plugin]) as host:
        reply = await host.send(MAIN, "hello")
    assert reply.text == "Go, please."
    assert [message["role"] for message in reply.messages][2:3] == ["user"]
    assert reply.messages[2]["provenance"] == {"kind": "internal_system"}

    stubborn = crab.ScriptedModel(*["Go."] * 9)
    async with open_host(stubborn, plugins=[plugin]) as host:
        await host.send("agent:main:other", "hello")
    assert len(stubborn.requests) == 3
