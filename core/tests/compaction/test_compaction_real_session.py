"""A real coding session, replayed through the whole host in windows far smaller than it was recorded in."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.agent.replay import ReplayOptions, replay
from hermitcrab.compaction.structure import has_all_headings
from hermitcrab.config import Config
from hermitcrab.messages.tokens import TokenCounter

SOURCE = Path(__file__).resolve().parents[4] / "shared" / "data" / "coding-session-v1.jsonl"


def _path_to(lines: list[dict[str, Any]], leaf: dict[str, Any]) -> list[dict[str, Any]]:
    by_id = {line["id"]: line for line in lines[1:]}
    path = [leaf]
    while path[-1].get("parentId"):
        path.append(by_id[path[-1]["parentId"]])
    return path[::-1]


@pytest.mark.parametrize(
    ("window", "fewest"), [(8_000, 20), pytest.param(32_000, 5, marks=pytest.mark.slow)]
)
async def test_a_real_session_survives_a_window_far_too_small(
    tmp_path: Path, window: int, fewest: int
) -> None:
    if not SOURCE.is_file():
        pytest.skip(f"the recorded session is not at {SOURCE}")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    options = ReplayOptions(source=SOURCE, context_window=window)
    report = await replay(options, home=tmp_path, config=Config())

    assert hashlib.sha256(SOURCE.read_bytes()).hexdigest() == digest
    assert report["overflows"] == 0
    assert report["peakTokens"] <= window
    assert report["pairing"] == {"orphanResults": 0, "missingResults": 0}
    compactions, flushes = report["compactions"], report["flushes"]
    assert len(compactions) >= fewest
    assert len(flushes) - len(compactions) in (0, 1)
    for compaction in compactions:
        assert compaction["identifiersKept"] == compaction["identifiersRequired"]
        assert compaction["tokensAfter"] < compaction["tokensBefore"]
        assert compaction["tokensAfter"] < window * 3 // 4

    lines = [json.loads(line) for line in Path(report["sessionFile"]).read_text().splitlines()]
    assert sum(line["type"] == "message" for line in lines) == 914
    stored = [line for line in lines if line["type"] == "compaction"]
    assert len(stored) == len(compactions)
    counter = TokenCounter()
    for entry in stored:
        assert has_all_headings(entry["summary"])
        assert len(entry["summary"]) <= 16_000
        assert counter.text(entry["summary"]) <= window // 5
        assert "[… " not in " ".join(entry["details"]["identifiers"])
    files = stored[-1]["details"]
    assert set(stored[0]["details"]["modifiedFiles"]) <= set(files["modifiedFiles"])
    assert files["modifiedFiles"]
    _all_identifiers_are_found_again(lines, stored)


def _all_identifiers_are_found_again(
    lines: list[dict[str, Any]], stored: list[dict[str, Any]]
) -> None:
    """What stands beside a summary came from the messages, letter by letter: a search of the transcript finds it."""
    for entry in stored[:: max(1, len(stored) // 4)]:
        texts = [
            json.dumps(line["message"], ensure_ascii=False).replace("\\\\", "\\")
            for line in _path_to(lines, entry)
            if line["type"] == "message"
        ]
        text = "\n".join(texts)
        assert [one for one in entry["details"]["identifiers"] if one not in text] == []
