"""Where a conversation's messages come from: the terminal, or the lines of a pipe or file."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hermitcrab.cli.running import Interrupted, interruptible

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

#: The file in the home that remembers what was typed.
HISTORY_FILE = "chat_history"


class ChatInput(Protocol):
    """Yields one message after the other."""

    is_terminal: bool

    async def read(self) -> str | None:
        """The next message; ``None`` at the end of the input.

        :raises Interrupted: if the user pressed Ctrl-C.
        """


def open_input(home: Path) -> ChatInput:
    """A prompt if both ends are a terminal, else the lines of stdin."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return TerminalInput(home / HISTORY_FILE)
    return LineInput()


class TerminalInput:
    """A prompt with a history; Alt-Enter begins a new line."""

    is_terminal = True

    def __init__(self, history_file: Path) -> None:
        self._session = _prompt_session(history_file)

    async def read(self) -> str | None:
        """The next message."""
        try:
            return await self._session.prompt_async("> ")
        except EOFError:
            return None
        except KeyboardInterrupt:
            raise Interrupted from None


def _prompt_session(history_file: Path) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory

    os.close(os.open(history_file, os.O_RDWR | os.O_CREAT, 0o600))
    return PromptSession(
        history=FileHistory(str(history_file)),
        multiline=True,
        prompt_continuation="  ",
        key_bindings=_key_bindings(),
    )


def _key_bindings() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


class LineInput:
    """The lines of stdin, read in a thread so that the host's own work goes on meanwhile."""

    is_terminal = False

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # A daemon, because nothing can wake a thread that waits for a pipe.
        threading.Thread(target=self._read_all, name="hermitcrab-stdin", daemon=True).start()

    async def read(self) -> str | None:
        """The next line."""
        return await interruptible(self._lines.get())

    def _read_all(self) -> None:
        try:
            for line in _stdin_lines():
                self._put(line.rstrip("\r\n"))
        finally:
            self._put(None)

    def _put(self, line: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody reads any more
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _stdin_lines() -> Iterator[str]:
    try:
        descriptor = os.dup(sys.stdin.fileno())
    except (OSError, ValueError):
        yield from sys.stdin
        return
    # Our own file object: at exit, Python must be able to take the lock of ``sys.stdin``.
    with open(descriptor, encoding="utf-8", errors="replace") as stream:
        yield from stream
