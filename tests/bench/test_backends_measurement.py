"""bench.backends: the same texts at each run, a row for each backend, and a reason where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.backends.__main__ import main
from bench.backends.measure import ALL
from bench.backends.sizes import disk_of, percentile_ms
from bench.backends.texts import entries_of, questions_about, write_notes
from click.testing import CliRunner

CONVERSATION = [
    {
        "sample_id": "one",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I planted a walnut tree."},
                {"speaker": "Ann", "dia_id": "D1:2", "text": "The harbour was foggy."},
            ],
        },
        "qa": [{"question": "Which tree did Ann plant?", "evidence": ["D1:1"], "category": 4}],
    }
]


def measured(tmp_path: Path, *arguments: str) -> tuple[list[dict], str]:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(main, [*arguments, "--json", str(out)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(out.read_text()), result.output


def test_entries_are_the_same_at_each_run_and_all_different():
    entries = entries_of(500)
    assert entries == entries_of(500)
    assert len(set(entries)) == 500
    assert {len(entry.split()) for entry in entries} == {14}


def test_questions_have_words_of_their_entry_without_its_number():
    entries = entries_of(50)
    questions = list(questions_about(entries, 20))
    assert len(questions) == 20
    for question, entry in questions:
        assert set(question.split()) <= set(entry.split()[1:])
        assert entry in entries


def test_notes_have_an_entry_a_line(tmp_path):
    entries = entries_of(450)
    write_notes(tmp_path, entries)
    files = sorted(tmp_path.rglob("*.md"))
    assert len(files) == 3
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert lines == [f"- {entry}" for entry in entries]


def test_what_is_left_out_of_a_folder_is_not_counted(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"x" * 10)
    (tmp_path / "b").write_bytes(b"x" * 5)
    assert (disk_of(tmp_path), disk_of(tmp_path, without=tmp_path / "in")) == (15, 5)


def test_percentiles_are_times_that_were_measured():
    seconds = [number / 1000 for number in range(1, 101)]
    assert (percentile_ms(seconds, 0.5), percentile_ms(seconds, 0.99)) == (51, 100)
    assert percentile_ms([0.004], 0.99) == 4


def test_the_command_measures_what_is_there_and_says_why_the_rest_is_not(tmp_path):
    data = tmp_path / "data.json"
    data.write_text(json.dumps(CONVERSATION))
    arguments = ("--sizes", "30", "--backends", "memory-core,mem0", "--data", str(data))
    (core, mem0), printed = measured(tmp_path, *arguments)
    assert (core["backend"], core["size"], core["recall"]) == ("memory-core", 30, 1)
    assert core["found"] == 1
    assert 0 < core["searchP50Ms"] <= core["searchP99Ms"]
    assert core["insertsPerSecond"] > 0
    assert core["singleInsertsPerSecond"] > 0
    assert core["diskBytes"] > 0
    assert core["residentBytes"] > 1_000_000
    assert (mem0["backend"], mem0["size"]) == ("mem0", 30)
    if "absent" in mem0:
        assert "pip install" in mem0["absent"]
        assert "absent" in printed


def test_what_takes_too_long_is_a_reason(tmp_path, monkeypatch):
    (row,), _ = measured(
        tmp_path, "--sizes", "5000", "--backends", "memory-core", "--patience", "1"
    )
    assert "took longer than 1 s" in row["absent"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "many"], "sizes are numbers"),
        (["--sizes", "0"], "1 or more"),
        (["--backends", "memory-cor"], "memory-core"),
    ],
)
def test_a_wrong_option_is_refused(arguments, said):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.slow
def test_all_backends_stand_in_one_table(tmp_path):
    rows, _ = measured(tmp_path, "--sizes", "200")
    assert [row["backend"] for row in rows] == list(ALL)
    for row in rows[:3]:
        assert row.get("absent") is None
        assert row["found"] > 0.9
