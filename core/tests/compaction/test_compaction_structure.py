from __future__ import annotations

from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.compaction.structure import (
    ASK_CHARACTERS,
    ASKS,
    CONSTRAINTS,
    DECISIONS,
    HEADINGS,
    IDENTIFIERS,
    NO_IDENTIFIERS,
    NOTHING,
    OPEN_ITEMS,
    TRUNCATED,
    SummaryLimits,
    cut_graphemes,
    finish_summary,
    has_all_headings,
    headings_in,
    render,
    split_sections,
    split_tail,
    with_headings,
)
from hermitcrab.messages.identifiers import REDACTED, missing_identifiers
from hermitcrab.messages.tokens import TokenCounter

ROOMY = SummaryLimits(tokens=4_000)


def finish(body: str, **options: Any) -> str:
    given_options: dict[str, Any] = {
        "required": (),
        "latest_ask": None,
        "tail": "",
        "limits": ROOMY,
        "counter": TokenCounter(),
        "keep_credentials": False,
    }
    return finish_summary(with_headings(body), **{**given_options, **options})


def test_a_complete_summary_stays_as_it_is(notes: str) -> None:
    assert split_sections(finish(notes)) == split_sections(notes)
    assert has_all_headings(finish(notes))


@pytest.mark.parametrize("body", ["", "   \n", "Just prose.", "## Something else\n- text"])
def test_an_answer_without_headings_becomes_the_first_section(body: str) -> None:
    sections = with_headings(body)
    assert tuple(sections) == HEADINGS
    assert sections[DECISIONS] == (body.strip() or NOTHING)
    assert sections[ASKS] == NOTHING
    assert sections[IDENTIFIERS] == NO_IDENTIFIERS


def test_headings_in_another_order_are_put_in_order() -> None:
    text = finish(f"{IDENTIFIERS}\n- main.py\n{ASKS}\n- Fix it.\n{DECISIONS}\n- Yes.")
    assert has_all_headings(text)
    assert split_sections(text)[ASKS] == "- Fix it."
    assert split_sections(text)[IDENTIFIERS] == "- main.py"


def test_repeated_headings_are_joined() -> None:
    text = finish(f"{DECISIONS}\n- One.\n{OPEN_ITEMS}\n- Two.\n{DECISIONS}\n- Three.")
    assert has_all_headings(text)
    assert split_sections(text)[DECISIONS] == "- One.\n- Three."


def test_prose_before_the_headings_is_kept(notes: str) -> None:
    text = finish(f"Here are the notes you asked for.\n\n{notes}")
    assert split_sections(text)[DECISIONS].startswith("Here are the notes")
    assert has_all_headings(text)


@pytest.mark.parametrize(
    "heading",
    [
        "# Decisions",
        "### decisions:",
        "**Decisions**",
        "## Decisions ##",
        "##Decisions",
        "**Decisions:**",
    ],
)
def test_a_heading_that_is_marked_up_otherwise_is_still_one(heading: str) -> None:
    assert split_sections(f"{heading}\n- Yes.") == {DECISIONS: "- Yes."}


@pytest.mark.parametrize(
    "line", ["- Decisions", "Decisions", "## Decisions of the council", "> ## Decisions"]
)
def test_a_line_that_only_mentions_a_heading_is_none(line: str) -> None:
    assert split_sections(f"{line}\n- Yes.") == {}


def test_line_separators_of_other_alphabets_do_not_double_a_heading() -> None:
    assert has_all_headings(finish(f"prose\u2028{DECISIONS}\x85- Yes.\x0c{ASKS}\r- No."))


_LINES = st.one_of(
    st.sampled_from([*HEADINGS, "  ## Decisions  ", "# open todos", "", "None.", "- Use main.py"]),
    st.text(st.sampled_from("ab #*-\u2028\r\x0b中👍🏽é:"), max_size=300),
)
_BODIES = st.lists(_LINES, max_size=30).map("\n".join)
_REQUIRED = st.lists(
    st.sampled_from(
        [f"/srv/data/file_{n}.txt" for n in range(20)]
        + [
            "550e8400-e29b-41d4-a716-446655440000",
            "deadbeef01",
            "localhost:8443",
            "main.py",
            "4815162342",
        ]
    ),
    unique=True,
    max_size=15,
)


