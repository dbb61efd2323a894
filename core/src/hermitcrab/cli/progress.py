"""A progress bar on stderr, for work that takes over a second."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LABEL_CHARACTERS = 48


class ProgressBar:
    """Shows how far something has come; nothing where stderr is no terminal.

    :param after_s: seconds to wait before it appears.
    """

    def __init__(self, title: str, *, after_s: float = 1.0) -> None:
        self._title = title
        self._show_at = time.monotonic() + after_s
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: int, total: int, label: str = "") -> None:
        """Show that ``done`` of ``total`` units are done; ``label`` says what is worked on."""
        from hermitcrab.cli.output import one_line

        if self._progress is None and time.monotonic() >= self._show_at:
            self._progress = _bar()
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=total, label="")
        if self._progress is not None and self._task is not None:
            shown = one_line(label, _LABEL_CHARACTERS)
            self._progress.update(self._task, completed=done, total=total, label=shown)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[label]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
