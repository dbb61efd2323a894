"""Hearing of changed memory files, with the optional package watchfiles (memory 3.11)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from attrs import frozen

from hermitcrab.memory.files.discover import MEMORY_DIRECTORY

logger = logging.getLogger("hermitcrab.memory")

#: Folders that hold no notes and very many files.
IGNORED = frozenset({".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__"})
#: A folder with more folders below it than this is not watched: each takes a handle of the system (#5827, #41606).
MOST_FOLDERS = 2_000
_STEP_MS = 100


@frozen
class Watched:
    """Folders whose files alone count, and folders with all below them; ``left_out`` says what is not watched."""

    flat: tuple[Path, ...] = ()
    deep: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()


def watched_folders(workspace: Path, extra_paths: Iterable[str | Path] = ()) -> Watched:
    """The folders of an agent's memory that are there and small enough; links are never followed."""
    flat: dict[Path, None] = {workspace: None} if workspace.is_dir() else {}
    deep: dict[Path, None] = {}
    left_out: list[str] = []
    extra = [workspace / Path(str(each).strip()).expanduser() for each in extra_paths]
    for path in (workspace / MEMORY_DIRECTORY, *extra):
        if path.is_symlink() or not path.exists():
            continue
        if not path.is_dir():
            flat[path.parent] = None
        elif any(name in IGNORED for name in path.parts):
            left_out.append(f"{path}: a folder of tools")
        elif _is_large(path):
            left_out.append(f"{path}: more than {MOST_FOLDERS:,} folders, or a folder of tools")
        else:
            deep[path] = None
    return Watched(tuple(flat), tuple(deep), tuple(left_out))


async def changes(
    workspace: Path, extra_paths: Iterable[str | Path] = (), *, debounce_ms: int = 1500
) -> AsyncIterator[None]:
    """Yields whenever memory files have changed and then stood still for ``debounce_ms``; ends where that cannot be.

    A warning says once why it ends: without watchfiles, or where the system has no more watches. Searches look for
    changed files by themselves, so nothing is lost.
    """
    try:
        import watchfiles  # noqa: F401 - whether it is there
    except ImportError:
        logger.info("memory files are not watched: pip install 'hermitcrab[watch]'")
        return
    paths = tuple(extra_paths)
    told: tuple[str, ...] = ()
    while True:
        watched = await asyncio.to_thread(watched_folders, workspace, paths)
        if watched.left_out != told:
            told = watched.left_out
            logger.warning("not watched for changes of memory: %s", "; ".join(told) or "nothing")
        try:
            await _next_change(watched, debounce_ms)
        except (OSError, RuntimeError) as error:
            logger.warning(
                "memory files are not watched any more, searches look for changes: %s", error
            )
            return
        await asyncio.sleep(debounce_ms / 1000)
        yield


async def _next_change(watched: Watched, debounce_ms: int) -> None:
    """Wait until a note changes in any of the folders."""
    stop = asyncio.Event()
    waiting = [
        asyncio.ensure_future(_first(paths, recursive, debounce_ms, stop))
        for paths, recursive in ((watched.flat, False), (watched.deep, True))
        if paths
    ]
    if not waiting:
        await asyncio.Event().wait()
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.set()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _first(
    paths: tuple[Path, ...], recursive: bool, debounce_ms: int, stop: asyncio.Event
) -> None:
    from watchfiles import Change, awatch

    def counts(change: Change, path: str) -> bool:
        name = os.path.basename(path)
        inside = not IGNORED.intersection(Path(path).parts)
        return inside and (name.endswith(".md") or "." not in name)

    watching = awatch(
        *paths,
        watch_filter=counts,
        debounce=debounce_ms,
        step=_STEP_MS,
        stop_event=stop,
        recursive=recursive,
        ignore_permission_denied=True,
    )
    async for _ in watching:
        return
    await asyncio.Event().wait()  # stopped from outside, and about to be cancelled


def _is_large(folder: Path) -> bool:
    """Whether a folder has too many others below it, or one of those that are never notes."""
    return any(
        count >= MOST_FOLDERS or name in IGNORED for count, name in enumerate(_folders(folder))
    )


def _folders(folder: Path) -> Iterator[str]:
    for _, names, _ in os.walk(folder, followlinks=False):
        yield from names
