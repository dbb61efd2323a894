"""A memory of hermitcrab in Chroma."""

from __future__ import annotations
