"""What every hook event is built on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import attrs
from attrs import frozen

R_co = TypeVar("R_co", covariant=True)


@frozen
class HookEvent(Generic[R_co]):
    """The base of all events; the type parameter is the result class, None where a hook only observes.

    Events are frozen, and what they carry is shared with the host: read it, do not change it.
    """

    hook: ClassVar[str] = ""


def _as_tuple(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(items)


def shared(*, default: Any = attrs.NOTHING) -> Any:
    """A field for a sequence that handlers share: kept as a tuple, so that none of them can change it."""
    return attrs.field(converter=_as_tuple, default=default)
