"""How the answers of several handlers become one (sessions 6.7, with the sticky rules)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.hooks import (
    AfterCompaction,
    AgentTurnPrepare,
    BeforeAgentFinalize,
    BeforeAgentReply,
    BeforeCompaction,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeToolCall,
    Claim,
    CompactionDecision,
    Finalize,
    FlushRequest,
    InboundClaim,
    MessageSending,
    MessageSendingDecision,
    ModelChoice,
    PromptBuild,
    ReplyPayloadSending,
    SessionBeforeCompact,
    SubagentDeliveryTarget,
    SubagentSpawning,
    ToolCallDecision,
)
from hermitcrab.hooks.merge import Answer, merge_answers

TOOL_CALL = BeforeToolCall(tool_name="exec", params={"a": 1})
PROMPT = BeforePromptBuild(prompt="hi")
SENDING = MessageSending(to="me", content="hello")
FINALIZE = BeforeAgentFinalize()
COMPACT = SessionBeforeCompact(session_key="agent:main:main", session_id="s", messages=[])


async def test_a_lower_priority_cannot_undo_a_block(hooks: Any) -> None:
    """Sessions 6.7: in an earlier version a later ``block: false`` undid a block."""
    hooks.answers(
        "before_tool_call",
        ToolCallDecision(block=True, block_reason="no"),
        ToolCallDecision(block=False, block_reason="go on"),
    )
    decision = await hooks.fire(TOOL_CALL)
    assert decision.block is True
    assert (decision.block_reason, decision.decided_by) == ("no", "p0")


async def test_a_block_ends_the_call_and_keeps_the_reason_of_who_blocked(hooks: Any) -> None:
    called = []
    hooks.answers("before_tool_call", ToolCallDecision(block_reason="a reason without a block"))
    hooks.answers("before_tool_call", ToolCallDecision(block=True, block_reason="no"))
    hooks.add("before_tool_call", lambda: called.append("late"), plugin="late")
    decision = await hooks.fire(TOOL_CALL)
    assert decision.block_reason == "no"
    assert called == []


async def test_tool_params_of_the_lowest_priority_replace_the_others_whole(hooks: Any) -> None:
    hooks.answers(
        "before_tool_call",
        ToolCallDecision(params={"a": 2, "b": 3}),
        ToolCallDecision(params={"a": 4}),
        ToolCallDecision(),
    )
    decision = await hooks.fire(TOOL_CALL)
    assert decision.params == {"a": 4}
    assert (decision.block, decision.decided_by) == (False, None)


async def test_prompt_texts_are_joined_by_a_blank_line_higher_priority_first(hooks: Any) -> None:
    hooks.add(
        "before_prompt_build", lambda: PromptBuild(prepend_context="low"), plugin="a", priority=-1
    )
    hooks.add(
        "before_prompt_build",
        lambda: PromptBuild(prepend_context="high", append_system_context="tail"),
        plugin="b",
        priority=1,
    )
    hooks.add("before_prompt_build", lambda: PromptBuild(prepend_context=""), plugin="c")
    built = await hooks.fire(PROMPT)
    assert built.prepend_context == "high\n\nlow"
    assert built.append_system_context == "tail"
    assert built.append_context is None


async def test_the_system_prompt_and_the_model_of_the_highest_priority_win(hooks: Any) -> None:
    hooks.answers(
        "before_prompt_build",
        PromptBuild(),
        PromptBuild(system_prompt="x"),
        PromptBuild(system_prompt="y"),
    )
    hooks.answers(
        "before_model_resolve",
        ModelChoice(provider_override="local"),
        ModelChoice(model_override="big", provider_override="remote"),
    )
    assert (await hooks.fire(PROMPT)).system_prompt == "x"
    choice = await hooks.fire(BeforeModelResolve(prompt="hi"))
    assert choice == ModelChoice(model_override="big", provider_override="local")


async def test_allowed_tools_are_what_everybody_allows_and_an_empty_list_allows_none(
    hooks: Any,
) -> None:
    hooks.answers(
        "before_prompt_build",
        {"toolsAllow": ["a", "b", "c"]},
        PromptBuild(),
        {"tools_allow": ["c", "a"]},
    )
    assert (await hooks.fire(PROMPT)).tools_allow == ("a", "c")
    hooks.answers("before_prompt_build", {"toolsAllow": []})
    assert (await hooks.fire(PROMPT)).tools_allow == ()


async def test_without_an_opinion_about_tools_nothing_is_limited(hooks: Any) -> None:
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    assert (await hooks.fire(PROMPT)).tools_allow is None


async def test_turn_preparations_are_concatenated(hooks: Any) -> None:
    hooks.answers("agent_turn_prepare", {"prependContext": "a"}, {"prepend_context": "b"})
    prepared = await hooks.fire(AgentTurnPrepare(prompt="hi"))
    assert prepared.prepend_context == "a\n\nb"


async def test_a_cancelled_message_stays_cancelled_and_the_last_content_wins(hooks: Any) -> None:
    hooks.answers(
        "message_sending", MessageSendingDecision(content="x"), MessageSendingDecision(content="y")
    )
    assert (await hooks.fire(SENDING)).content == "y"
    hooks.answers(
        "message_sending",
        MessageSendingDecision(cancel=True, cancel_reason="quiet"),
        MessageSendingDecision(cancel=False),
    )
    decision = await hooks.fire(SENDING)
    assert (decision.cancel, decision.cancel_reason) == (True, "quiet")


async def test_reply_payloads_are_handed_from_one_handler_to_the_next(hooks: Any) -> None:
    seen = []

    def add_word(event: Any) -> Any:
        seen.append(dict(event.payload))
        return {"payload": {"text": event.payload["text"] + "!"}}

    hooks.add("reply_payload_sending", add_word, plugin="a")
    hooks.add("reply_payload_sending", add_word, plugin="b")
    decision = await hooks.fire(ReplyPayloadSending(payload={"text": "hi"}))
    assert seen == [{"text": "hi"}, {"text": "hi!"}]
    assert decision.payload == {"text": "hi!!"}


async def test_the_first_claim_wins_and_others_are_not_asked(hooks: Any) -> None:
    asked = []
    hooks.answers("inbound_claim", Claim(handled=False, reply="not mine"))
    hooks.answers("inbound_claim", {"handled": True, "reply": "mine"})
    hooks.add("inbound_claim", lambda: asked.append(1), plugin="late")
    claim = await hooks.fire(InboundClaim(content="hi"))
    assert claim.reply == "mine"
    assert asked == []


async def test_nobody_claims_means_no_claim(hooks: Any) -> None:
    hooks.answers("before_agent_reply", Claim(handled=False, reply="no"), None)
    assert await hooks.fire(BeforeAgentReply(cleaned_body="hi")) is None


async def test_finalize_beats_revise_beats_continue(hooks: Any) -> None:
    hooks.answers("before_agent_finalize", {"action": "continue", "reason": "fine"})
    hooks.answers("before_agent_finalize", {"action": "revise", "reason": "too long"})
    assert (await hooks.fire(FINALIZE)).reason == "too long"
    hooks.answers("before_agent_finalize", {"action": "finalize", "reason": "enough"})
    assert await hooks.fire(FINALIZE) == Finalize(action="finalize", reason="enough")


async def test_revisions_join_their_reasons_and_use_the_first_instruction_that_is_not_blank(
    hooks: Any,
) -> None:
    hooks.answers(
        "before_agent_finalize",
        Finalize(action="revise", reason="a", retry_instruction=" ", max_attempts=9),
        Finalize(action="revise", reason="b", retry_instruction="shorter", idempotency_key="k"),
        Finalize(action="revise", retry_instruction="longer", max_attempts=7),
    )
    assert await hooks.fire(FINALIZE) == Finalize(
        action="revise", reason="a\n\nb", retry_instruction="shorter", idempotency_key="k"
    )


async def test_any_plugin_can_ask_for_a_flush_around_a_compaction(hooks: Any) -> None:
    for hook in ("before_compaction", "after_compaction"):
        hooks.answers(hook, FlushRequest(flush=False), FlushRequest(flush=True), {"flush": False})
    assert await hooks.fire(BeforeCompaction(message_count=3)) == FlushRequest(flush=True)
    after = AfterCompaction(message_count=1, compacted_count=2)
    assert await hooks.fire(after) == FlushRequest(flush=True)


async def test_a_cancelled_compaction_keeps_its_reason_and_a_summary_its_own_details(
    hooks: Any,
) -> None:
    hooks.answers(
        "session_before_compact",
        CompactionDecision(details={"stray": 1}),
        CompactionDecision(summary="S", details={"of": "S"}),
        CompactionDecision(summary="T", details={"of": "T"}),
    )
    decision = await hooks.fire(COMPACT)
    assert (decision.summary, decision.details) == ("S", {"of": "S"})
    assert decision.summarised_by == "p1"
    hooks.add(
        "session_before_compact",
        lambda: {"cancel": True, "reason": "busy"},
        plugin="first",
        priority=1,
    )
    decision = await hooks.fire(COMPACT)
    assert (decision.cancel, decision.reason, decision.cancelled_by) == (True, "busy", "first")


async def test_the_first_error_refuses_a_subagent_and_ready_flags_add_up(hooks: Any) -> None:
    event = SubagentSpawning(child_session_key="agent:main:subagent:1", agent_id="main")
    hooks.answers("subagent_spawning", {"threadBindingReady": True}, {"status": "ok"})
    assert (await hooks.fire(event)).thread_binding_ready is True
    hooks.answers("subagent_spawning", {"status": "error", "error": "full"})
    decision = await hooks.fire(event)
    assert (decision.status, decision.error) == ("error", "full")


async def test_the_first_delivery_origin_wins(hooks: Any) -> None:
    hooks.answers("subagent_delivery_target", {}, {"origin": {"to": "a"}}, {"origin": {"to": "b"}})
    event = SubagentDeliveryTarget(child_session_key="c", requester_session_key="r")
    assert (await hooks.fire(event)).origin == {"to": "a"}


decisions = st.builds(
    ToolCallDecision,
    params=st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=2),
    block=st.booleans(),
    block_reason=st.none() | st.text(max_size=3),
)


@given(st.lists(decisions, min_size=1, max_size=5))
def test_merging_blocks_exactly_if_anybody_blocks(results: list[ToolCallDecision]) -> None:
    merged = merge_answers(
        ToolCallDecision, [Answer(f"p{n}", each) for n, each in enumerate(results)]
    )
    assert merged is not None
    blockers = [n for n, each in enumerate(results) if each.block]
    assert merged.block is bool(blockers)
    assert merged.decided_by == (f"p{blockers[0]}" if blockers else None)
    assert merged.block_reason == (results[blockers[0]].block_reason if blockers else None)


texts = st.none() | st.text(alphabet="abc", max_size=3)


@given(st.lists(texts, max_size=3), st.lists(texts, max_size=3))
def test_merging_texts_in_two_steps_is_merging_them_at_once(
    first: list[str | None], second: list[str | None]
) -> None:
    def merged(values: list[str | None]) -> PromptBuild:
        answers = [Answer("p", PromptBuild(append_context=value)) for value in values]
        return merge_answers(PromptBuild, answers) or PromptBuild()

    halves = [merged(first).append_context, merged(second).append_context]
    assert merged(halves) == merged(first + second)
