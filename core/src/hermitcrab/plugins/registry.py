"""Registries that plugins fill: each id has one owner, and a failed plugin leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from attrs import frozen

from hermitcrab.errors import PluginError

T = TypeVar("T")


@frozen
class RegistrationResult:
    """Whether a registration took; if not, who owns the id."""

    ok: bool
    existing_owner: str | None = None


class StagedRegistry(Protocol):
    """What the plugin host needs of a registry; :class:`Registry` is one."""

    def register(self, id: str, value: Any, /, *, owner: str) -> RegistrationResult:
        """Take ``value`` under ``id``, unless another owner has it."""

    def find(self, id: str, /) -> Any:
        """What is registered under ``id``, or None."""

    def stage(self, owner: str) -> AbstractContextManager[object]:
        """A transaction: an exception inside undoes what ``owner`` registered inside."""

    def remove_owner(self, owner: str) -> object:
        """Forget everything of an owner."""


@frozen
class _Entry(Generic[T]):
    value: T
    owner: str


class Registry(Generic[T]):
    """Values by id, each with its owner.

    :param name: what the values are called in messages, for example ``tool``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._entries: dict[str, _Entry[T]] = {}

    def register(self, id: str, value: T, /, *, owner: str) -> RegistrationResult:
        """Take ``value`` under ``id``; an owner may replace its own value, nobody another's.

        :raises PluginError: if the id is empty.
        """
        if not isinstance(id, str) or not id.strip():
            raise PluginError(f"a {self.name} needs an id that is not empty", where=owner)
        id = id.strip()
        existing = self._entries.get(id)
        if existing is not None and existing.owner != owner:
            return RegistrationResult(ok=False, existing_owner=existing.owner)
        self._entries[id] = _Entry(value, owner)
        return RegistrationResult(ok=True)

    def find(self, id: str, /) -> T | None:
        """The value under ``id``, or None."""
        entry = self._entries.get(id)
        return None if entry is None else entry.value

    def owner_of(self, id: str) -> str | None:
        """Who registered ``id``, or None."""
        entry = self._entries.get(id)
        return None if entry is None else entry.owner

    def ids(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self._entries)

    def values(self) -> Mapping[str, T]:
        """All values by id, in the order of registration."""
        return MappingProxyType({id: entry.value for id, entry in self._entries.items()})

    def remove_owner(self, owner: str) -> None:
        """Forget everything of an owner."""
        self._entries = {id: e for id, e in self._entries.items() if e.owner != owner}

    @contextmanager
    def stage(self, owner: str) -> Iterator[None]:
        """A transaction: an exception inside undoes what ``owner`` registered inside."""
        before = {id: entry for id, entry in self._entries.items() if entry.owner == owner}
        try:
            yield
        except BaseException:
            self.remove_owner(owner)
            self._entries.update(before)
            raise
