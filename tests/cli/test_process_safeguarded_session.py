"""A recorded coding session in processes of their own, with the safeguard active: replayed, then resumed."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.compaction import HEADINGS
from hermitcrab.compaction.serialise import plain_text
from hermitcrab.messages.identifiers import extract_identifiers, missing_identifiers, redact
from hermitcrab.messages.pairing import find_faults

RECORDING = Path(__file__).resolve().parents[2] / "../shared/data/coding-session-v1.jsonl"
WINDOW = 8_000
#: Made up; what real ones look like.
SECRETS = (
    "sk-proj-Zq3vT8mK1xW6bN4dR7yL2cF9hJ5gP0sA",
    "ghp_Zq3vT8mK1xW6bN4dR7yL2cF9hJ5gP0sAaa11",
    "AKIAZQ3VT8MK1XW6BN4D",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not RECORDING.exists(), reason="the recorded session is not on this machine"
    ),
]


def entries_of_bytes(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.split(b"\n") if line]


def entries_of(file: Path) -> list[dict[str, Any]]:
    return entries_of_bytes(file.read_bytes())


def messages_of(entries: list[dict[str, Any]]) -> list[Any]:
    return [entry["message"] for entry in entries if entry["type"] == "message"]


def summaries_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["type"] == "compaction"]


#: What the host mends by itself: a request in the wrong place, or one that was answered.
MENDED = {"latest_user_ask_not_foregrounded", "retained_turn_ask_marked_pending"}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """The recorded session, with a credential in every tenth message of the user."""
    lines = RECORDING.read_text(encoding="utf-8").splitlines()
    asked = 0
    for number, line in enumerate(lines):
        entry = json.loads(line)
        message = entry.get("message", {})
        if message.get("role") != "user":
            continue
        asked += 1
        if asked % 10 == 1 and isinstance(message["content"], list):
            secret = SECRETS[asked // 10 % len(SECRETS)]
            message["content"].append({"type": "text", "text": f"Use the token {secret} for it."})
            lines[number] = json.dumps(entry)
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def replayed(process: Any, recording: Path) -> dict[str, Any]:
    """The report of a replay in a window of 8,000 tokens."""
    process.home.mkdir(parents=True)
    config = f"agents:\n  defaults:\n    contextTokens: {WINDOW}\n"
    (process.home / "config.yaml").write_text(config, encoding="utf-8")
    done = process.run("replay", str(recording), "--context-window", str(WINDOW), "--json")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def assert_audited(entry: dict[str, Any]) -> None:
    """What holds for every summary that the safeguard lets through."""
    summary, details = entry["summary"], entry["details"]
    verdict = details["safeguard"]
    assert verdict["audited"] is True
    assert 1 <= verdict["attempts"] <= 4
    assert set(verdict["issues"]) <= MENDED
    lines = [line.strip() for line in summary.splitlines()]
    assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
    assert len(summary) <= 16_000
    assert redact(summary) == summary
    assert not any(secret in summary for secret in SECRETS)


def test_every_summary_of_a_replay_is_audited_whole_and_without_credentials(
    replayed: dict[str, Any],
) -> None:
    """P1, P14, C52, C54: a stub, a refusal for ever, lost identifiers and kept keys, in one long session."""
    assert replayed["overflows"] == 0
    assert replayed["peakTokens"] <= WINDOW
    assert replayed["pairing"] == {"orphanResults": 0, "missingResults": 0}
    assert len(replayed["compactions"]) > 10
    for compaction in replayed["compactions"]:
        assert compaction["identifiersKept"] == compaction["identifiersRequired"] > 0
        assert compaction["tokensAfter"] < compaction["tokensBefore"]
    entries = summaries_of(entries_of(Path(replayed["sessionFile"])))
    assert len(entries) == len(replayed["compactions"])
    for entry in entries:
        assert_audited(entry)


def test_no_identifier_of_what_was_summarised_is_lost(replayed: dict[str, Any]) -> None:
    """C52: what does not stand in the text stands beside it; only a credential is in neither."""
    entries = entries_of(Path(replayed["sessionFile"]))
    places = {entry["id"]: number for number, entry in enumerate(entries)}
    starts = [0, *(places[entry["firstKeptEntryId"]] for entry in summaries_of(entries))]
    checked = 0
    for entry, (start, end) in zip(summaries_of(entries), pairwise(starts), strict=True):
        messages = messages_of(entries[start:end])
        wanted = [one for message in messages for one in extract_identifiers(plain_text(message))]
        kept = "\n".join((entry["summary"], *entry["details"]["identifiers"]))
        assert missing_identifiers(kept, wanted) == []
        checked += len(wanted)
    assert checked > 500


def test_another_process_goes_on_where_the_replay_ended(
    process: Any, replayed: dict[str, Any]
) -> None:
    """C95, P23: the resumed session sees the last summary and the kept tail, and is compacted again in its turn."""
    key, file = replayed["sessionKey"], Path(replayed["sessionFile"])
    before = file.read_bytes()
    count = len(summaries_of(entries_of(file)))
    first = json.loads(process.run("run", "--session", key, "-m", "hello", "--json").stdout)
    assert first["text"]
    assert file.read_bytes().startswith(before)
    long = "We decided: the release branch is called release/2031-05. " + "Mind the tide. " * 1_200
    for number in range(3):
        said = f"Part {number}. {long}"
        json.loads(process.run("run", "--session", key, "-m", said, "--json").stdout)
    entries = entries_of(file)
    added = summaries_of(entries)[count:]
    assert added
    for entry in added:
        assert_audited(entry)
    assert any("release/2031-05" in entry["summary"] for entry in added)
    added_messages = messages_of(entries)[len(messages_of(entries_of_bytes(before))) :]
    faults = find_faults(added_messages)
    assert (faults.orphan_results, faults.missing_results) == (0, 0)
    assert added_messages[-1]["role"] == "assistant"
    verified = process.run("sessions", "verify", key)
    assert "error" not in verified.stdout.lower()
