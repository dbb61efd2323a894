from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.messages import tokens
from hermitcrab.messages.build import assistant, tool_call, tool_result, user
from hermitcrab.messages.tokens import (
    CALL_OVERHEAD,
    IMAGE_TOKENS,
    MESSAGE_OVERHEAD,
    TokenCounter,
    compact_json,
    estimate_text,
    find_encoding,
    load_counter,
)

ENGLISH = (
    "The hermit crab does not grow a shell of its own. It looks for one that another animal has "
    "left, tries it, and moves in when the fit is right. As it grows, it has to move again; a crab "
    "that cannot find a larger shell stops growing. People who watch them on the beach have seen "
    "whole lines of crabs, sorted by size, each waiting for the next one's house to become free. "
) * 3
CODE = (
    '''def group_messages(messages: Sequence[Message]) -> list[list[int]]:
    """Split into atomic groups of indexes."""
    groups: list[list[int]] = []
    pending: list[str] = []
    for index, message in enumerate(messages):
        if pending and message.get("role") == "toolResult":
            groups[-1].append(index)
            continue
        calls = [] if is_broken(message) else tool_calls_of(message)
        groups.append([index])
        pending = [call["id"] for call in calls]
    return groups
'''
    * 3
)
DIGITS = json.dumps(
    [
        {"id": 100000 + n * 7919, "t": 1763681581544 + n * 60013, "v": n * 1234 / 1000, "ok": True}
        for n in range(40)
    ]
)
CHINESE = (
    "我们决定把端口改成八千零八十，因为旧的端口已经被另一个服务占用了。小李下周三之前要把文档更新好，"
    "并且告诉测试组。数据库每天凌晨三点备份一次，备份文件保留三十天。"
) * 4
LOG = "\n".join(
    f"2026-03-{n % 28 + 1:02d}T12:{n % 60:02d}:07.{n * 37 % 1000:03d}Z [worker-{n % 8}] INFO  "
    f"build/step_{n}: compiled src/module_{n}.c in {n * 13 % 997} ms (cache miss)"
    for n in range(40)
)

#: What cl100k_base and o200k_base really make of the texts above, counted once with tiktoken.
COUNTED = {
    "english": (ENGLISH, 262, 259),
    "code": (CODE, 339, 339),
    "digits": (DIGITS, 1201, 1201),
    "chinese": (CHINESE, 356, 244),
    "log": (LOG, 1680, 1680),
}

any_text = st.text(st.characters(), max_size=300)


class TestEstimate:
    @pytest.mark.parametrize("name", COUNTED)
    def test_the_estimate_is_within_a_fifth_of_cl100k_base(self, name: str) -> None:
        text, counted, _ = COUNTED[name]
        assert estimate_text(text) == pytest.approx(counted, rel=0.2)

    @pytest.mark.parametrize("name", sorted(set(COUNTED) - {"chinese"}))
    def test_the_estimate_is_within_a_fifth_of_o200k_base(self, name: str) -> None:
        text, _, counted = COUNTED[name]
        assert estimate_text(text) == pytest.approx(counted, rel=0.2)

    def test_chinese_is_rather_estimated_too_large_than_too_small(self) -> None:
        """Notes 2: a quarter of the characters is 60 to 75 percent too little."""
        text, _, counted = COUNTED["chinese"]
        assert counted <= estimate_text(text) <= 1.6 * counted

    def test_only_an_empty_text_takes_nothing(self) -> None:
        assert estimate_text("") == 0
        assert estimate_text(" ") >= 1

    @given(any_text.filter(bool))
    def test_every_other_text_takes_at_least_a_token(self, text: str) -> None:
        assert estimate_text(text) >= 1

    @given(any_text, any_text)
    def test_a_text_takes_about_what_its_parts_take(self, first: str, second: str) -> None:
        """Joining may merge or split a token or two at the seam, no more."""
        whole = estimate_text(first + second)
        parts = estimate_text(first) + estimate_text(second)
        assert abs(whole - parts) <= 4

    def test_lone_surrogates_are_counted_like_any_character(self) -> None:
        """C57."""
        assert estimate_text("\ud83d" * 10) >= 5


