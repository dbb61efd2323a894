"""The chat model that needs no network: it quotes, sorts and cuts, and never invents."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from hermitcrab.messages.build import assistant
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatReply, ChatRequest, TextDelta
from hermitcrab.models.offline.flush import NO_REPLY, WRITE_TOOL, flush
from hermitcrab.models.offline.summary import merge, summarise
from hermitcrab.models.offline.turn import MEMORY_TOOL, MemoryQuery, take_turn

_PROVIDER, _NAME = "offline", "extractive"
#: Tokens; what a model is given where nobody says otherwise (design 7).
CONTEXT_WINDOW = 32_000
_DELTA = re.compile(r"\s*\S+\s*")


class OfflineModel(ChatModel):
    """Answers by rule, from the request alone: the same request gets the same answer (design 7).

    It acts on the request's ``purpose``: ``summarise`` and ``merge`` give the five sections of context 5.4, ``flush``
    writes durable lines with the tool ``write`` or says ``NO_REPLY``, ``turn`` searches memory with the tool
    ``memory_search`` and quotes what it finds.
    """

    id = f"{_PROVIDER}/{_NAME}"

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await asyncio.to_thread(_reply, request)

    async def context_window(self) -> int | None:
        """As large as any: only ``agents.defaults.contextTokens`` limits it."""
        return CONTEXT_WINDOW

    async def stream(self, request: ChatRequest) -> AsyncIterator[TextDelta | ChatReply]:
        reply = await self.complete(request)
        for piece in _DELTA.findall(reply.text):
            yield TextDelta(piece)
        yield reply


def _reply(request: ChatRequest) -> ChatReply:
    if request.purpose == "summarise":
        return _text_reply(summarise(request))
    if request.purpose == "merge":
        return _text_reply(merge(request))
    if request.purpose == "flush":
        notes = flush(request)
        if notes is None:
            return _text_reply(NO_REPLY)
        arguments = {"path": notes.path, "content": notes.content}
        return _call_reply(request.messages, WRITE_TOOL, arguments)
    taken = take_turn(request)
    if isinstance(taken, MemoryQuery):
        return _call_reply(request.messages, MEMORY_TOOL, {"query": taken.query})
    return _text_reply(taken.text)


def _text_reply(text: str) -> ChatReply:
    return ChatReply(message=assistant(text, provider=_PROVIDER, model=_NAME))


def _call_reply(messages: Sequence[Message], tool: str, arguments: Mapping[str, Any]) -> ChatReply:
    call_id = _call_id(messages, f"{tool} {sorted(arguments.items())}")
    call: Any = {"id": call_id, "name": tool, "arguments": arguments}
    return ChatReply(message=assistant("", tool_calls=[call], provider=_PROVIDER, model=_NAME))


def _call_id(messages: Sequence[Message], content: str) -> str:
    """An id that follows from the request and that no call of the conversation has."""
    taken = {call["id"] for message in messages for call in tool_calls_of(message)}
    count = len(messages)
    while True:
        digest = hashlib.sha256(f"{count} {content}".encode("utf-8", "replace")).hexdigest()
        call_id = f"call_{digest[:16]}"
        if call_id not in taken:
            return call_id
        count += 1
