"""``hermitcrab sessions``: read from disk, whatever the plugins do."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hermitcrab.sessions.blobs.files import store_entry
from hermitcrab.sessions.format import encode_line


@pytest.fixture
def talked(cli):
    """A home with two sessions."""
    cli("run", "-m", "The harbour code is 4711.")
    cli("run", "-m", "Hello", "--session", "cron:nightly")
    return cli


def test_list_as_json_is_a_list_of_objects_newest_first(talked):
    first, second = talked.json("sessions", "list")
    assert first["key"] == "agent:main:cron:nightly"
    assert second["key"] == "agent:main:main"
    assert set(first) == {"key", "sessionId", "updatedAt", "messages", "missing"}
    assert first["updatedAt"] >= second["updatedAt"]
    assert abs(second["updatedAt"] / 1000 - time.time()) < 600
    assert second["messages"] >= 2
    file = talked.home / "agents/main/sessions" / f"{second['sessionId']}.jsonl"
    assert file.is_file()


def test_list_as_text_has_a_line_for_each_session(talked):
    text = talked("sessions", "list").stdout
    assert "agent:main:main" in text
    assert "agent:main:cron:nightly" in text
    assert talked("sessions", "list", "--agent", "nobody").stdout == ""


def test_a_session_whose_transcript_is_gone_is_marked_missing(talked):
    """C10: a file that was deleted was still listed like any other."""
    gone = talked.json("sessions", "show", "main")
    Path(gone["file"]).unlink()
    missing = {each["key"]: each["missing"] for each in talked.json("sessions", "list")}
    assert missing == {"agent:main:main": True, "agent:main:cron:nightly": False}
    lines = talked("sessions", "list").stdout.splitlines()
    assert [f"{gone['sessionId']} (missing)" in line for line in lines if gone["key"] in line] == [
        True
    ]
    assert sum("(missing)" in line for line in lines) == 1


def test_an_empty_home_has_no_sessions_and_is_not_created(cli):
    assert cli.json("sessions", "list") == []
    assert "no sessions yet" in cli("sessions", "list").stderr
    assert not cli.home.exists()


def test_show_prints_roles_texts_and_tool_calls(talked):
    text = talked("sessions", "show", "main").stdout
    assert "user" in text
    assert "The harbour code is 4711." in text
    assert "→ memory_search(query=The harbour code is 4711.)" in text
    assert "assistant" in text


def test_show_as_json_holds_the_messages_as_they_are_on_disk(talked):
    shown = talked.json("sessions", "show", "main")
    assert shown["key"] == "agent:main:main"
    first, last = shown["messages"][0], shown["messages"][-1]
    assert first["role"] == "user"
    assert first["content"] == [{"type": "text", "text": "The harbour code is 4711."}]
    assert last["role"] == "assistant"
    assert all(message["id"] and message["timestamp"] for message in shown["messages"])


def test_limit_shows_the_last_messages(talked):
    whole = talked.json("sessions", "show", "main")["messages"]
    assert talked.json("sessions", "show", "main", "--limit", "1")["messages"] == whole[-1:]
    assert talked.json("sessions", "show", "main", "--limit", "99")["messages"] == whole


def test_show_goes_back_behind_a_compaction(talked):
    talked("run", "-m", "/compact")
    texts = json.dumps(talked.json("sessions", "show", "main")["messages"])
    assert "4711" in texts


def branch_before_the_answer(talked):
    """Leave the answer of the main session, as another program would; the id of the question."""
    file = Path(talked.json("sessions", "show", "main")["file"])
    [question] = [
        entry["id"]
        for entry in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        if entry["type"] == "message" and entry["message"]["role"] == "user"
    ]
    leaf = {"type": "leaf", "id": "moved", "targetId": question}
    other = {"type": "custom_message", "id": "other", "content": "try again", "parentId": question}
    label = {"type": "label", "id": "named", "targetId": question, "label": "the question"}
    lost = {"type": "label", "id": "lost", "targetId": "gone", "label": "nothing"}
    with file.open("a", encoding="utf-8") as opened:
        for entry in (leaf, other, {**label, "parentId": "other"}, {**lost, "parentId": "named"}):
            opened.write(json.dumps(entry) + "\n")
    return question


def test_the_tree_shows_every_branch_and_which_is_active(talked):
    question = branch_before_the_answer(talked)
    result = talked("sessions", "show", "main", "--tree")
    _, left, active, *labels = result.stdout.splitlines()
    assert "assistant: " in left
    assert not left.startswith("*")
    assert active.startswith("*")
    assert question in active
    assert labels[-1].split(maxsplit=1) == [question, "the question"]
    assert "a label names entry gone" in result.stderr


def test_the_tree_as_json_names_leaf_tips_and_forks(talked):
    question = branch_before_the_answer(talked)
    shown = talked.json("sessions", "show", "main", "--tree")
    assert shown["key"] == "agent:main:main"
    assert shown["leafId"] == "lost"
    assert shown["labels"] == {question: "the question"}
    left, active = shown["branches"]
    assert (left["active"], left["forkId"]) == (False, None)
    assert (active["active"], active["forkId"], active["tipId"]) == (True, question, "lost")
    assert active["depth"] == shown["depth"] < left["depth"] + active["entries"]
    assert left["text"].startswith("assistant: ")
    assert active["text"] == "user: try again"


def test_a_session_that_is_not_there_is_an_error(talked):
    error = talked("sessions", "show", "nowhere", code=1).stderr
    assert error.startswith("error: there is no session 'agent:main:nowhere'")
    assert "agent:<agentId>" in talked("sessions", "show", "agent:", code=1).stderr


def test_control_characters_of_a_message_do_not_reach_the_terminal(cli):
    cli("run", "-m", "beware \x1b[2J\x07 of this")
    text = cli("sessions", "show", "main").stdout
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "beware" in text


def test_a_damaged_transcript_is_shown_with_a_warning(talked):
    session_id = talked.json("sessions", "list")[1]["sessionId"]
    file = talked.home / "agents/main/sessions" / f"{session_id}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b'{"type":"mess\n', *lines[2:]]))
    result = talked("sessions", "show", "main")
    assert "1 line holds no entry" in result.stderr
    assert "4711" in result.stdout


def test_a_missing_transcript_is_an_error(talked):
    session_id = talked.json("sessions", "list")[1]["sessionId"]
    (talked.home / "agents/main/sessions" / f"{session_id}.jsonl").unlink()
    assert "there is no such transcript" in talked("sessions", "show", "main", code=1).stderr


def test_set_changes_fields_and_null_deletes_them(talked):
    changed = talked.json("sessions", "set", "main", "label=Harbour office", "sendPolicy=deny")
    assert changed["key"] == "agent:main:main"
    assert (changed["label"], changed["sendPolicy"]) == ("Harbour office", "deny")
    text = talked("sessions", "set", "main", "label=null").stdout
    assert text == "label: null\n"


def test_a_reply_of_a_session_that_may_not_send_is_kept_back(talked):
    talked("sessions", "set", "main", "sendPolicy=deny")
    reply = talked.json("run", "-m", "Hello again")
    assert "send policy" in reply["notes"][0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("lable=x", "label"),
        ("sendPolicy=perhaps", "sendPolicy"),
        ("label=", "label"),
    ],
)
def test_a_wrong_change_is_refused_and_nothing_is_applied(talked, change, complaint):
    error = talked("sessions", "set", "main", "displayName=Harbour", change, code=1).stderr
    assert complaint in error
    assert "displayName" not in talked.json("sessions", "set", "main", "pinnedAt=null")


def test_two_sessions_cannot_have_one_label(talked):
    talked("sessions", "set", "main", "label=Harbour")
    error = talked("sessions", "set", "cron:nightly", "label=Harbour", code=1).stderr
    assert "agent:main:main" in error


def test_a_change_without_a_value_is_wrong_usage(talked):
    assert "FIELD=VALUE" in talked("sessions", "set", "main", "label", code=2).stderr


def test_show_names_media_and_large_results_and_prints_neither(talked):
    """Design 5: they are kept beside the transcript; what an older program left inline is named too."""
    file = Path(talked.json("sessions", "show", "main")["file"])
    result = {"type": "text", "text": "first line\n" + "x" * 2_000_000}
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD" * 11_333 + "QQ=="}
    entries = [
        {"type": "message", "id": "a1", "message": {"role": "user", "content": [image]}},
        {"type": "message", "id": "a2", "message": {"role": "toolResult", "content": [result]}},
        {"type": "message", "id": "a3", "message": {"role": "user", "content": [image]}},
    ]
    stored = [store_entry(entry, file, flush=False) for entry in entries[:2]]
    with file.open("ab") as lines:
        lines.write(b"".join(encode_line(entry) for entry in (*stored, entries[2])))
    text = talked("sessions", "show", "main").stdout
    assert text.count("(image, 34 KB)") == 2
    assert "first line xxx" in text
    assert "(head and tail of 2.0 MB)" in text
    assert len(text) < 5_000
    assert "QUJD" not in text
    assert "(image, 34 KB)" in talked("sessions", "show", "main", "--tree").stdout
