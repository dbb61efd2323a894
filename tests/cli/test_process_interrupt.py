"""Ctrl-C: in an answer it cancels the answer and keeps the turn."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="signals and terminals of Unix")

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
DEMO = Path(__file__).resolve().parents[2] / "examples/demo/conversation.jsonl"


def last_answer(process):
    message = process.messages()[-1]
    return message["role"], message["stopReason"], message["content"][0]["text"].strip()


def test_sigint_in_an_answer_of_chat_keeps_the_turn_and_the_conversation_goes_on(slow_model):
    running = slow_model.start("chat", "--model", "slow/one", **PIPES)
    running.stdin.write("tell me a story\n")
    running.stdin.flush()
    assert running.stdout.readline() == "Once\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate("/status\n", timeout=30)
    assert running.returncode == 0
    assert "cancelled; what was said so far is kept" in err
    assert "Session: agent:main:main" in out
    assert "Traceback" not in err
    assert last_answer(slow_model) == ("assistant", "aborted", "Once")
    assert slow_model.messages()[0]["content"][0]["text"] == "tell me a story"


def test_sigint_while_chat_waits_for_a_line_leaves(slow_model):
    running = slow_model.start("chat", **PIPES)
    assert running.stderr.readline().startswith("session agent:main:main")
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in err


def test_sigint_in_run_exits_with_130_and_keeps_the_turn(slow_model):
    running = slow_model.start("run", "-m", "tell me a story", "--model", "slow/one", **PIPES)
    assert running.stdout.readline() == "Once\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert err.endswith("Interrupted.\n")
    assert "Traceback" not in err
    assert last_answer(slow_model) == ("assistant", "aborted", "Once")


def test_sigint_in_a_scratch_replay_removes_the_temporary_home(process, tmp_path):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-m", "hermitcrab", "replay", str(DEMO), "--scratch"],
        env={**process.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(2):
        running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert list(scratch.iterdir()) == []


#: What the terminal is sent when the prompt is ready for keys.
READY = "\x1b[?2004h"


class Terminal:
    """A program behind a pseudo-terminal of its own, so that Ctrl-C is a key."""

    def __init__(self, args: list[str], environ: dict[str, str]) -> None:
        self.seen = b""
        self._descriptor, far_end = pty.openpty()
        # The first process of a session that opens a terminal by name is controlled by it.
        shell = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(far_end)]
        self._process = subprocess.Popen([*shell, *args], env=environ, start_new_session=True)
        self._far_end = far_end

    def wait_for(self, text: str, *, since: int = 0) -> int:
        """Read until ``text`` stands somewhere behind the first ``since`` bytes; returns where it ends."""
        deadline = time.monotonic() + 30
        wanted = text.encode()
        while (found := self.seen.find(wanted, since)) < 0:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._descriptor], [], [], 1)[0]:
                self.seen += os.read(self._descriptor, 65536)
        return found + len(wanted)

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def exit_code(self) -> int:
        """Wait for the end."""
        return self._process.wait(timeout=30)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._descriptor)
        os.close(self._far_end)


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal as on Linux")


@pytest.fixture
def terminal(slow_model):
    environ = slow_model.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    args = [sys.executable, "-m", "hermitcrab", "chat", "--model", "slow/one"]
    opened = Terminal(args, environ)
    yield opened
    opened.close()


@ON_LINUX
def test_in_a_terminal_ctrl_c_cancels_the_answer_and_ctrl_d_leaves(terminal, slow_model):
    terminal.wait_for(READY)
    terminal.press("tell me a story\r")
    terminal.wait_for("Once")
    terminal.press("\x03")
    read = terminal.wait_for("cancelled; what was said so far is kept")
    terminal.wait_for(READY, since=read)
    terminal.press("\x04")
    assert terminal.exit_code() == 0
    assert last_answer(slow_model) == ("assistant", "aborted", "Once")
    history = slow_model.home / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "tell me a story" in history.read_text(encoding="utf-8")


@ON_LINUX
def test_in_a_terminal_ctrl_c_twice_at_the_prompt_leaves(terminal):
    terminal.wait_for(READY)
    terminal.press("\x03")
    read = terminal.wait_for("Ctrl-C again, or Ctrl-D, leaves")
    terminal.wait_for(READY, since=read)
    terminal.press("\x03")
    assert terminal.exit_code() == 130


@ON_LINUX
def test_in_a_terminal_alt_enter_begins_a_line(terminal, slow_model):
    terminal.wait_for(READY)
    terminal.press("first\x1b\rsecond\r")
    terminal.wait_for("Once")
    terminal.press("\x03")
    read = terminal.wait_for("cancelled")
    terminal.wait_for(READY, since=read)
    terminal.press("\x04")
    assert terminal.exit_code() == 0
    assert slow_model.messages()[0]["content"][0]["text"] == "first\nsecond"
