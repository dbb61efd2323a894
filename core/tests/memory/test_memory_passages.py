"""Passages: the small units that keyword search ranks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.files import passages_of


def test_list_items_are_passages_that_know_their_headings():
    text = "# Project\n## Staging\n- port 5433\n  on db1\n- user app\n## Other\n1. x\n"
    passages = passages_of(text)
    item = next(passage for passage in passages if "5433" in passage.text)
    assert item.text == "- port 5433\n  on db1"
    assert (item.start_line, item.end_line) == (3, 4)
    assert item.headings == ("Project", "Staging")
    assert passages[-1].headings == ("Project", "Other")


def test_wrapped_prose_is_one_passage_and_blank_lines_end_it():
    passages = passages_of("We chose\nport 5433.\n\nAnother thought.")
    assert [(passage.start_line, passage.end_line) for passage in passages] == [(1, 2), (4, 4)]


def test_a_long_line_is_cut_after_sentences():
    line = "This is a sentence of some length. " * 30
    passages = passages_of(line)
    assert "".join(passage.text for passage in passages) == line
    assert all(passage.text.endswith(". ") for passage in passages)
    assert all(len(passage.text) <= 400 for passage in passages)


@given(st.lists(st.text(st.sampled_from("ab -#1.|。\t"), max_size=900), max_size=12))
def test_every_line_that_is_not_blank_is_in_a_passage(lines: list[str]):
    passages = passages_of("\n".join(lines))
    for number, line in enumerate(lines, start=1):
        if line.strip():
            having = [p.text for p in passages if p.start_line <= number <= p.end_line]
            text = "".join(having)
            assert all(text.count(letter) >= line.count(letter) for letter in set("ab#1|。"))
    assert all(passage.text.strip() for passage in passages)


def test_what_each_one_says_is_a_unit_where_the_talk_is_long():
    lines = [f"{name}: {'word ' * 12}{name}." for name in ("Ann", "Bo Li", "Ann", "**Cy**") * 3]
    assert [each.text for each in passages_of("\n".join(lines))] == lines


def test_an_exchange_that_fits_is_one_unit():
    text = "用户：我养了一只猫\nAI：它叫什么？\n\n用户：团子\nAI：真好听"
    assert [each.text for each in passages_of(text)] == text.split("\n\n")


def test_wrapped_prose_is_not_taken_for_speech():
    lines = [
        f"The harbour was foggy and the boats stayed in, line {n} of the log" for n in range(12)
    ]
    units = passages_of("\n".join(lines))
    assert all("\n" in unit.text for unit in units[:-1])
    assert "\n".join(unit.text for unit in units) == "\n".join(lines)
