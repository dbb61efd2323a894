"""Imports that are killed, or that run at once: every session is there whole, or not at all (design 5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermitcrab.errors import SessionError

PROGRAM = Path(__file__).with_name("import_and_kill.py")

IMPORT = """
import sys
from hermitcrab.config import config_from
from hermitcrab.sessions import import_sessions
sys.stdin.readline()
report = import_sessions(sys.argv[1], home=sys.argv[2], config=config_from({}, environ={}))
print(report.count("imported"), report.count("unchanged"), report.is_complete)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="importers are forks of a warm program")
@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_killed_import_leaves_whole_sessions_and_is_completed_by_the_next(tmp_path, kills):
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, str(kills), "20260301"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] == kills
    assert report["partial"] > 0, "no kill hit an import on its way"


def test_two_imports_at_once_bring_every_session_once(tmp_path, crab):
    """Each session is taken under its lock, so that one of them finds what the other one did."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(20):
        header = {"type": "session", "version": 3, "id": f"s{number}"}
        message = {"type": "message", "id": "e", "message": {"role": "user", "content": "hi"}}
        text = f"{json.dumps(header)}\n{json.dumps(message)}\n"
        (folder / f"s{number}.jsonl").write_text(text)
    home = tmp_path / "home"
    importers = [
        subprocess.Popen(
            [sys.executable, "-c", IMPORT, folder, home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for importer in importers:
        importer.stdin.write("\n")
        importer.stdin.flush()
    results = [importer.communicate(timeout=60) for importer in importers]
    assert all(out.split()[-1:] == ["True"] for out, _ in results), results
    sessions = home / "agents" / "main" / "sessions"
    for number in range(20):
        kinds = [each["type"] for each in crab.entries_of(sessions / f"s{number}.jsonl")]
        assert kinds == ["session", "message", "custom"]


async def test_a_conversation_goes_on_where_it_was_in_another_home(tmp_path, crab, open_host):
    """Exported here, imported there: the model sees all of it, and its settings hold."""
    from hermitcrab import Host
    from hermitcrab.sessions import export_session, import_sessions

    async with open_host(crab.ScriptedModel("The port is 5437.")) as host:
        await host.send("agent:main:main", "Which port?")
        home = host.home
    file = tmp_path / "taken.jsonl"
    file.write_bytes(b"".join(export_session("main", home=home)))
    other = tmp_path / "other"
    report = import_sessions(file, home=other)
    assert [each.keys for each in report.sessions] == [("agent:main:main",)]
    with pytest.raises(SessionError):
        import_sessions(other, home=other)
    model = crab.ScriptedModel("As I said.")
    async with Host.open(home=other, model=model, environ={}) as host:
        await host.send("agent:main:main", "And again?")
    roles = [message["role"] for message in model.requests[-1].messages]
    assert roles == ["user", "assistant", "user"]
