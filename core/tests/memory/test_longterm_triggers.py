"""Which texts are worth keeping, and what they are about (memory 7.5)."""

from __future__ import annotations

import pytest

from hermitcrab.memory.longterm.triggers import guessed_category, has_trigger, is_long_enough


@pytest.mark.parametrize(
    "text",
    [
        "Remember that the port is 5433.",
        "I prefer dark mode.",
        "I like long walks.",
        "I don't like meetings before ten.",
        "I hate cilantro",
        "I want to become a carpenter.",
        "My sister's name is Vera.",
        "Green is my favourite colour.",
        "Always answer in German.",
        "We never deploy on Fridays.",
        "Important: the key lies under the mat.",
        "From now on use metric units.",
        "We decided to use PostgreSQL.",
        "Could you remember that I'm allergic to nuts?",
        "My mail is ada@example.org",
        "Call +49 151 23456789 in an emergency.",
        "Zapamatuj si, že mám psa.",
        "Raději piju čaj.",
        "Radeji piju caj.",
        "Nechci žádné schůzky.",
        "Rozhodli jsme se pro Postgres.",
        "Budeme používat Docker.",
        "Můj pes je hnědý.",
        "记住我住在上海",
        "記住我住在台北",
        "我喜欢喝绿茶。",
        "我不喜歡咖啡",
        "我需要一张更大的桌子",
        "我的猫叫小白。",
        "以后都用中文回答",
        "我们决定用PostgreSQL",
        "我从不吃肉",
        "我还很喜欢读书",
        "我是程序员",
        "这件事很重要",
        "覚えておいて、会議は金曜日です",
        "忘れないでください",
        "緑茶が好きです。",
        "いつも日本語で答えてください",
        "これは重要です",
        "내 이름은 민수야 기억해 줘",
        "나는 녹차를 좋아해",
        "항상 한국어로 대답해 주세요",
        "이건 중요해",
    ],
)
def test_what_a_person_may_want_to_be_remembered_has_a_trigger(text):
    assert has_trigger(text)


@pytest.mark.parametrize(
    "text",
    [
        "What is the weather in Lisbon?",
        "Do you remember my name?",
        "Is my flight on time?",
        "我叫什么名字？",
        "The test always fails on CI.",
        "My build is broken",
        "I need you to fix the parser.",
        "It looks like rain.",
        "Translate this into French.",
        "这个测试总是失败",
        "我是说另一个文件",
        "我一直在考虑这个问题",
        "Thanks! If I need anything, I will ask.",
        "You can count on it, I'll always be there.",
        "Thanks, that is great!",
    ],
)
def test_questions_requests_and_small_talk_have_none(text):
    """Broad words such as "always" made most messages memories."""
    assert not has_trigger(text)


def test_custom_triggers_are_literal_and_know_no_case():
    assert has_trigger("NB. the key is red", ["nb."])
    assert not has_trigger("NBx the key", ["nb."])
    assert not has_trigger("nothing at all", ["", "  "])
    assert has_trigger("Wichtig? NB. ja?", ["NB."])


def test_a_few_cjk_characters_are_enough_and_other_texts_need_ten():
    assert is_long_enough("我爱你")
    assert not is_long_enough("I like it"[:9])
    assert is_long_enough("I like tea")
    assert is_long_enough("ada@example.org")
    assert not is_long_enough("Remember this!")
    assert not is_long_enough("remember " * 2)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("I prefer tea and my name is Ada.", "preference"),
        ("The user dislikes cilantro.", "preference"),
        ("我喜欢绿茶", "preference"),
        ("나는 녹차를 좋아해", "preference"),
        ("We decided to use PostgreSQL.", "decision"),
        ("我们决定用PostgreSQL", "decision"),
        ("My dog is called Rex.", "entity"),
        ("Write to ada@example.org", "entity"),
        ("+49 151 23456789", "entity"),
        ("我叫小明", "entity"),
        ("The office is in Brno.", "fact"),
        ("I live in Lisbon, she has two cats", "fact"),
        ("数据库在北京", "fact"),
        ("Remember this list: mist, thistle", "other"),
        ("Note down: history lesson", "other"),
    ],
)
def test_the_category_goes_by_whole_words(text, category):
    """7.5: as a part of other words, "is" made most texts facts."""
    assert guessed_category(text) == category
