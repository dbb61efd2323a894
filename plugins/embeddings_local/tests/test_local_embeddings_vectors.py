"""What the vectors of the provider ``local`` are, and what they say of texts."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

import numpy as np
import pytest

from hermitcrab_embeddings_local.encoders import SentenceEncoder, StaticVectors, shared
from hermitcrab_embeddings_local.models import ENCODER_DIMS, MODELS
from hermitcrab_embeddings_local.provider import BATCH_TEXTS, MAX_CHARACTERS, LocalEmbeddings

NOTES = (
    "Maria is allergic to penicillin.",
    "The deployment script lives in the tools folder.",
    "We meet every Tuesday morning at nine.",
    "她对青霉素过敏。",
    "部署脚本放在工具目录里。",
    "我们每周二早上九点开会。",
    "彼はエビとカニのアレルギーがある。",
    "火曜日の九時に歯の検診。",
    "그는 새우 알레르기가 있다.",
    "화요일 아홉 시에 이 검진.",
    "Двухколёсник стоит в подвале.",
)
#: What is asked, and the notes that answer it, in whichever language the multilingual encoder knows.
QUESTIONS = {
    "Which medicine must she not take?": {0},
    "Where is the program for releases?": {1},
    "她不能吃哪种药？": {3},
    "发布用的程序在哪儿？": {4},
    "食べてはいけないものは？": {6, 8},
    "歯医者はいつ？": {7, 9},
    "먹으면 안 되는 음식은?": {6, 8},
    "치과는 언제 가?": {7, 9},
    "Где мой велосипед?": {10},
}


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.dot(one, other))


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_question_in_other_words_finds_the_note_that_answers_it(
    local: LocalEmbeddings, question: str
) -> None:
    notes = await local.embed_documents(NOTES)
    asked = await local.embed_query(question)
    assert int(np.argmax([cosine(asked, note) for note in notes])) in QUESTIONS[question]


@pytest.mark.parametrize("name", MODELS)
async def test_a_vector_has_the_size_and_length_that_the_contract_promises(
    loaded: dict[str, LocalEmbeddings], name: str
) -> None:
    provider = loaded[name]
    for vector in await provider.embed_documents(
        ("Hello there", "你好", "React 的 useEffect", "7")
    ):
        assert len(vector) == provider.dims
        assert hypot(*vector) == pytest.approx(1, abs=1e-6)
        assert all(number == np.float32(number) for number in vector)


async def test_texts_that_share_no_script_neither_attract_nor_repel_each_other(
    local: LocalEmbeddings,
) -> None:
    english, chinese = await local.embed_documents(("the red bicycle", "红色的自行车"))
    assert cosine(english, chinese) == 0


async def test_a_text_in_two_scripts_is_near_to_both_of_its_halves(local: LocalEmbeddings) -> None:
    mixed, english, chinese = await local.embed_documents(
        (
            "The red bicycle is in the cellar now, 红色的自行车",
            "The red bicycle is in the cellar now",
            "红色的自行车",
        )
    )
    assert cosine(mixed, english) > 0.3
    assert cosine(mixed, chinese) > 0.3


async def test_with_the_multilingual_model_a_question_finds_a_note_in_another_language(
    loaded: dict[str, LocalEmbeddings],
) -> None:
    multilingual = loaded["multilingual"]
    notes = await multilingual.embed_documents(
        ("他对虾过敏。", "牙医约在星期二。", "车停在地下室。")
    )
    asked = await multilingual.embed_query("When is the dentist appointment?")
    assert np.argmax([cosine(asked, note) for note in notes]) == 1


@pytest.mark.parametrize("name", MODELS)
async def test_a_text_has_the_same_vector_alone_in_a_batch_and_as_a_query(
    loaded: dict[str, LocalEmbeddings], name: str
) -> None:
    provider = loaded[name]
    texts = [f"{note} {number}" for number in range(BATCH_TEXTS // 4) for note in NOTES]
    together = await provider.embed_documents(texts)
    assert len(together) == len(texts) > BATCH_TEXTS
    for row in (0, 3, BATCH_TEXTS, len(texts) - 1):
        assert await provider.embed_query(texts[row]) == pytest.approx(together[row], abs=2e-6)


async def test_weights_read_anew_give_the_same_vectors() -> None:
    """Vectors that another process stored can be compared. Nothing of it touches the network."""
    for encoder in StaticVectors, SentenceEncoder:
        assert np.array_equal(encoder().encode(NOTES), shared(encoder).encode(NOTES))


@pytest.mark.parametrize("blank", ["", " ", "\n\t \u3000", "\x1c"])
@pytest.mark.parametrize("name", MODELS)
async def test_a_blank_text_has_a_vector_of_zeros(
    loaded: dict[str, LocalEmbeddings], name: str, blank: str
) -> None:
    assert await loaded[name].embed_query(blank) == [0.0] * loaded[name].dims


@pytest.mark.parametrize(
    "text",
    [
        "\ud83d",
        "a\udfffb",
        "😀",
        "👩‍👩‍👧",
        "\x00",
        "<s>",
        "1234",
        "…—!",
        "π",
        "中\ud83d文",
    ],
)
@pytest.mark.parametrize("name", MODELS)
async def test_an_odd_text_has_a_finite_vector(
    loaded: dict[str, LocalEmbeddings], name: str, text: str
) -> None:
    """Notes 1: a lone surrogate cannot be encoded, and must not stop a batch."""
    before, odd, after = await loaded[name].embed_documents(("before", text, "after"))
    assert hypot(*odd) == pytest.approx(1, abs=1e-6) or not any(odd)
    assert hypot(*before) == pytest.approx(1, abs=1e-6) == hypot(*after)


async def test_what_looks_like_a_mark_of_the_tokenizer_is_no_part_of_a_text(
    local: LocalEmbeddings,
) -> None:
    with_mark, without = await local.embed_documents(("</s>bicycle", "bicycle"))
    assert cosine(with_mark, without) > 0.9


async def test_a_huge_text_is_embedded_by_what_it_begins_with(local: LocalEmbeddings) -> None:
    for note in NOTES[0], NOTES[3]:
        begins = (note * MAX_CHARACTERS)[:MAX_CHARACTERS]
        huge, first = await local.embed_documents((begins + "x" * 1_000_000, begins))
        assert huge == pytest.approx(first, abs=1e-6)
        assert cosine(huge, await local.embed_query(note)) > 0.7


async def test_one_text_in_two_unicode_forms_has_one_vector(local: LocalEmbeddings) -> None:
    """memory 11: names and words arrive composed and decomposed."""
    composed, decomposed, wide = await local.embed_documents(
        ("Caf\u00e9 1", "Cafe\u0301 1", "Ｃａｆé １")
    )
    assert composed == decomposed == wide


async def test_the_static_vectors_take_the_first_half_and_the_sentence_encoder_the_second(
    local: LocalEmbeddings,
) -> None:
    english, chinese = await local.embed_documents(("a red bicycle", "红色的自行车"))
    assert not any(english[ENCODER_DIMS:])
    assert not any(chinese[:ENCODER_DIMS])


async def test_no_texts_have_no_vectors(local: LocalEmbeddings) -> None:
    assert await local.embed_documents(()) == []
