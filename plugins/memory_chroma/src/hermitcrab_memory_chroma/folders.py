"""Folders of embedded Chromas that this process has open: one for all agents that share it, and no other process."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermitcrab.memory import importing
from hermitcrab_memory_chroma.failures import FolderInUseError, damaged

if TYPE_CHECKING:
    from hermitcrab_memory_chroma.folder_api import FolderApi

_LOCK = "hermitcrab.lock"
_HOLDER = "hermitcrab.lock.json"
# Another process may be about to end.
_PATIENCE_S = 0.5


class Folder:
    """One open folder with the one thread that works in it, for as long as anyone uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self.collections: dict[str, Any] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="chroma")
        self._lock: Any = None
        self._api: FolderApi | None = None

    @property
    def worker(self) -> ThreadPoolExecutor:
        return self._worker

    @property
    def opened(self) -> FolderApi | None:
        return self._api

    def api(self) -> FolderApi:
        """The folder's API, opened on first use; runs in the worker.

        :raises FolderInUseError: another process has it.
        """
        if self._api is None:
            try:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._take_lock()
                self._api = self._made()
            except FolderInUseError:
                raise
            except Exception as error:
                self._release_lock()
                raise damaged(self.path, error) from error
        return self._api

    def _made(self) -> FolderApi:
        with importing():
            from hermitcrab_memory_chroma.folder_api import FolderApi

            return FolderApi(self.path)

    def close(self) -> None:
        """Close the files and let other processes in."""
        try:
            self._worker.submit(self._close).result()
        finally:
            self._worker.shutdown()

    def _close(self) -> None:
        api, self._api = self._api, None
        self.collections.clear()
        try:
            if api is not None:
                api.close()
        finally:
            self._release_lock()

    def _take_lock(self) -> None:
        from filelock import FileLock, Timeout

        lock = FileLock(
            str(self.path / _LOCK),
            timeout=_PATIENCE_S,
            mode=0o600,
            thread_local=False,
            fallback_to_soft=False,
        )
        try:
            lock.acquire()
        except Timeout as error:
            raise FolderInUseError(
                f"another process has this memory open ({self._holder()})",
                where=self.path,
                hint="Chroma in a folder serves one process at a time: close the other one, or start `chroma run"
                f" --path {self.path}` and set mode: server under plugins.entries.memory-chroma.config",
            ) from error
        self._lock = lock
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        (self.path / _HOLDER).write_text(json.dumps(holder), encoding="utf-8")

    def _release_lock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            (self.path / _HOLDER).unlink(missing_ok=True)
            lock.release()

    def _holder(self) -> str:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            holder = json.loads((self.path / _HOLDER).read_text(encoding="utf-8"))
            return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        return "it does not say which"


# Chroma cannot open one folder twice, and a process has one memory for each agent.
_open: dict[Path, Folder] = {}
_guard = threading.Lock()


def borrow(path: Path) -> Folder:
    """The folder at ``path``, shared by all that borrow it; nothing is opened yet."""
    with _guard:
        folder = _open.setdefault(path.resolve(), Folder(path.resolve()))
        folder.users += 1
        return folder


def give_back(folder: Folder) -> None:
    """End one use of a folder; the last one closes it. Blocks until that is done."""
    with _guard:
        folder.users -= 1
        if folder.users > 0:
            return
        del _open[folder.path]
        folder.close()
