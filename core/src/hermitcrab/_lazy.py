"""Public names that are loaded when they are first used, so that importing a package stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package.

    :param homes: each public name and the module that has it; a module that is a name itself stands for itself.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, name)

    def names() -> list[str]:
        return sorted(homes)

    return load, names
