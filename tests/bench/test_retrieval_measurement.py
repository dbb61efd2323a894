"""bench.retrieval: its two forms of data, the faults of LoCoMo's, and what it counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.retrieval.__main__ import main
from bench.retrieval.collections import UnknownFormError, evidence_ids, load_collections
from bench.retrieval.measure import share_found, tokens, within_budget
from click.testing import CliRunner

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
FLOORS = {
    "locomo-dev.json": (997, {"500": 0.780, "1000": 0.848, "2000": 0.894}),
    "zh-memory-dev.json": (78, {"500": 0.774, "1000": 0.857, "2000": 0.955}),
}


def spoken(*texts: str, session: int = 1) -> list[dict[str, str]]:
    return [
        {"speaker": "Ann", "dia_id": f"D{session}:{number}", "text": text}
        for number, text in enumerate(texts, start=1)
    ]


def locomo(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    conversation = {
        "speaker_a": "Ann",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": spoken("I planted a walnut tree.", "The harbour was foggy."),
        "session_2_date_time": "9:00 am on 9 May, 2023",
        "session_2": spoken("My brother repairs clocks.", session=2),
        "session_3_date_time": "9:00 am on 10 May, 2023",
    }
    return [{"sample_id": "one", "conversation": conversation, "qa": list(questions)}]


@pytest.fixture
def data(tmp_path: Path):
    def write(value: Any) -> Path:
        file = tmp_path / "data.json"
        file.write_text(json.dumps(value), encoding="utf-8")
        return file

    return write


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["D8:6; D9:17"], ["D8:6", "D9:17"]),
        (["D1:3 D2:4", "D1:3"], ["D1:3", "D2:4"]),
        (["D"], []),
        (["D:11:26"], []),
        (["D30:05"], ["D30:5"]),
        ("D1:3", ["D1:3"]),
        ([], []),
    ],
)
def test_ids_of_evidence_are_read_however_they_are_written(given: Any, expected: list[str]):
    assert evidence_ids(given) == expected


def test_a_session_is_a_file_with_its_date_and_an_utterance_a_line(data):
    asked = {"question": "Which tree?", "evidence": ["D1:1"], "category": 4}
    nowhere = {"question": "Who?", "evidence": ["D9:9"], "category": 5}
    none = {"question": "Why?", "evidence": [], "category": 1}
    (collection,) = load_collections(data(locomo(asked, nowhere, none)))
    assert sorted(collection.notes) == [
        "memory/2023-05-08-session-1.md",
        "memory/2023-05-09-session-2.md",
    ]
    assert "\nAnn: The harbour was foggy.\n" in collection.notes["memory/2023-05-08-session-1.md"]
    (question,) = collection.questions
    assert question.category == "single-hop"
    assert question.evidence == ("I planted a walnut tree.",)


def test_a_day_is_a_file_and_an_exchange_a_block(data):
    exchange = {"id": "2023-04-27#0", "query": "我养了一只猫", "response": "它叫什么？"}
    asked = {"question": "宠物？", "evidence": ["2023-04-27#0"], "kind": "given"}
    user = {"user": "某人", "history": {"2023-04-27": [exchange]}, "qa": [asked]}
    (collection,) = load_collections(data([user]))
    assert "用户：我养了一只猫\nAI：它叫什么？" in collection.notes["memory/2023-04-27.md"]
    assert collection.questions[0].evidence == ("我养了一只猫", "它叫什么？")


@pytest.mark.parametrize("value", [{}, [], [{"other": 1}], [1]])
def test_another_form_is_refused(data, value: Any):
    with pytest.raises(UnknownFormError):
        load_collections(data(value))


def test_evidence_counts_when_its_whole_text_is_shown():
    assert share_found(["a b", "c"], ["x a\n b y"]) == 0.5
    assert share_found(["a b"], ["a", "b"]) == 0


def test_a_budget_takes_whole_snippets_in_their_order():
    assert tokens("abcd端口") == 3
    assert within_budget(["a" * 40, "b" * 80, "c" * 4], 15) == ["a" * 40]


def test_the_command_writes_what_it_found(data, tmp_path: Path):
    out = tmp_path / "out.json"
    asked = {"question": "Which tree was planted?", "evidence": ["D1:1"], "category": 4}
    other = {"question": "Who repairs clocks?", "evidence": ["D2:1"], "category": 1}
    arguments = ["--data", str(data(locomo(asked, other))), "--json", str(out)]
    result = CliRunner().invoke(main, [*arguments, "--modes", "keyword"], catch_exceptions=False)
    assert result.exit_code == 0
    record = json.loads(out.read_text())
    assert record["questions"] == 2
    assert record["index"]["files"] == 2
    keyword = record["keyword"]
    assert keyword["default"]["recall"] == 1
    assert keyword["budgets"] == {"500": 1, "1000": 1, "2000": 1}
    assert set(keyword["byCategory"]) == {"single-hop", "multi-hop"}
    assert 0 < keyword["queryP50Ms"] <= keyword["queryP99Ms"]
    assert "vector" not in record


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOORS)
def test_keywords_find_no_less_than_a_plain_index(name: str, tmp_path: Path):
    """Recall of plain FTS5 over utterances with neighbours, over bigrams of exchanges."""
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not beside the project, in ../shared/data")
    questions, floors = FLOORS[name]
    out = tmp_path / "out.json"
    arguments = ["--data", str(DATA / name), "--json", str(out), "--modes", "keyword"]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == 0
    record = json.loads(out.read_text())
    assert record["questions"] == questions
    for budget, floor in floors.items():
        assert record["keyword"]["budgets"][budget] >= floor
