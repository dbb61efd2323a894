"""A memory of hermitcrab in LanceDB."""

from __future__ import annotations
