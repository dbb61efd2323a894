"""A distribution that offers the plugin id of a core distribution."""

from __future__ import annotations
