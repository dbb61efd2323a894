"""Chat models: the contract, servers that speak the OpenAI protocol, and the offline model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermitcrab.models.contract import (
        ChatModel,
        ChatReply,
        ChatRequest,
        TextDelta,
        TokenUsage,
        ToolSchema,
    )
    from hermitcrab.models.offline.model import OfflineModel
    from hermitcrab.models.openai_compatible import OpenAICompatibleModel

__all__ = [
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "OfflineModel",
    "OpenAICompatibleModel",
    "TextDelta",
    "TokenUsage",
    "ToolSchema",
]

_HOMES = dict.fromkeys(__all__, "hermitcrab.models.contract") | {
    "OfflineModel": "hermitcrab.models.offline.model",
    "OpenAICompatibleModel": "hermitcrab.models.openai_compatible",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return list(__all__)