@settings(max_examples=300, deadline=None)
@given(
    body=_BODIES,
    required=_REQUIRED,
    ask=st.none() | st.text(max_size=900),
    tail=st.text(st.sampled_from("ab \n#中/."), max_size=3_000),
    tokens=st.integers(20, 3_000),
    characters=st.integers(100, 8_000),
)
def test_the_final_text_has_everything_and_fits_whatever_the_model_said(
    body: str, required: list[str], ask: str | None, tail: str, tokens: int, characters: int
) -> None:
    """C52, C56: headings and identifiers are checked on the text that is stored."""
    limits = SummaryLimits(tokens=tokens, characters=characters)
    text = finish(body, required=required, latest_ask=ask, tail=tail, limits=limits)
    assert has_all_headings(text)
    assert missing_identifiers(text, required) == []
    lines = "\n".join(f"- {one}" for one in required) or NO_IDENTIFIERS
    smallest = render({**dict.fromkeys(HEADINGS, NOTHING), IDENTIFIERS: lines})
    counter = TokenCounter()
    if len(smallest) <= characters and counter.text(smallest) <= tokens:
        assert len(text) <= characters
        assert counter.text(text) <= tokens


def test_missing_identifiers_are_added() -> None:
    """C52: a summary of bare headings still keeps all identifiers."""
    required = [
        "550e8400-e29b-41d4-a716-446655440000",
        "/etc/hosts/x",
        "https://example.org/a",
        "8f3a9b2c1d",
    ]
    text = finish("\n".join(HEADINGS), required=required)
    assert split_sections(text)[IDENTIFIERS].splitlines() == [f"- {one}" for one in required]


def test_identifiers_that_stand_elsewhere_are_not_repeated() -> None:
    text = finish(f"{DECISIONS}\n- main.py holds it.", required=["main.py", "other.py"])
    assert split_sections(text)[IDENTIFIERS] == "- other.py"


def test_identifiers_at_the_end_of_a_text_that_is_too_long_survive() -> None:
    """C56: the audit ran before the cut, and what it had found was cut off."""
    required = [f"/srv/data/file_{number}.txt" for number in range(10)]
    body = (
        f"{DECISIONS}\n"
        + "- Something was decided.\n" * 2_000
        + f"{IDENTIFIERS}\n"
        + "\n".join(f"- {one}" for one in required)
    )
    text = finish(body, required=required, limits=SummaryLimits(tokens=600))
    assert missing_identifiers(text, required) == []
    assert TRUNCATED in text
    assert TokenCounter().text(text) <= 600


def test_identifiers_that_nobody_requires_give_way_before_the_sections(notes: str) -> None:
    invented = "\n".join(f"- /opt/lie/{number}.txt" for number in range(3_000))
    text = finish(f"{notes}\n{invented}", required=["main.py"], limits=SummaryLimits(tokens=600))
    sections = split_sections(text)
    assert sections[CONSTRAINTS] == "- Never push on Friday."
    assert sections[IDENTIFIERS].startswith("- main.py\n\n")
    assert "/opt/lie" not in text


def test_a_text_within_the_tokens_is_still_cut_to_the_characters() -> None:
    text = finish(f"{DECISIONS}\n" + "- word\n" * 10_000, limits=SummaryLimits(tokens=100_000))
    assert 12_000 < len(text) <= 16_000
    assert TRUNCATED in text


def test_a_long_section_does_not_take_the_room_of_short_ones() -> None:
    body = f"{DECISIONS}\n" + "- word word\n" * 5_000 + f"{CONSTRAINTS}\n- Never push on Friday."
    text = finish(body, limits=SummaryLimits(tokens=400))
    assert split_sections(text)[CONSTRAINTS] == "- Never push on Friday."


