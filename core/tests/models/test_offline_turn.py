from __future__ import annotations

import json
from typing import Any

import pytest

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message
from hermitcrab.models import ChatReply, ChatRequest, OfflineModel, TextDelta, ToolSchema

SEARCH = ToolSchema("memory_search", "Search memory.", {"type": "object"})
QUESTION = "What did we decide about the port?"
OFFLINE = "offline model"


async def ask(messages: list[Message], *tools: ToolSchema) -> ChatReply:
    return await OfflineModel().complete(ChatRequest(messages=messages, tools=tools))


def hit(snippet: str, path: str = "memory/2026-01-05.md", start: int = 3, end: int = 9) -> Any:
    return {"path": path, "startLine": start, "endLine": end, "snippet": snippet, "score": 0.9}


async def answer(question: str, *hits: Any, **payload: Any) -> str:
    first = await ask([user(question)], SEARCH)
    (call,) = tool_calls_of(first.message)
    result = tool_result(
        call["id"], "memory_search", json.dumps({"results": list(hits), **payload})
    )
    return (await ask([user(question), first.message, result], SEARCH)).text


async def test_a_question_is_looked_up_in_memory_first() -> None:
    reply = await ask([user(QUESTION)], SEARCH)
    (call,) = tool_calls_of(reply.message)
    assert (call["name"], call["arguments"]) == ("memory_search", {"query": QUESTION})
    assert reply.message["stopReason"] == "toolUse"


async def test_a_long_question_is_cut_for_the_search() -> None:
    (call,) = tool_calls_of((await ask([user("word " * 200)], SEARCH)).message)
    assert len(call["arguments"]["query"]) == 300


async def test_call_ids_follow_from_the_request_and_are_unique_in_the_conversation() -> None:
    first = tool_calls_of((await ask([user(QUESTION)], SEARCH)).message)[0]
    again = tool_calls_of((await ask([user(QUESTION)], SEARCH)).message)[0]
    assert first["id"] == again["id"]
    clash: Any = {"id": first["id"], "name": "x", "arguments": {}}
    other = tool_calls_of(
        (await ask([assistant("", tool_calls=[clash]), user(QUESTION)], SEARCH)).message
    )[0]
    assert other["id"] != first["id"]


async def test_the_best_matching_line_is_quoted_with_its_place() -> None:
    text = await answer(
        QUESTION, hit("# Notes\n- The cat is grey.\n- We decided on port 8443 for the gateway.")
    )
    assert "- We decided on port 8443 for the gateway. (memory/2026-01-05.md#L3-L9)" in text
    assert "cat" not in text
    assert text.count(OFFLINE) == 1


async def test_hits_without_a_shared_word_are_quoted_in_their_order() -> None:
    text = await answer("Where do I live?", hit("Home is Lisbon."))
    assert "Home is Lisbon." in text


async def test_no_results_are_said_plainly() -> None:
    text = await answer(QUESTION)
    assert "found nothing" in text
    assert OFFLINE in text


async def test_a_failed_search_is_told_with_what_to_do() -> None:
    """C87: nothing found must not look like memory that could not be searched."""
    text = await answer(QUESTION, disabled=True, error="provider is down", action="Run doctor.")
    assert "provider is down Run doctor." in text


async def test_a_result_that_is_not_json_is_told_and_not_searched_again() -> None:
    first = await ask([user(QUESTION)], SEARCH)
    (call,) = tool_calls_of(first.message)
    result = tool_result(call["id"], "memory_search", "boom", is_error=True)
    reply = await ask([user(QUESTION), first.message, result], SEARCH)
    assert tool_calls_of(reply.message) == []
    assert "boom" in reply.text


async def test_a_new_user_message_is_a_new_search() -> None:
    first = await ask([user(QUESTION)], SEARCH)
    (call,) = tool_calls_of(first.message)
    result = tool_result(call["id"], "memory_search", '{"results": []}')
    messages = [user(QUESTION), first.message, result, assistant("Nothing."), user("And the host?")]
    assert tool_calls_of((await ask(messages, SEARCH)).message)


async def test_chinese_questions_get_chinese_answers() -> None:
    text = await answer("我们决定用哪个端口？", hit("- 决定端口改用 8443。\n- 猫是灰色的。"))
    assert "决定端口改用 8443。 (memory/2026-01-05.md#L3-L9)" in text
    assert "猫" not in text
    assert "离线模型" in text


async def test_without_the_tool_the_conversation_is_quoted() -> None:
    messages = [user("The gateway port is 8443."), assistant("Noted."), user("Which port is it?")]
    reply = await ask(messages)
    assert "- The gateway port is 8443." in reply.text
    assert "Noted" not in reply.text


async def test_nothing_in_memory_falls_back_to_the_conversation() -> None:
    before = [user("The gateway port is 8443."), assistant("Noted.")]
    first = await ask([*before, user("Which port?")], SEARCH)
    (call,) = tool_calls_of(first.message)
    result = tool_result(call["id"], "memory_search", '{"results": []}')
    text = (await ask([*before, user("Which port?"), first.message, result], SEARCH)).text
    assert "The gateway port is 8443." in text


async def test_an_earlier_answer_of_its_own_is_not_quoted_as_knowledge() -> None:
    first = await ask([user("what does the offline model quote?")])
    again = await ask([user("x"), first.message, user("what does the offline model quote?")])
    assert again.text.count(OFFLINE) == 1


@pytest.mark.parametrize("messages", [[], [user("")], [assistant("hello")]])
async def test_a_conversation_without_a_question_gets_an_answer(messages: list[Message]) -> None:
    assert OFFLINE in (await ask(messages, SEARCH)).text


async def test_the_stream_says_the_same_as_the_whole_answer() -> None:
    request = ChatRequest(messages=[user("The port is 8443."), user("Which port?")])
    pieces = [piece async for piece in OfflineModel().stream(request)]
    reply = pieces[-1]
    assert isinstance(reply, ChatReply)
    deltas = [piece.text for piece in pieces[:-1] if isinstance(piece, TextDelta)]
    assert len(deltas) > 3
    assert "".join(deltas) == reply.text == (await OfflineModel().complete(request)).text


async def test_the_offline_model_names_itself_and_needs_no_configured_window() -> None:
    model = OfflineModel()
    assert model.id == "offline/extractive"
    assert await model.context_window() == 32_000


async def test_a_statement_is_noted_rather_than_looked_for_in_vain() -> None:
    """Somebody who tells a fact has not asked anything."""
    request = ChatRequest(messages=[user("We chose port 5437 for staging.")])
    assert "Noted" in (await OfflineModel().complete(request)).text
    chinese = ChatRequest(messages=[user("预发布数据库用 5437 端口。")])
    assert "记下了" in (await OfflineModel().complete(chinese)).text
    question = ChatRequest(messages=[user("Which port did we choose?")])
    assert "found nothing" in (await OfflineModel().complete(question)).text


async def test_blocks_around_the_question_are_no_part_of_it() -> None:
    framed = f"<relevant-memories>\n[fact] Ana likes tea.\n</relevant-memories>\n\n{QUESTION}"
    (call,) = tool_calls_of((await ask([user(framed)], SEARCH)).message)
    assert call["arguments"] == {"query": QUESTION}


async def test_the_footer_with_the_place_is_not_quoted_as_a_memory() -> None:
    found = hit("- The port is 8443.\n\nSource: MEMORY.md#L3", path="MEMORY.md")
    text = await answer(QUESTION, {**found, "citation": "MEMORY.md#L3"})
    assert "The port is 8443" in text
    assert "Source:" not in text