class TestCompactJson:
    def test_json_has_no_spaces_and_keeps_other_scripts(self) -> None:
        assert compact_json({"路": [1, None]}) == '{"路":[1,null]}'

    def test_what_json_cannot_express_counts_as_a_fixed_text(self) -> None:
        """Context 4.2."""
        endless: Any = []
        endless.append(endless)
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        for value in ({1, 2}, object(), endless, deep):
            assert compact_json({"value": value}) == "[unserializable]"


@frozen
class Schema:
    name: str = "read"
    description: str = "Read a file"
    parameters: Any = field(factory=lambda: {"type": "object"})


class TestMessages:
    counter = TokenCounter(len, "characters")

    def test_a_message_takes_its_text_and_its_framing(self) -> None:
        assert self.counter.count(user("12345")) == MESSAGE_OVERHEAD + 5
        assert self.counter.count({"role": "user", "content": "12345"}) == MESSAGE_OVERHEAD + 5

    def test_thinking_counts(self) -> None:
        message: Any = {"role": "assistant", "content": [{"type": "thinking", "thinking": "123"}]}
        assert self.counter.count(message) == MESSAGE_OVERHEAD + 3

    def test_an_image_takes_a_fixed_number_whatever_its_bytes(self) -> None:
        """Context 4.2, version B."""
        image: Any = {"type": "image", "data": "A" * 100_000, "mimeType": "image/png"}
        assert self.counter.count(user([image])) == MESSAGE_OVERHEAD + IMAGE_TOKENS

    def test_a_call_counts_its_name_and_arguments_but_not_its_id(self) -> None:
        short = assistant([tool_call("c", "read", {"path": "a"})])
        long = assistant([tool_call("c" * 99, "read", {"path": "a"})])
        assert self.counter.count(short) == self.counter.count(long)
        assert self.counter.count(short) > MESSAGE_OVERHEAD + CALL_OVERHEAD + len("read" + "path")

    def test_the_details_of_a_result_are_not_shown_and_not_counted(self) -> None:
        result = tool_result("c", "read", "123")
        result["details"] = {"raw": "x" * 1000}
        assert self.counter.count(result) == MESSAGE_OVERHEAD + 3

    def test_commands_with_their_output_and_summaries_count(self) -> None:
        message: Any = {"role": "bashExecution", "command": "ls", "output": "a b"}
        assert self.counter.count(message) == MESSAGE_OVERHEAD + 5
        summary: Any = {"role": "compactionSummary", "summary": "abc"}
        assert self.counter.count(summary) == MESSAGE_OVERHEAD + 3

    def test_arguments_that_cannot_be_serialised_do_not_stop_the_count(self) -> None:
        block: Any = {"type": "toolCall", "id": "c", "name": "t", "arguments": {"x": {1, 2}}}
        message: Any = {"role": "assistant", "content": [block]}
        assert self.counter.count(message) > MESSAGE_OVERHEAD + CALL_OVERHEAD

    def test_schemas_count_by_all_that_the_model_reads_of_them(self) -> None:
        expected = CALL_OVERHEAD + len("read" + "Read a file" + '{"type":"object"}')
        assert self.counter.tools([Schema(), Schema()]) == 2 * expected


class TestMemory:
    def test_a_message_object_is_counted_once(self) -> None:
        seen: list[str] = []
        counter = TokenCounter(lambda text: seen.append(text) or len(text))
        message = user("hello")
        assert counter.message(message) == counter.message(message) == counter.messages([message])
        assert seen == ["hello"]

    def test_equal_messages_that_are_different_objects_are_counted_apart(self) -> None:
        seen: list[str] = []
        counter = TokenCounter(lambda text: seen.append(text) or len(text))
        counter.messages([user("hello", timestamp=1), user("hello", timestamp=1)])
        assert len(seen) == 2

    def test_a_message_that_is_gone_never_lends_its_count_to_another(self) -> None:
        counter = TokenCounter(len, remembered=4)
        for length in range(1, 500):
            assert counter.message(user("x" * length)) == MESSAGE_OVERHEAD + length

    def test_the_memory_holds_the_newest_only(self) -> None:
        seen: list[str] = []
        counter = TokenCounter(lambda text: seen.append(text) or len(text), remembered=2)
        first, second, third = user("1"), user("2"), user("3")
        for message in (first, second, third, third, second, first):
            counter.message(message)
        assert seen == ["1", "2", "3", "1"]

    def test_a_list_that_is_longer_than_the_memory_is_counted_once_all_the_same(self) -> None:
        seen: list[str] = []
        counter = TokenCounter(lambda text: seen.append(text) or len(text), remembered=2)
        messages = [user(str(number)) for number in range(9)]
        assert counter.messages(iter(messages)) == counter.messages(messages)
        assert len(seen) == 9


