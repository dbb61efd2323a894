from __future__ import annotations

from hermitcrab.compaction.identifiers import select_identifiers
from hermitcrab.messages.tokens import TokenCounter


def test_selection_is_newest_first_and_within_its_limits() -> None:
    newest_first = [f"/srv/data/file_{number}.txt" for number in range(100)]
    counter = TokenCounter()
    chosen = select_identifiers(
        newest_first, ["deadbeef01"], limit=100, characters=4_000, counter=counter
    )
    assert 3 < len(chosen.required) < 20
    assert list(chosen.required) == newest_first[: len(chosen.required)]
    assert counter.text("".join(f"- {one}\n" for one in chosen.required)) <= 100
    assert set(chosen.others) == {*newest_first, "deadbeef01"} - set(chosen.required)


def test_selection_counts_characters_too() -> None:
    """Tokens alone would let the identifiers of a large window fill the 16,000 characters of a summary."""
    newest_first = [f"/srv/data/file_{number}.txt" for number in range(1_000)]
    chosen = select_identifiers(
        newest_first, (), limit=9_000, characters=4_000, counter=TokenCounter()
    )
    assert 3_500 < len("".join(f"- {one}\n" for one in chosen.required)) <= 4_000


def test_an_identifier_that_is_too_large_does_not_keep_out_older_ones() -> None:
    large = "https://example.org/" + "x/y" * 150
    chosen = select_identifiers(
        [large, "main.py"], (), limit=40, characters=4_000, counter=TokenCounter()
    )
    assert (chosen.required, chosen.others) == (("main.py",), (large,))


def test_selection_takes_hexadecimal_in_either_case_as_one() -> None:
    chosen = select_identifiers(
        ["deadbeef01", "DEADBEEF01"], (), limit=100, characters=4_000, counter=TokenCounter()
    )
    assert (chosen.required, chosen.others) == (("deadbeef01",), ())
