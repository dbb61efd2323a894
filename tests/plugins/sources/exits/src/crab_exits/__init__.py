"""A plugin that ends the process when it is imported, if it is let."""

from __future__ import annotations

raise SystemExit("no licence found")
