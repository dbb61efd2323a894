"""Single memories: the contract of a store of them, and how they are captured, recalled and told to a model.

A memory backend that keeps single memories has a :class:`LongTermStore` as its ``long_term``. The host then offers
the tools ``memory_store``, ``memory_recall`` and ``memory_forget`` and the commands ``hermitcrab ltm``; recall before
a turn and capture after it are a few lines in the plugin's own hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermitcrab._lazy import lazy_names

if TYPE_CHECKING:
    from hermitcrab.memory.longterm.capturing import (
        Capturer,
        capture_report,
    )
    from hermitcrab.memory.longterm.contract import (
        CATEGORIES,
        Category,
        LongTermStore,
        Memory,
        MemorySource,
        MigrationReport,
        RecallResult,
        StoreStats,
        category_of,
        checked_scope,
        is_memory_id,
        new_memory_id,
        source_of,
    )
    from hermitcrab.memory.longterm.filtering import (
        MemoryFilter,
        MemoryOrder,
    )
    from hermitcrab.memory.longterm.recalling import (
        Recaller,
        recall_for_prompt,
    )
    from hermitcrab.memory.longterm.remembering import (
        Remembered,
        remember,
    )
    from hermitcrab.memory.longterm.sanitising import (
        sanitised,
        without_recalled,
    )
    from hermitcrab.memory.longterm.settings import (
        LongTermSettings,
    )

__all__ = [
    "CATEGORIES",
    "Capturer",
    "Category",
    "LongTermSettings",
    "LongTermStore",
    "Memory",
    "MemoryFilter",
    "MemoryOrder",
    "MemorySource",
    "MigrationReport",
    "RecallResult",
    "Recaller",
    "Remembered",
    "StoreStats",
    "capture_report",
    "category_of",
    "checked_scope",
    "is_memory_id",
    "new_memory_id",
    "recall_for_prompt",
    "remember",
    "sanitised",
    "source_of",
    "without_recalled",
]

_PACKAGE = "hermitcrab.memory.longterm"
_HOMES = dict.fromkeys(__all__, f"{_PACKAGE}.contract") | {
    "Capturer": f"{_PACKAGE}.capturing",
    "capture_report": f"{_PACKAGE}.capturing",
    "MemoryFilter": f"{_PACKAGE}.filtering",
    "MemoryOrder": f"{_PACKAGE}.filtering",
    "Recaller": f"{_PACKAGE}.recalling",
    "recall_for_prompt": f"{_PACKAGE}.recalling",
    "Remembered": f"{_PACKAGE}.remembering",
    "remember": f"{_PACKAGE}.remembering",
    "sanitised": f"{_PACKAGE}.sanitising",
    "without_recalled": f"{_PACKAGE}.sanitising",
    "LongTermSettings": f"{_PACKAGE}.settings",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
