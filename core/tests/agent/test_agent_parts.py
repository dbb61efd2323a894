"""Small decisions of a turn: which model, which tools, and who waits for whom."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab.agent.assembled import prompt_of
from hermitcrab.agent.preparation import ModelWish
from hermitcrab.agent.running import RunningTurns
from hermitcrab.agent.toolbox import Toolbox
from hermitcrab.agent.tools import Tool, ToolContext, builtin_tools
from hermitcrab.messages import assistant, user
from hermitcrab.models import ToolSchema


@pytest.mark.parametrize(
    ("wish", "configured", "expected"),
    [
        ({}, "box/small", "box/small"),
        ({}, None, None),
        ({"model": "large"}, "box/small", "box/large"),
        ({"provider": "hub"}, "box/small", "hub/small"),
        ({"provider": "hub", "model": "large"}, None, "hub/large"),
        ({"model": "hub/large"}, "box/small", "hub/large"),
        ({"provider": "hub", "model": "team/large"}, "box/small", "hub/team/large"),
        ({"model": "large"}, None, None),
        ({"provider": "hub"}, None, None),
    ],
)
def test_the_wish_of_a_plugin_is_laid_over_the_configured_model(wish, configured, expected):
    assert ModelWish(**wish).applied_to(configured) == expected


def test_the_prompt_of_engines_is_the_last_user_message():
    assert prompt_of([user("one"), assistant("two"), user("three"), assistant("four")]) == "three"
    assert prompt_of([]) == ""


@pytest.fixture
def context(tmp_path):
    return ToolContext(
        agent_id="main", session_key="agent:main:main", session_id="1", workspace=tmp_path
    )


def test_only_optional_tools_can_be_left_out(context):
    async def run(arguments, context):
        return ""

    extra = Tool(ToolSchema("extra", "", {}), run)
    toolbox = Toolbox([*builtin_tools(None, None), extra], context)
    toolbox.restrict(())
    assert [schema.name for schema in toolbox.schemas] == ["read", "write", "edit"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read", {}, "'path' is required"),
        ("read", {"path": 7}, "'path' is required"),
        ("read", {"path": "a.md", "from": 0}, "'from' must be a whole number"),
        ("read", {"path": "a.md", "lines": True}, "'lines' must be a whole number"),
        ("read", {"path": "a.md"}, "no such file"),
        ("write", {"path": "a.md"}, "'content' is required"),
        ("write", {"path": "a.md", "content": 7}, "'content' is required"),
        ("write", {"path": "folder", "content": "x"}, "folder"),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(context, name, arguments, words):
    (context.workspace / "folder").mkdir()
    toolbox = Toolbox(builtin_tools(None, None), context)
    result = await toolbox.result_of({"id": "1", "name": name, "arguments": arguments}, arguments)
    assert result["isError"]
    assert words in result["content"][0]["text"]


async def test_a_long_file_is_read_in_parts_that_say_where_to_go_on(context):
    (context.workspace / "a.md").write_text("\n".join(f"line {n}" for n in range(1, 11)))
    toolbox = Toolbox(builtin_tools(None, None), context)
    arguments = {"path": "a.md", "from": 4, "lines": 3}
    result = await toolbox.result_of({"id": "1", "name": "read", "arguments": arguments}, arguments)
    text = result["content"][0]["text"]
    assert text.startswith("line 4\nline 5\nline 6")
    assert "read from line 7" in text


async def test_the_end_of_the_host_ends_running_and_waiting_turns():
    turns, kept = RunningTurns(), []

    async def turn(name):
        with turns.counted():
            async with turns.lock("key"):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    await asyncio.sleep(0)
                    kept.append(name)
                    raise

    tasks = [asyncio.create_task(turn(name)) for name in "ab"]
    await asyncio.sleep(0)
    await turns.end()
    assert kept == ["a"]
    assert [
        isinstance(each, asyncio.CancelledError)
        for each in await asyncio.gather(*tasks, return_exceptions=True)
    ] == [True, True]


async def test_a_turn_may_end_the_host_that_it_runs_in():
    turns = RunningTurns()
    with turns.counted():
        async with asyncio.timeout(20):
            await turns.end()
