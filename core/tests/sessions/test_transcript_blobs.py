"""What is taken out of a message and what comes back (design 5)."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.convert_openai import to_openai
from hermitcrab.messages.text import text_of
from hermitcrab.messages.tokens import IMAGE_TOKENS, MESSAGE_OVERHEAD, TokenCounter
from hermitcrab.sessions.blobs.blobs import (
    LARGE_RESULT,
    BlobReference,
    externalise,
    has_references,
    references_in,
    restore,
)

PICTURE = base64.b64encode(bytes(range(256)) * 3).decode()
IMAGE: Any = {"type": "image", "mimeType": "image/png", "data": PICTURE}
LONG = "a line of output\n" * 70_000

any_text = st.text(st.characters(), max_size=20)
sizes = st.integers(-1, 3) | st.just(768) | st.none() | st.booleans()
hashes = st.sampled_from(
    ["a" * 64, "../../../../etc/passwd", "A" * 64, hashlib.sha256(b"").hexdigest(), "", "a" * 63]
)
foreign_references = st.fixed_dictionaries(
    {},
    optional={
        "sha256": hashes | st.none() | st.lists(st.none(), max_size=1),
        "bytes": sizes,
        "encoding": st.sampled_from(["base64", "utf-8", "gzip", None, ["utf-8"]]),
        "field": st.sampled_from(["data", "text", "content", "output", "type", None, {}]),
        "extra": any_text,
    },
)
blobs = st.recursive(
    foreign_references | any_text | st.none(),
    lambda inner: st.fixed_dictionaries({"literal": inner}, optional={"more": inner}),
    max_leaves=3,
)
#: Canonical base64, base64 that is not, and what only looks like it.
data = st.binary(max_size=400).map(lambda raw: base64.b64encode(raw).decode()) | st.sampled_from(
    [
        PICTURE,
        PICTURE + "=",
        PICTURE[:-1],
        PICTURE + "\n",
        "é" * 300,
        "\ud83d" * 300,
        "A" * 400 + "AB==",
    ]
)
texts = any_text | st.sampled_from([LONG, "\ud83d" + LONG, "語" * 400_000, "x" * LARGE_RESULT])
extra: Any = {"blob": blobs, "futureField": any_text}
holders = st.fixed_dictionaries(
    {}, optional={"data": data, "file_data": data, "url": data, "media_type": any_text, **extra}
)
parts = (
    st.fixed_dictionaries({"type": st.just("text"), "text": texts | st.none()}, optional=extra)
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["image", "audio", "document", "input_audio", "image_url"])},
        optional={
            "data": data | st.integers(),
            "url": data.map(lambda each: f"data:image/png;base64,{each}"),
            "image_url": data.map(lambda each: f"data:image/png;base64,{each}") | holders,
            "source": holders | any_text,
            "input_audio": holders,
            "file": holders,
            **extra,
        },
    )
    | st.fixed_dictionaries({"type": st.sampled_from(["thinking", "toolCall"])}, optional=extra)
    | st.sampled_from([None, 1, "text", {"type": 1, "blob": {}}, {"blob": {"literal": 1}}])
)
messages: Any = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "bashExecution", ["user"]])},
    optional={
        "content": texts | st.lists(parts, max_size=3) | st.none(),
        "output": texts | st.integers(),
        "toolCallId": any_text,
        **extra,
    },
)


def reference_to(content: bytes, field: str = "data", encoding: Any = "base64") -> Any:
    sha256 = hashlib.sha256(content).hexdigest()
    return {"sha256": sha256, "bytes": len(content), "encoding": encoding, "field": field}


def load_from(kept: dict[str, bytes]) -> Any:
    return lambda reference: kept[reference.sha256]


def missing(reference: BlobReference) -> bytes:
    raise TranscriptError("its file is missing")


class TestLaws:
    @settings(max_examples=200, deadline=None)
    @given(messages)
    @example({"role": "user", "content": [{**IMAGE, "blob": reference_to(b"")}]})
    @example({"role": "user", "content": [{"type": "image", "blob": {"literal": {"literal": 1}}}]})
    @example({"role": "user", "content": [{"type": "image", "data": "A" * 400 + "AB=="}]})
    @example({"role": "toolResult", "content": LONG, "blob": reference_to(b"", "content", "utf-8")})
    def test_what_was_taken_out_comes_back_exactly(self, message: Any) -> None:
        before = json.dumps(message)
        stored, kept = externalise(message)
        assert json.dumps(message) == before, "the message that was given has changed"
        restored: Any = restore(stored, load_from(kept))
        assert json.dumps(restored) == before, "its fields, their order and their values"
        assert restored == message
        if stored is message:
            assert kept == {}
        for sha256, content in kept.items():
            assert hashlib.sha256(content).hexdigest() == sha256
        # Nothing that the message itself says can be taken for a reference.
        assert {each.sha256 for each in references_in(stored)} == kept.keys()
        assert not kept or has_references(stored)

    @settings(max_examples=100, deadline=None)
    @given(messages)
    def test_a_message_whose_blobs_are_gone_is_still_a_message(self, message: Any) -> None:
        stored, kept = externalise(message)
        faults: list[str] = []
        restored = restore(stored, missing, report=faults.append)
        assert bool(faults) == bool(kept)
        assert [*references_in(restored)] == [*references_in(message)]
        assert isinstance(TokenCounter().count(restored), int)

    @settings(max_examples=100, deadline=None)
    @given(messages)
    def test_references_that_are_ours_are_stored_again_as_they_are(self, message: Any) -> None:
        stored, _ = externalise(message)
        again, kept = externalise(stored, is_kept=lambda reference: True)
        assert kept == {}
        if references := [*references_in(stored)]:
            assert [*references_in(again)] == references


class TestMedia:
    def test_an_image_leaves_its_bytes_and_keeps_its_place(self) -> None:
        message = user([{"type": "text", "text": "see"}, IMAGE], timestamp=1)
        stored, kept = externalise(message)
        raw = base64.b64decode(PICTURE)
        assert stored["content"][1] == {
            "type": "image",
            "mimeType": "image/png",
            "blob": reference_to(raw),
        }
        assert kept == {hashlib.sha256(raw).hexdigest(): raw}

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "input_audio", "input_audio": {"format": "wav", "data": PICTURE}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:x;base64,{PICTURE}"},
            },
            {"type": "document", "source": {"type": "base64", "data": PICTURE}},
            {"type": "image", "source": {"type": "base64", "data": PICTURE}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
            {"type": "image_url", "image_url": f"data:image/png;base64,{PICTURE}"},
        ],
        ids=lambda part: "-".join(part),
    )
    def test_media_in_the_shapes_of_providers_leave_too(self, part: Any) -> None:
        stored, kept = externalise({"role": "user", "content": [part]})
        assert len(kept) == 1
        assert PICTURE not in json.dumps(stored)
        assert stored["content"][0]["type"] == part["type"]  # type: ignore[index]

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "url": "https://example.org/" + "x" * 400},
            {"type": "thinking", "thinking": "", "data": PICTURE},
            {"type": "toolCall", "id": "1", "name": "show", "arguments": {"data": PICTURE}},
        ],
        ids=["smaller than a reference", "a link", "thinking", "arguments"],
    )
    def test_what_is_small_or_no_media_stays(self, part: Any) -> None:
        message: Any = {"role": "user", "content": [part]}
        assert externalise(message) == (message, {})

    def test_one_picture_shown_twice_is_kept_once(self) -> None:
        _, kept = externalise(user([IMAGE, IMAGE]))
        assert len(kept) == 1

    def test_a_missing_image_becomes_a_sentence_in_its_place(self) -> None:
        stored, _ = externalise(user([IMAGE, {"type": "text", "text": "what is it?"}]))
        faults: list[str] = []
        restored = restore(stored, missing, report=faults.append)
        note = "[image, 768 bytes: it stood here and cannot be read: its file is missing]"
        assert text_of(restored) == f"{note}\nwhat is it?"
        assert faults == ["its file is missing"]


class TestLargeResults:
    def test_a_reader_who_knows_nothing_of_blobs_sees_head_and_tail(self) -> None:
        text = "first" + "x" * 3_000_000 + "last"
        stored, kept = externalise(tool_result("call_1", "run", text))
        shown = text_of(stored)
        assert shown.startswith("firstx")
        assert shown.endswith("xlast")
        assert "2,990,009 characters are left out here" in shown
        assert "the whole text of 3,000,009 characters" in shown
        assert len(json.dumps(stored)) < 11_000
        assert [*kept.values()] == [text.encode()]
        [sent] = to_openai([stored])
        assert sent["content"] == shown

    @pytest.mark.parametrize(
        ("length", "leaves"), [(LARGE_RESULT, False), (LARGE_RESULT + 1, True)]
    )
    def test_the_limit_is_a_mebibyte_of_utf8(self, length: int, leaves: bool) -> None:
        ascii_only = tool_result("call_1", "run", "x" * length)
        two_bytes_each = tool_result("call_1", "run", "é" * ((length + 1) // 2))
        assert bool(externalise(ascii_only)[1]) is leaves
        assert bool(externalise(two_bytes_each)[1]) is leaves

    def test_several_texts_count_together_and_short_ones_stay(self) -> None:
        contents = ["x" * 600_000, "short", "y" * 600_000]
        stored, kept = externalise(
            tool_result("call_1", "run", [{"type": "text", "text": text} for text in contents])
        )
        assert len(kept) == 2
        assert [("blob" in part) for part in stored["content"]] == [True, False, True]  # type: ignore[operator]

    def test_the_output_of_a_shell_is_a_result_too(self) -> None:
        message: Any = {"role": "bashExecution", "command": "seq", "output": LONG}
        stored, kept = externalise(message)
        assert len(stored["output"]) < 11_000
        assert restore(stored, load_from(kept)) == message

    @pytest.mark.parametrize("message", [user(LONG), assistant(LONG)], ids=["user", "assistant"])
    def test_what_people_and_models_say_stays_whole(self, message: Any) -> None:
        assert externalise(message) == (message, {})

    def test_without_texts_only_media_come_back(self) -> None:
        stored, kept = externalise(
            tool_result("call_1", "run", [{"type": "text", "text": LONG}, IMAGE])
        )
        shown = restore(stored, load_from(kept), texts=False)
        assert shown["content"][1] == IMAGE
        assert shown["content"][0] == stored["content"][0]

    def test_a_missing_text_keeps_head_and_tail_and_says_what_is_wrong(self) -> None:
        stored, _ = externalise(tool_result("call_1", "run", LONG))
        shown = text_of(restore(stored, missing))
        assert shown.startswith(text_of(stored))
        assert shown.endswith("[What is left out above cannot be read: its file is missing]")


class TestTokens:
    @pytest.mark.parametrize(
        "part",
        [
            IMAGE,
            {"type": "input_audio", "input_audio": {"format": "wav", "data": PICTURE * 500}},
            {"type": "document", "source": {"type": "base64", "data": PICTURE * 900}},
        ],
        ids=["image", "audio", "document"],
    )
    def test_media_take_what_the_model_will_get_wherever_they_are_kept(self, part: Any) -> None:
        message = user([part])
        stored, kept = externalise(message)
        assert kept
        tokens = TokenCounter().count(stored)
        assert tokens == TokenCounter().count(message)
        assert tokens >= MESSAGE_OVERHEAD + IMAGE_TOKENS

    def test_a_sound_of_a_megabyte_does_not_fill_every_window(self) -> None:
        sound = {"format": "wav", "data": base64.b64encode(bytes(1_000_000)).decode()}
        message: Any = {"role": "user", "content": [{"type": "input_audio", "input_audio": sound}]}
        assert TokenCounter().count(message) == MESSAGE_OVERHEAD + 10_000


def test_an_ordinary_message_is_the_same_object() -> None:
    message = tool_result("call_1", "run", "x" * 2_000)
    assert externalise(message)[0] is message
    assert restore(message, missing) is message
