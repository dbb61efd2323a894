"""Messages: their wire shape, builders and converters, sizes, and tool-call pairing."""

from __future__ import annotations

from hermitcrab.messages.build import assistant, tool_call, tool_result, user
from hermitcrab.messages.convert_anthropic import from_anthropic, to_anthropic
from hermitcrab.messages.convert_openai import from_openai, to_openai
from hermitcrab.messages.text import result_call_id, text_of, tool_calls_of
from hermitcrab.messages.types import Message

__all__ = [
    "Message",
    "assistant",
    "from_anthropic",
    "from_openai",
    "result_call_id",
    "text_of",
    "to_anthropic",
    "to_openai",
    "tool_call",
    "tool_calls_of",
    "tool_result",
    "user",
]
