"""Chat models: the contract, servers that speak the OpenAI protocol, and the offline model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermitcrab._lazy import lazy_names

if TYPE_CHECKING:
    from hermitcrab.models.anthropic import AnthropicModel
    from hermitcrab.models.contract import (
        ChatModel,
        ChatReply,
        ChatRequest,
        TextDelta,
        ThinkingDelta,
        TokenUsage,
        ToolSchema,
    )
    from hermitcrab.models.offline.model import OfflineModel
    from hermitcrab.models.openai_compatible import OpenAICompatibleModel

__all__ = [
    "AnthropicModel",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "OfflineModel",
    "OpenAICompatibleModel",
    "TextDelta",
    "ThinkingDelta",
    "TokenUsage",
    "ToolSchema",
]

_HOMES = dict.fromkeys(__all__, "hermitcrab.models.contract") | {
    "AnthropicModel": "hermitcrab.models.anthropic",
    "OfflineModel": "hermitcrab.models.offline.model",
    "OpenAICompatibleModel": "hermitcrab.models.openai_compatible",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
