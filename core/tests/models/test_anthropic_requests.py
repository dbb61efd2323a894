"""What is sent to the Messages API, and the laws that it demands of every conversation."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.messages.pairing import repair_pairing
from hermitcrab.messages.types import Message
from hermitcrab.models import ChatRequest
from hermitcrab.models.anthropic_wire import Dialect, adapted, request_payload

PIXEL: Any = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
BLANK = st.sampled_from(["", " \n", "\t"])


def thinking(text: str = "hm", signature: str | None = "sig", **more: Any) -> Any:
    signed = {"thinkingSignature": signature} if signature else {}
    return {"type": "thinking", "thinking": text, **signed, **more}


def call(call_id: str, name: str = "read") -> Any:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": {"n": 1}}


def said(*blocks: Any, provider: str = "anthropic", model: str = "claude-x") -> Message:
    return assistant(blocks, provider=provider, model=model)


def payload(*messages: Message, **changes: Any) -> dict[str, Any]:
    request = {
        name: changes.pop(name) for name in ("thinking", "system", "fast") if name in changes
    }
    limit = changes.pop("request_max_tokens", None)
    options: dict[str, Any] = {
        "provider": "anthropic",
        "model": "claude-x",
        "dialect": Dialect(),
        "stream": False,
        "max_tokens": None,
        "prompt_cache": "none",
        "fast_body": {},
    }
    asked = ChatRequest(messages=list(messages), max_tokens=limit, **request)
    return request_payload(asked, **(options | changes))


def kinds(message: dict[str, Any]) -> list[str]:
    return [part["type"] for part in message["content"]]


def test_a_limit_is_always_sent() -> None:
    assert payload(user("x"))["max_tokens"] == 8192
    assert payload(user("x"), max_tokens=4000)["max_tokens"] == 4000
    assert payload(user("x"), max_tokens=4000, request_max_tokens=100)["max_tokens"] == 100
    assert payload(user("x"), max_tokens=100, request_max_tokens=4000)["max_tokens"] == 100


@pytest.mark.parametrize(
    ("level", "limit", "sent_limit", "budget"),
    [
        ("minimal", None, 16384, 1024),
        ("low", None, 16384, 2048),
        ("medium", None, 16384, 4096),
        ("adaptive", None, 16384, 4096),
        ("high", None, 16384, 8192),
        ("max", None, 16384, 8192),
        ("max", 64_000, 64_000, 32_000),
        ("high", 4000, 4000, 2000),
        ("high", 2000, 2000, None),
        ("off", None, 8192, None),
        (None, None, 8192, None),
        ("what", None, 8192, None),
    ],
)
def test_thinking_takes_at_most_half_of_the_answer(
    level: str | None, limit: int | None, sent_limit: int, budget: int | None
) -> None:
    sent = payload(user("x"), thinking=level, max_tokens=limit)
    assert sent["max_tokens"] == sent_limit
    wanted = {"type": "enabled", "budget_tokens": budget} if budget else None
    assert sent.get("thinking") == wanted


def test_thinking_goes_back_only_while_the_model_thinks_and_only_its_own() -> None:
    """C49: a reasoning block that is separated from its call is refused."""
    own = said(thinking(), thinking("", "xyz", redacted=True), call("a"))
    round_ = [user("x"), own, tool_result("a", "read", "one")]
    assert kinds(payload(*round_, thinking="low")["messages"][1]) == [
        "thinking",
        "redacted_thinking",
        "tool_use",
    ]
    assert kinds(payload(*round_)["messages"][1]) == ["tool_use"]
    for foreign in ({"provider": "other"}, {"model": "claude-y"}):
        theirs = said(thinking(), call("a"), **foreign)
        sent = payload(user("x"), theirs, tool_result("a", "read", "one"), thinking="low")
        assert kinds(sent["messages"][1]) == ["tool_use"]
    unsigned = said(thinking(signature=None), {"type": "text", "text": "a"})
    assert kinds(payload(user("x"), unsigned, user("y"), thinking="low")["messages"][1]) == ["text"]


def test_nobody_begins_to_think_within_a_round_of_tool_calls() -> None:
    """The API refuses it: the answer that the round began with has no thinking."""
    begun = [user("x"), said(call("a")), tool_result("a", "read", "one")]
    later = [said(thinking(), call("b")), tool_result("b", "read", "two"), user("and?")]
    assert "thinking" not in payload(*begun, thinking="low")
    unthinking = payload(*begun, *later, thinking="low")
    assert "thinking" not in unthinking
    assert kinds(unthinking["messages"][3]) == ["tool_use"]
    assert "thinking" in payload(
        *begun, said({"type": "text", "text": "a"}), user("y"), thinking="low"
    )
    thoughtful = [user("x"), said(thinking(), call("a")), tool_result("a", "read", "one")]
    assert "thinking" in payload(
        *thoughtful, said(call("b")), tool_result("b", "read", "2"), thinking="low"
    )


@pytest.mark.parametrize(
    ("cache", "control"),
    [
        ("none", None),
        ("short", {"type": "ephemeral"}),
        ("long", {"type": "ephemeral", "ttl": "1h"}),
    ],
)
def test_the_system_prompt_and_the_conversation_so_far_are_to_be_remembered(
    cache: Any, control: Any
) -> None:
    sent = payload(
        user("one"),
        said(call("a")),
        tool_result("a", "read", "x"),
        user("two"),
        system="Be brief.",
        prompt_cache=cache,
    )
    assert sent["system"][0].get("cache_control") == control
    marked = [
        part.get("cache_control") for message in sent["messages"] for part in message["content"]
    ]
    assert marked == [None, None, None, control]


def test_there_is_no_blank_system_prompt() -> None:
    assert "system" not in payload(user("x"), system=" \n")


def test_fast_mode_adds_what_config_says() -> None:
    body = {"speed": "fast"}
    assert payload(user("x"), fast=True, fast_body=body)["speed"] == "fast"
    assert "speed" not in payload(user("x"), fast_body=body)


def test_images_go_out_also_in_tool_results() -> None:
    sent = payload(user([PIXEL]), said(call("a")), tool_result("a", "shot", [PIXEL]))
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    image = {"type": "image", "source": source}
    assert sent["messages"][0]["content"] == [image]
    assert sent["messages"][2]["content"][0]["content"] == [image]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    sent = payload(assistant("welcome"), assistant("back"))["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert [message["role"] for message in payload()["messages"]] == ["user"]


def test_ids_and_names_of_other_providers_are_made_acceptable() -> None:
    strange = said(call("call_1|fc_2", "files.read"), call("call_1:fc_2", "x" * 200))
    results = [tool_result("call_1|fc_2", "files.read", "1"), tool_result("call_1:fc_2", "x", "2")]
    sent = payload(user("x"), strange, *results)["messages"]
    names = [part["name"] for part in sent[1]["content"]]
    ids = [part["id"] for part in sent[1]["content"]]
    assert names == ["files_read", "x" * 128]
    assert len(set(ids)) == 2
    assert [part["tool_use_id"] for part in sent[2]["content"]] == ids


@pytest.mark.parametrize(
    "refusal", ["cache_control", "thinking", "output_config", "use adaptive thinking"]
)
def test_a_refused_parameter_is_given_up_after_a_few_steps(refusal: str) -> None:
    dialect: Dialect | None = Dialect()
    for _ in range(3):
        dialect = adapted(dialect, refusal) if dialect else None
    assert dialect is None
    assert adapted(Dialect(), "temperature: at most 1") is None


texts = BLANK | st.text(max_size=6)
call_ids = st.sampled_from(["a", "b", "c|d", "c:d", "é", ""])
blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(lambda text, sign: thinking(text, sign), texts, st.sampled_from([None, "sig"])),
    st.builds(call, call_ids, st.sampled_from(["read", "a.b", ""])),
    st.just(PIXEL),
    st.just({"type": "video"}),
)
any_messages = st.lists(
    st.one_of(
        st.builds(user, texts),
        st.builds(user, st.lists(st.just(PIXEL) | st.just({"type": "text", "text": " "}))),
        st.builds(
            lambda content, provider, reason: assistant(
                content, provider=provider, model="claude-x", stop_reason=reason
            ),
            st.lists(blocks, max_size=4),
            st.sampled_from(["anthropic", "other"]),
            st.sampled_from([None, "aborted"]),
        ),
        st.builds(lambda id_, text: tool_result(id_, "read", text), call_ids, texts),
        st.builds(lambda text: {"role": "branchSummary", "summary": text}, texts),
    ),
    max_size=10,
)


@settings(deadline=None, max_examples=300)
@given(any_messages, st.sampled_from([None, "low", "high"]), st.sampled_from(["none", "short"]))
def test_the_api_could_accept_whatever_the_conversation_was(
    messages: list[Any], level: str | None, cache: Any
) -> None:
    repaired = repair_pairing(messages).messages
    sent = payload(*repaired, thinking=level, prompt_cache=cache, system="s")
    json.dumps(sent, ensure_ascii=False).encode()
    conversation = sent["messages"]
    assert conversation[0]["role"] == conversation[-1]["role"] == "user"
    assert all(one["role"] != two["role"] for one, two in pairwise(conversation))
    assert all(message["content"] for message in conversation)
    for message in conversation:
        for part in message["content"]:
            assert part["type"] != "text" or part["text"].strip()
            assert part["type"] != "thinking" or part["signature"]
            assert part["type"] != "thinking" or "thinking" in sent
    open_calls: list[str] = []
    for message in conversation:
        results = [part for part in message["content"] if part["type"] == "tool_result"]
        assert [part["tool_use_id"] for part in results] == open_calls
        assert message["content"][: len(results)] == results
        calls = [part for part in message["content"] if part["type"] == "tool_use"]
        open_calls = [part["id"] for part in calls]
        assert len(set(open_calls)) == len(open_calls)
        for part in calls:
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,128}", part["id"])
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,128}", part["name"])
    assert open_calls == []
    if "thinking" in sent and kinds(conversation[-1])[0] == "tool_result":
        first = max(
            (
                n
                for n, message in enumerate(conversation)
                if n
                and kinds(conversation[n - 1])[0] != "tool_result"
                and message["role"] == "assistant"
            ),
        )
        assert kinds(conversation[first])[0] in ("thinking", "redacted_thinking")
