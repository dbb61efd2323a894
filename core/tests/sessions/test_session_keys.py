from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hermitcrab.errors import SessionKeyError
from hermitcrab.sessions.keys import (
    AgentKey,
    agent_id_of,
    chat_type,
    check_session_id,
    classify,
    fold_key,
    is_cron,
    is_private,
    is_subagent,
    normalise_account_id,
    normalise_agent_id,
    parse_agent_key,
    split_cron_run,
    subagent_depth,
    subagent_key,
    thread_parent,
    to_store_key,
)

#: Every form of sessions 1.2: what stands behind the agent, its chat type, and whether it is private.
FORMS: list[tuple[str, str, bool]] = [
    ("main", "unknown", True),
    ("direct:123", "direct", True),
    ("dm:123", "direct", True),
    ("telegram:direct:123", "direct", True),
    ("telegram:dm:123", "direct", True),
    ("telegram:work:direct:123", "direct", True),
    ("telegram:group:-100", "group", False),
    ("unknown:group:unknown", "group", False),
    ("slack:channel:c1", "channel", False),
    ("telegram:group:-100:thread:7", "group", False),
    ("slack:channel:c1:thread:171.5", "channel", False),
    ("main:thread:7", "unknown", False),
    ("telegram:direct:123:thread:9", "direct", False),
    ("telegram:group:-100:topic:7", "group", False),
    ("subagent:6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "unknown", False),
    ("main:subagent:6f9619ff:subagent:7a", "unknown", False),
    ("cron:job1", "unknown", False),
    ("cron:job1:run:6f9619ff", "unknown", False),
    ("hook:gmail:1", "unknown", False),
    ("acp:6f9619ff", "unknown", False),
    ("acp:binding:telegram:work:abc", "unknown", False),
    ("node-7", "unknown", True),
    ("dashboard:6f9619ff", "unknown", True),
    ("slash:u1", "unknown", True),
    ("main:heartbeat", "unknown", True),
    ("explicit:model-run-6f", "unknown", True),
    ("internal-session-effects:abc", "unknown", True),
]

segments = st.text("abcxyz019_-.@", min_size=1, max_size=8)
agent_ids = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True)


class TestForms:
    @pytest.mark.parametrize("rest", [form[0] for form in FORMS])
    def test_every_form_parses_and_formats_to_itself(self, rest: str) -> None:
        key = f"agent:main:{rest}"
        parsed = parse_agent_key(key)
        assert parsed == AgentKey("main", rest)
        assert str(parsed) == to_store_key(key) == key
        assert classify(key) == "agent"

    @pytest.mark.parametrize(("rest", "expected"), [form[:2] for form in FORMS])
    def test_the_structure_of_a_key_tells_its_chat_type(self, rest: str, expected: str) -> None:
        assert chat_type(f"agent:main:{rest}") == expected

    @pytest.mark.parametrize(("rest", "expected"), [(form[0], form[2]) for form in FORMS])
    def test_memory_is_shown_in_private_conversations_only(self, rest: str, expected: bool) -> None:
        """Memory 1.3: MEMORY.md reached group chats."""
        assert is_private(f"agent:main:{rest}") is expected
        assert is_private(f"AGENT:Main:{rest.upper()}") is expected

    @pytest.mark.parametrize("rest", [form[0] for form in FORMS])
    def test_a_request_key_gets_its_agent(self, rest: str) -> None:
        assert to_store_key(rest, agent_id="Work") == f"agent:work:{rest}"

    @given(agent_ids, st.lists(segments, min_size=1, max_size=5))
    def test_formatting_and_parsing_are_inverse(self, agent_id: str, parts: list[str]) -> None:
        key = AgentKey(agent_id, ":".join(parts))
        assert parse_agent_key(str(key)) == key


