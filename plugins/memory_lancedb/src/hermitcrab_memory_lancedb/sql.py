"""Predicates of LanceDB: one text for each request, because a second one would replace the first. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(text: str) -> str:
    """A text as a literal; quotes within are doubled."""
    return "'" + text.replace("'", "''") + "'"


def equals(column: str, value: str | int) -> str:
    """``column = value``."""
    return f"{column} = {quoted(value) if isinstance(value, str) else value}"


def among(column: str, values: Iterable[str | int]) -> str:
    """``column IN (…)``; nothing is among no values."""
    literals = [quoted(value) if isinstance(value, str) else str(value) for value in values]
    return f"{column} IN ({', '.join(literals)})" if literals else "false"


def every(*predicates: str) -> str:
    """All of them; blank ones say nothing."""
    return " AND ".join(f"({predicate})" for predicate in predicates if predicate)
