"""Where the parts of one measurement lie."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen
class Place:
    """The folder of one backend with ``size`` entries; ``vectors`` are shared by all backends."""

    folder: Path
    vectors: Path
    size: int

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"