class TestStoreKeys:
    @given(st.text(st.characters(), max_size=60), st.text(st.characters(), max_size=20))
    def test_a_store_key_is_its_own_store_key(self, key: str, agent_id: str) -> None:
        try:
            stored = to_store_key(key, agent_id=agent_id)
        except SessionKeyError:
            assume(False)
        assert to_store_key(stored) == stored
        assert stored in {"global", "unknown"} or parse_agent_key(stored) is not None

    @pytest.mark.parametrize("key", ["", "  ", "main", "MAIN", "agent:main:main", "home"])
    def test_all_names_of_the_main_session_are_one_key(self, key: str) -> None:
        """Sessions 1.4: reads and writes agree on it."""
        assert to_store_key(key, main_key="Home") == "agent:main:home"

    @pytest.mark.parametrize("key", ["global", " UNKNOWN "])
    def test_sentinels_belong_to_no_agent(self, key: str) -> None:
        assert to_store_key(key, agent_id="work") == key.strip().lower()
        assert not is_private(key)
        assert agent_id_of(key) == "main"

    @pytest.mark.parametrize(
        "key",
        [
            "agent:",
            "agent::main",
            "agent:main",
            "agent:main:",
            "agent:main::x",
            "agent:a b:x",
            "Agent:main::",
            "agent:-x:main",
            ":",
            "agent:ſ:main",
        ],
    )
    def test_malformed_keys_are_refused(self, key: str) -> None:
        with pytest.raises(SessionKeyError, match="malformed session key"):
            to_store_key(key)

    @pytest.mark.parametrize("key", ["agent:", "agent::main", "agent:main", "agent:main::x"])
    def test_malformed_agent_keys_are_neither_agent_nor_private(self, key: str) -> None:
        assert classify(key) == "malformed_agent"
        assert parse_agent_key(key) is None
        assert not is_private(key)

    def test_other_shapes_are_told_apart(self) -> None:
        assert classify("  ") == "missing"
        assert classify("telegram:group:1") == "legacy_or_alias"

    def test_the_agent_of_a_key(self) -> None:
        assert agent_id_of("agent:Work:main") == "work"
        assert agent_id_of("cron:x") == "main"


class TestChatType:
    @pytest.mark.parametrize(
        "rest",
        [
            "direct:group:7",
            "direct:x:group:7",
            "telegram:group:direct:7",
            "group",
            "telegram:group",
            "telegram:group:",
            ":group:7",
            "direct:",
            "a:b:c:group:7",
        ],
    )
    def test_a_key_that_could_mean_two_things_or_none_is_unknown(self, rest: str) -> None:
        """Sessions 1.6, version C: an id equal to `group` misclassified sessions."""
        assert chat_type(f"agent:main:{rest}") == "unknown"

    def test_an_id_may_hold_colons(self) -> None:
        assert chat_type("agent:main:matrix:channel:!room:server.org") == "channel"
        assert chat_type("agent:main:direct:@user:server.org") == "direct"

    def test_a_thread_has_the_chat_type_of_what_it_is_in(self) -> None:
        key = "agent:main:slack:channel:c1:thread:2:thread:3"
        assert thread_parent(key) == "agent:main:slack:channel:c1:thread:2"
        assert chat_type(key) == "channel"
        assert thread_parent("agent:main:main") is None
        assert thread_parent(":thread:1") is None


class TestOpaqueIds:
    """Sessions 9.7: folding case-sensitive ids merged different rooms."""

    @pytest.mark.parametrize(
        "rest",
        [
            "signal:group:aBcD==",
            "signal:group:aBcD==:thread:7",
            "matrix:channel:!RoomId:Server.org",
            "matrix:group:!RoomId:Server.org:thread:$EventId",
        ],
    )
    def test_ids_that_a_channel_owns_keep_their_case(self, rest: str) -> None:
        key = f"agent:main:{rest}"
        assert to_store_key(key) == key
        assert to_store_key(rest) == key
        assert fold_key(fold_key(key)) == key

    def test_everything_around_them_is_folded(self) -> None:
        assert (
            fold_key(" Agent:Main:Signal:GROUP:aB:Thread:X ")
            == "agent:main:signal:group:aB:thread:x"
        )
        assert fold_key("MATRIX:Channel:!R:S:THREAD:$E") == "matrix:channel:!R:S:thread:$E"

    def test_other_channels_are_folded_whole(self) -> None:
        assert fold_key("Telegram:Group:ABC") == "telegram:group:abc"
        assert fold_key("signal:direct:ABC") == "signal:direct:abc"