class TestEncodings:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A tiktoken cache folder with a file for each encoding."""
        digests = {}
        for name in ("o200k_base", "cl100k_base"):
            (tmp_path / f"file-{name}").write_text(name)
            digests[name] = (f"file-{name}", hashlib.sha256(name.encode()).hexdigest())
        monkeypatch.setattr(tokens, "_ENCODINGS", digests)
        return tmp_path

    def test_the_best_encoding_on_this_machine_is_found(self, folder: Path) -> None:
        environ = {"TIKTOKEN_CACHE_DIR": str(folder)}
        assert find_encoding(environ) == "o200k_base"
        (folder / "file-o200k_base").unlink()
        assert find_encoding(environ) == "cl100k_base"
        (folder / "file-cl100k_base").unlink()
        assert find_encoding(environ) is None

    def test_a_damaged_file_does_not_count_because_tiktoken_would_download_it_again(
        self, folder: Path
    ) -> None:
        (folder / "file-o200k_base").write_text("damaged")
        assert find_encoding({"TIKTOKEN_CACHE_DIR": str(folder)}) == "cl100k_base"

    def test_only_the_folder_in_which_tiktoken_looks_counts(
        self, folder: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
        assert find_encoding({"DATA_GYM_CACHE_DIR": str(folder)}) == "o200k_base"
        both = {"TIKTOKEN_CACHE_DIR": elsewhere, "DATA_GYM_CACHE_DIR": str(folder)}
        assert find_encoding(both) is None

    def test_an_empty_folder_name_switches_the_cache_of_tiktoken_off(self, folder: Path) -> None:
        environ = {"TIKTOKEN_CACHE_DIR": "", "DATA_GYM_CACHE_DIR": str(folder)}
        assert find_encoding(environ) is None

    def test_without_an_encoding_sizes_are_estimated(self, tmp_path: Path) -> None:
        counter = load_counter({"TIKTOKEN_CACHE_DIR": str(tmp_path)})
        assert counter.name == "estimate"
        assert counter.text("hello") == estimate_text("hello")

    def test_an_encoding_that_does_not_load_is_replaced_by_the_estimate(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        import tiktoken

        def fail(name: str) -> None:
            raise ValueError(f"no {name}")

        monkeypatch.setattr(tiktoken, "get_encoding", fail)
        counter = load_counter({"TIKTOKEN_CACHE_DIR": str(folder)})
        assert counter.name == "estimate"
        assert "no o200k_base" in caplog.text

    def test_an_encoding_that_loads_counts_exactly(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import tiktoken

        class Bytes:
            def encode(self, text: str, *, disallowed_special: Any) -> bytes:
                assert disallowed_special == (), "text such as <|endoftext|> is text here"
                return text.encode()

        monkeypatch.setattr(tiktoken, "get_encoding", lambda name: Bytes())
        counter = load_counter({"TIKTOKEN_CACHE_DIR": str(folder)})
        assert (counter.name, counter.text("<|endoftext|>")) == ("o200k_base", 13)


def test_a_text_far_larger_than_any_window_is_judged_by_samples() -> None:
    passage = "The staging database listens on port 5437. 预发布数据库。\n" * 2_000
    huge = passage * 20
    assert len(huge) > 1_000_000
    assert estimate_text(huge) == pytest.approx(20 * estimate_text(passage), rel=0.03)
