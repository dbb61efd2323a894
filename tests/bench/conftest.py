"""bench is a folder of this workspace and no distribution, so nothing puts it on the path."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    """A measurement silences the log of its process, which is that of all other tests here."""
    logger = logging.getLogger("hermitcrab")
    before = logger.level
    yield
    logger.setLevel(before)
