"""A plugin for a host that does not exist yet; importing it under this one would fail."""

from __future__ import annotations

from hermitcrab.hooks import BeforeTimeTravel  # noqa: F401
