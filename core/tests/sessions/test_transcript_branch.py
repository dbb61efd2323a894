from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.sessions import lines
from hermitcrab.sessions.branch import kept_part, linked, path_to, without_repeats
from hermitcrab.sessions.format import derived_id
from hermitcrab.sessions.reading import Branch, read_branch, read_transcript

from .conftest import HEADER, line_of, message_entry
