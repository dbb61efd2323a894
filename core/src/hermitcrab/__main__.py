"""``python -m hermitcrab`` is the command ``hermitcrab``."""

from __future__ import annotations

from hermitcrab.cli import main

if __name__ == "__main__":
    main()
