"""Which plugin is being loaded right now, so that what is registered meanwhile belongs to it and can be undone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

logger = logging.getLogger("hermitcrab.plugins")


class LoadingPlugin:
    """The plugin that is being imported and registered.

    :param owner: how registries call it: ``core`` or ``plugin:<id>``.
    """

    def __init__(self, plugin_id: str, owner: str) -> None:
        self.plugin_id = plugin_id
        self.owner = owner
        self._undo: list[Callable[[], object]] = []

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` if the plugin fails to load; the latest first."""
        self._undo.append(undo)

    def roll_back(self) -> None:
        """Undo everything, once; an undo that fails does not keep the others from running."""
        while self._undo:
            try:
                self._undo.pop()()
            except Exception:
                logger.exception("could not undo a registration of plugin %s", self.plugin_id)


#: None outside of loading.
plugin_being_loaded: ContextVar[LoadingPlugin | None] = ContextVar(
    "plugin_being_loaded", default=None
)


@contextmanager
def loading(plugin: LoadingPlugin) -> Iterator[LoadingPlugin]:
    """Name ``plugin`` as the one being loaded; an exception rolls back what was registered meanwhile."""
    token = plugin_being_loaded.set(plugin)
    try:
        yield plugin
    except BaseException:
        plugin.roll_back()
        raise
    finally:
        plugin_being_loaded.reset(token)