def test_a_long_tail_does_not_starve_the_sections(notes: str) -> None:
    tail = "**Turn Context (split turn):**\n" + "- it did one thing more\n" * 3_000
    text = finish(notes, tail=tail, limits=SummaryLimits(tokens=600))
    sections = split_sections(text)
    for heading, section in split_sections(notes).items():
        assert section in sections[heading]
    assert "**Turn Context (split turn):**" in text
    assert TokenCounter().text(text) <= 600


def test_a_long_tail_is_cut_to_the_characters_of_a_large_window_too(notes: str) -> None:
    """A third of 36,000 tokens is more than all of the 16,000 characters that a summary may have."""
    tail = "**Turn Context (split turn):**\n" + "- it did one thing more\n" * 3_000
    body = notes.replace("- Write the tests.", "- Write the tests.\n" * 700)
    text = finish(body, tail=tail, limits=SummaryLimits(tokens=36_000))
    assert "- it did one thing more" in text
    assert text.count("- Write the tests.") > 300
    assert len(text) <= 16_000


def test_the_latest_ask_stands_first_among_the_asks(notes: str) -> None:
    text = finish(notes, latest_ask="Rename the\n  module, please.")
    assert split_sections(text)[ASKS] == "- Rename the module, please.\n- Fix the login."


def test_an_ask_that_stands_there_is_not_repeated(notes: str) -> None:
    assert split_sections(finish(notes, latest_ask="Fix the login."))[ASKS] == "- Fix the login."


def test_a_long_ask_is_shortened() -> None:
    section = split_sections(finish("", latest_ask="please " * 1_000))[ASKS]
    assert section.startswith("- please please")
    assert section.endswith("…")
    assert len(section) <= ASK_CHARACTERS + 2


def test_credentials_leave_every_part_of_a_summary(notes: str) -> None:
    """C54"""
    secret = "sk-abcdefghijklmnop1234567890"
    body = notes.replace("8443.", f"8443, the key is {secret}.").replace(
        "- localhost:8443", f"- {secret}"
    )
    text = finish(body, latest_ask=f"Use {secret}", tail=f"with {secret}")
    assert secret not in text
    assert text.count(REDACTED) == 4


def test_credentials_stay_where_the_operator_wants_them(notes: str) -> None:
    secret = "sk-abcdefghijklmnop1234567890"
    assert secret in finish(notes, latest_ask=f"Use {secret}", keep_credentials=True)


@given(
    text=st.text(st.sampled_from("a中👍🏽\u200d👩👧é\u0301🇩🇪"), max_size=60),
    characters=st.integers(0, 60),
)
def test_a_cut_never_falls_inside_a_grapheme(text: str, characters: int) -> None:
    cut = cut_graphemes(text, characters)
    assert len(cut) <= characters
    graphemes = regex.findall(r"\X", text)
    assert cut == "".join(graphemes[: len(regex.findall(r"\X", cut))])


def test_headings_are_told_as_often_as_they_stand_there() -> None:
    text = "### decisions:\nx\n**Exact identifiers**\n## Decisions\nDecisions\n"
    assert headings_in(text) == [DECISIONS, IDENTIFIERS, DECISIONS]
    assert headings_in("No heading.") == []


@pytest.mark.parametrize(
    "tail",
    [
        "## Recent turns preserved verbatim\n- User: hi",
        "**Turn Context (split turn):**\n### Exact identifiers\n- /a/b.txt",
        "<read-files>\n/a/b.txt\n</read-files>",
    ],
)
def test_what_follows_the_sections_of_a_stored_summary_is_told_apart(notes: str, tail: str) -> None:
    body = finish(notes)
    assert split_tail(f"{body}\n\n{tail}") == (body, tail)
    assert split_tail(body) == (body, "")
    assert split_tail(tail) == (tail, "")


@given(
    st.text(st.sampled_from("ab \r\n\u0301\u200d👨👩🇩🇪👍🏽中é"), max_size=40), st.integers(0, 40)
)
def test_a_cut_ends_at_the_last_grapheme_that_fits(text: str, characters: int) -> None:
    cut = cut_graphemes(text, characters)
    whole = [match.end() for match in regex.finditer(r"\X", text)]
    assert len(cut) == max(end for end in (0, *whole) if end <= characters)
