"""What users lost to keys: merged rooms, split people, aliases (sessions 1 and 9.7, appendix 1)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hermitcrab.config import config_from
from hermitcrab.sessions.inbound import InboundMessage, resolve_session_key
from hermitcrab.sessions.keys import (
    agent_id_of,
    chat_type,
    classify,
    fold_key,
    is_ambiguous,
    parse_agent_key,
    subagent_depth,
    thread_parent,
    to_store_key,
)
from hermitcrab.sessions.send_policy import may_send

#: Ids as channels make them, and as nobody should: with colons, blanks, upper case, and the words of the grammar.
words = st.sampled_from(["thread", "topic", "group", "direct", "agent", "main", "subagent", "run"])
opaque_ids = (
    st.text("abzAZ019_-.@!#$=+/ ", min_size=1, max_size=8)
    | st.text(st.characters(), min_size=1, max_size=6)
    | st.lists(words | st.text("aB1", min_size=1, max_size=2), min_size=2, max_size=4).map(":".join)
)
channels = st.sampled_from(["telegram", "signal", "matrix", "Slack"])


@st.composite
def inbound(draw: st.DrawFn) -> InboundMessage:
    """A message on a channel, perhaps in a topic or a thread."""
    return InboundMessage(
        text="hi",
        channel=draw(channels),
        chat_type=draw(st.sampled_from(["direct", "group", "channel"])),
        account=draw(st.sampled_from(["", "work"])),
        peer=draw(opaque_ids.filter(lambda text: text.strip() not in {"", "unknown"})),
        topic=draw(st.none() | opaque_ids),
        thread=draw(st.none() | opaque_ids),
        agent_id=draw(st.sampled_from(["main", "Work"])),
    )


def place(message: InboundMessage) -> tuple[Any, ...]:
    """What tells conversations apart, where ids do not tell upper from lower case."""
    account = message.account if message.chat_type == "direct" else ""
    parts = (
        message.channel,
        account,
        message.chat_type,
        message.peer,
        message.topic,
        message.thread,
    )
    return (message.agent_id, *((part or "").strip().lower() for part in parts))


def key_of(message: InboundMessage) -> str:
    return resolve_session_key(message, direct_scope="per-account-channel-peer")


class TestLaws:
    @given(
        st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True),
        st.text(st.characters(), min_size=1, max_size=60),
    )
    @example("main", " :")
    def test_any_key_that_parses_formats_and_parses_to_itself(
        self, agent_id: str, rest: str
    ) -> None:
        """Appendix 1: colons, upper case, blanks and any other character."""
        parsed = parse_agent_key(f"agent:{agent_id}:{rest}")
        assume(parsed is not None)
        assert parsed is not None
        assert parsed.agent_id == agent_id
        assert parsed.rest == fold_key(rest.rstrip())
        assert parse_agent_key(str(parsed)) == parsed
        assert to_store_key(str(parsed)) in {str(parsed), f"agent:{agent_id}:main"}
        assert classify(str(parsed)) == "agent"

    @given(inbound())
    def test_the_key_of_any_message_is_its_own_key_on_every_path(
        self, message: InboundMessage
    ) -> None:
        """#58537, #120980: what is written under a key is found by that key, whoever asks."""
        key = key_of(message)
        parsed = parse_agent_key(key)
        assert parsed is not None
        assert str(parsed) == key
        assert to_store_key(key) == to_store_key(f"  {key} ") == key
        again = InboundMessage(text="hi", session_key=key, agent_id="another")
        assert key_of(again) == key
        assert agent_id_of(key) == message.agent_id.lower()

    @given(inbound(), inbound())
    @example(
        InboundMessage(text="", channel="telegram", chat_type="group", peer="1:thread:7"),
        InboundMessage(text="", channel="telegram", chat_type="group", peer="1", thread="7"),
    )
    @example(
        InboundMessage(text="", channel="telegram", chat_type="group", peer="1:Topic:7"),
        InboundMessage(text="", channel="telegram", chat_type="group", peer="1", topic="7"),
    )
    @example(
        InboundMessage(
            text="", channel="telegram", chat_type="group", peer="1", topic="7:thread:8"
        ),
        InboundMessage(
            text="", channel="telegram", chat_type="group", peer="1", topic="7", thread="8"
        ),
    )
    @example(
        InboundMessage(text="", channel="telegram", chat_type="group", peer="1:thread:7"),
        InboundMessage(text="", channel="telegram", chat_type="group", peer="1%3Athread%3A7"),
    )
    def test_no_two_places_share_a_conversation(
        self, one: InboundMessage, other: InboundMessage
    ) -> None:
        """#75670, #102313: ids of different rooms came to one key, so that one room read the other's words."""
        assume(place(one) != place(other))
        assert key_of(one) != key_of(other)

    @given(inbound(), opaque_ids)
    def test_the_place_that_a_thread_is_in_can_be_told_from_its_key(
        self, message: InboundMessage, thread: str
    ) -> None:
        assume(message.thread is None and thread.strip())
        inside = evolve(message, thread=thread)
        assert thread_parent(key_of(inside)) == key_of(message)
        assert chat_type(key_of(inside)) == chat_type(key_of(message))


