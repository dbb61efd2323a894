"""Which encoder a text is for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab_embeddings_local.scripts import multilingual_share, other_share


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        "1234 !?",
        "Où est l'été, señor Łukasz? Tiếng Việt",
        "😀 🎉",
        "a" * 400 + "π",
    ],
)
def test_a_text_in_latin_script_is_for_the_static_vectors_alone(text: str) -> None:
    assert multilingual_share(text) == 0


@pytest.mark.parametrize(
    "text",
    [
        "你好",
        "はい",
        "네",
        "привет",
        "שלום",
        "สวัสดี",
        "用 Python 写的部署脚本在工具目录里",
        "これは Python です",
    ],
)
def test_a_text_mostly_in_another_script_is_for_the_multilingual_encoder_alone(text: str) -> None:
    assert multilingual_share(text) == 1


def test_a_text_of_both_kinds_is_for_both() -> None:
    assert 0 < multilingual_share("The deployment script 部署脚本 lives in tools") < 1


def test_more_of_another_script_never_means_less_of_the_multilingual_encoder() -> None:
    shares = [multilingual_share("word " * 8 + "词" * count) for count in range(20)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1


@given(st.text())
def test_a_share_is_a_share_whatever_the_text(text: str) -> None:
    assert 0 <= other_share(text) <= 1
    assert 0 <= multilingual_share(text) <= 1
