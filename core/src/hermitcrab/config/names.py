"""The one converter between the names in YAML (camelCase) and in Python (snake_case)."""

from __future__ import annotations

import re
from keyword import iskeyword

__all__ = ["camel_case", "snake_case"]

_WORD_START = re.compile(r"_([a-z0-9])")
_CAPITAL = re.compile(r"[A-Z]")


def camel_case(name: str) -> str:
    """``reserve_tokens_floor`` becomes ``reserveTokensFloor``, ``lambda_`` becomes ``lambda``."""
    return _WORD_START.sub(lambda match: match[1].upper(), name).removesuffix("_")


def snake_case(name: str) -> str:
    """``reserveTokensFloor`` becomes ``reserve_tokens_floor``; undoes :func:`camel_case`."""
    snake = _CAPITAL.sub(lambda match: f"_{match[0].lower()}", name)
    return f"{snake}_" if iskeyword(snake) else snake