class TestAgentIds:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Main", "main"),
            (" work_1 ", "work_1"),
            ("my agent!!", "my-agent"),
            ("--x--", "x"),
            ("", "main"),
            ("!!!", "main"),
            ("_private", "private"),
            ("a" * 100, "a" * 64),
            ("a" * 63 + "!!b", "a" * 63),
            ("中文", "main"),
            ("../../etc", "etc"),
        ],
    )
    def test_any_text_becomes_a_valid_id(self, text: str, expected: str) -> None:
        """Sessions 1.1."""
        assert normalise_agent_id(text) == expected

    @given(st.text(st.characters()))
    def test_an_id_is_always_valid_and_stays_what_it_is(self, text: str) -> None:
        agent_id = normalise_agent_id(text)
        assert re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", agent_id)
        assert normalise_agent_id(agent_id) == agent_id

    @pytest.mark.parametrize("text", ["", "__proto__", "Prototype", " constructor "])
    def test_empty_and_reserved_accounts_are_the_default_one(self, text: str) -> None:
        assert normalise_account_id(text) == "default"

    def test_other_accounts_are_sanitised_like_agents(self) -> None:
        assert normalise_account_id("My Bot") == "my-bot"


class TestSessionIds:
    @pytest.mark.parametrize("session_id", ["a", "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "A.b_c-1"])
    def test_safe_ids_are_taken(self, session_id: str) -> None:
        assert check_session_id(session_id) == session_id

    @pytest.mark.parametrize(
        "session_id",
        [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "/etc/passwd",
            "a\0",
            "a\n",
            "-x",
            ".hidden",
            "a b",
            "é",
            "ſ",
            "\u212a",
            "a" * 129,
        ],
    )
    def test_ids_that_are_no_safe_file_name_are_refused(self, session_id: Any) -> None:
        with pytest.raises(SessionKeyError, match="invalid session id"):
            check_session_id(session_id)


class TestSubagentsAndJobs:
    @pytest.mark.parametrize(
        ("key", "depth"),
        [
            ("agent:main:main", 0),
            ("agent:main:subagent:a1", 1),
            ("agent:main:subagent:a1:subagent:b2", 2),
            ("subagent:a1", 1),
            ("agent:main:direct:subagent", 0),
        ],
    )
    def test_the_depth_of_a_subagent_is_in_its_key(self, key: str, depth: int) -> None:
        assert subagent_depth(key) == depth
        assert is_subagent(key) is (depth > 0)

    @pytest.mark.parametrize("parent", ["agent:main:main", "agent:main:irc:group:#a", "global"])
    def test_the_key_of_a_subagent_holds_the_chain_above_it(self, parent: str) -> None:
        child = subagent_key(parent, "main", "a1")
        grandchild = subagent_key(child, "other", "b2")
        assert child == "agent:main:subagent:a1"
        assert grandchild == "agent:other:subagent:a1:subagent:b2"
        assert [subagent_depth(key) for key in (parent, child, grandchild)] == [0, 1, 2]
        assert to_store_key(grandchild) == grandchild

    def test_a_run_is_split_from_its_job(self) -> None:
        assert split_cron_run("agent:main:cron:nightly:run:42") == ("agent:main:cron:nightly", "42")
        assert is_cron("agent:main:cron:nightly:run:42")
        assert is_cron("cron:nightly")

    @pytest.mark.parametrize(
        "key", ["agent:main:cron:nightly", "agent:main:cron:a:b:run:42", "agent:main:main"]
    )
    def test_any_other_key_has_no_run(self, key: str) -> None:
        assert split_cron_run(key) == (key, None)
