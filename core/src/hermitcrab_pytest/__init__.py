"""Fixtures for the authors of plugins, in every environment that has hermitcrab.

pytest imports this module when it starts, so it imports nothing of hermitcrab: a fixture does, when it is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hermitcrab.testing import Hermit

# Without pytest-asyncio there are no fixtures; hermitcrab.testing says what to install.
with suppress(ImportError):
    import pytest_asyncio

    @pytest_asyncio.fixture
    async def hermit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hermit]:
        """A home, a scripted model, a clock, and hosts over them, which are closed in the end."""
        from hermitcrab.testing import Hermit

        for name in ("HERMITCRAB_HOME", "HERMITCRAB_PLUGINS"):
            monkeypatch.delenv(name, raising=False)
        made = Hermit(tmp_path / "home")
        yield made
        await made.close()
