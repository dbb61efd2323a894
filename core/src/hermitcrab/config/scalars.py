"""Single values as they arrive from YAML or from the environment."""

from __future__ import annotations

__all__ = ["FromEnvironment", "read_boolean", "read_number"]

_SWITCH_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class FromEnvironment(str):
    """A text into which variables of the environment were put; ``source`` is what the file says.

    Messages show ``source``: what a variable holds may be a secret.
    """

    source: str

    def __new__(cls, text: str, source: str) -> FromEnvironment:
        instance = super().__new__(cls, text)
        instance.source = source
        return instance


def read_boolean(value: object) -> bool | None:
    """A boolean, or one of the words that YAML 1.1 takes for one; None for anything else."""
    if isinstance(value, bool):
        return value
    return _SWITCH_WORDS.get(value.strip().lower()) if isinstance(value, str) else None


def read_number(value: object) -> object:
    """A text from the environment as the number it spells; everything else as it is."""
    if not isinstance(value, FromEnvironment):
        return value
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value