class TestPlaces:
    @pytest.mark.parametrize("channel", ["signal", "matrix"])
    def test_rooms_whose_ids_differ_in_case_alone_are_two_rooms(self, channel: str) -> None:
        """#75670, #102313: lower-casing merged different rooms and sent replies to the wrong one."""
        rooms = [
            InboundMessage(text="hi", channel=channel, chat_type="group", peer=peer)
            for peer in ("aBcD==", "abcd==", "ABCD==")
        ]
        keys = [key_of(room) for room in rooms]
        assert len(set(keys)) == 3
        assert [key.rpartition(":")[2] for key in keys] == [room.peer for room in rooms]

    def test_an_id_that_holds_a_word_of_the_grammar_starts_nothing_of_its_own(self) -> None:
        """#75670: colons in opaque ids; a room could be called like another one's thread, or like a subagent."""
        room = InboundMessage(
            text="hi", channel="telegram", chat_type="group", peer="1:subagent:2:thread:3"
        )
        key = key_of(room)
        assert (chat_type(key), subagent_depth(key), thread_parent(key)) == ("group", 0, None)
        assert "1%3asubagent%3a2%3athread%3a3" in key

    def test_ids_with_colons_of_their_own_stay_as_the_channel_writes_them(self) -> None:
        """Matrix ids are `!room:server`; keys that stand on disk already must not change."""
        room = InboundMessage(
            text="hi", channel="matrix", chat_type="channel", peer="!Room:Host.org"
        )
        assert key_of(room) == "agent:main:matrix:channel:!Room:Host.org"


class TestPeople:
    """#87938: each app of a service has ids of its own, and the key did not say which app's id it was."""

    @staticmethod
    def key(scope: Any, account: str, links: Any = None, **fields: Any) -> str:
        message = InboundMessage(
            text="hi",
            **{
                "channel": "feishu",
                "peer": "ou_1",
                "account": account,
                "account_owns_ids": True,
                **fields,
            },
        )
        return resolve_session_key(message, direct_scope=scope, identity_links=links)

    @pytest.mark.parametrize("scope", ["per-peer", "per-channel-peer", "per-account-channel-peer"])
    def test_one_id_under_two_accounts_is_not_taken_for_one_person(self, scope: str) -> None:
        assert self.key(scope, "app1") == "agent:main:feishu:app1:direct:ou_1"
        assert self.key(scope, "app2") == "agent:main:feishu:app2:direct:ou_1"

    def test_whom_config_names_is_one_person_under_all_accounts(self) -> None:
        links = {"ann": ["feishu:ou_1", "feishu:ou_2"]}
        keys = {
            self.key("per-peer", "app1", links),
            self.key("per-peer", "app2", links, peer="ou_2"),
        }
        assert keys == {"agent:main:direct:ann"}

    def test_the_scope_of_all_direct_messages_stays_what_it_is(self) -> None:
        assert self.key("main", "app1") == "agent:main:main"
        assert self.key("per-peer", "app1", account_owns_ids=False) == "agent:main:direct:ou_1"
        assert self.key("per-peer", "app1", chat_type="group", peer="g") == (
            "agent:main:feishu:group:g"
        )


class TestAmbiguous:
    @pytest.mark.parametrize("peer", ["x:group:7", "group:7", "a:channel:b"])
    def test_a_key_that_could_mean_two_things_means_none_and_is_not_sent_to(
        self, peer: str
    ) -> None:
        """Appendix 1: an id equal to `group` made a private conversation a group, or the reverse."""
        message = InboundMessage(text="hi", channel="telegram", peer=peer)
        key = resolve_session_key(message, direct_scope="per-peer")
        rules = {"rules": [{"action": "allow", "match": {"channel": "telegram"}}]}
        policy = config_from({"session": {"sendPolicy": rules}}).session.send_policy
        if is_ambiguous(key):
            assert chat_type(key) == "unknown"
            assert not may_send(policy, key, channel="telegram")
        else:
            assert chat_type(key) == "direct"
            assert may_send(policy, key, channel="telegram")

    def test_the_words_of_the_grammar_are_what_makes_keys_ambiguous(self) -> None:
        assert is_ambiguous("agent:main:direct:x:group:7")
        assert not is_ambiguous("agent:main:direct:x:y:7")
