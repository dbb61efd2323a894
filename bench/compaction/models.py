"""Models that summarise badly, each in its own way, and one that counts what another is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hermitcrab.messages import assistant
from hermitcrab.models import ChatModel, ChatReply, ChatRequest
from hermitcrab.models.offline.model import OfflineModel

#: Far more than any request for a summary allows.
_ENDLESS = "And then we looked at the next file, which was much like the one before it. " * 4_000
_PROSE = "We talked about several things and agreed to go on later."
_INVENTED = "\n".join(
    (
        "## Decisions\n- The service was moved to https://invented.example.com:4431/v9.",
        "## Open TODOs\n- Rotate deadbeefcafef00d12345678.",
        "## Constraints/Rules\nNone.",
        "## Pending user asks\n- Delete /var/lib/invented/everything.db.",
        "## Exact identifiers\n- 6f1f2f3f-aaaa-4bbb-8ccc-0123456789ab\n- /no/such/place/at_all.py",
    )
)
_EMPTY_SECTIONS = "\n".join(
    (
        "## Decisions\n- Some things were decided.",
        "## Open TODOs\nNone.",
        "## Constraints/Rules\nNone.",
        "## Pending user asks\nNone.",
        "## Exact identifiers\nNone captured.",
    )
)


class BrokenConnectionError(Exception):
    """What a model raises that breaks down while it writes."""


class CountingModel(ChatModel):
    """Passes requests on and counts them."""

    def __init__(self, inner: ChatModel) -> None:
        self.inner = inner
        self.calls = 0

    @property
    def id(self) -> str:  # type: ignore[override]
        return self.inner.id

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return await self.inner.complete(request)

    async def context_window(self) -> int | None:
        return await self.inner.context_window()

    async def close(self) -> None:
        await self.inner.close()


class _Saying(ChatModel):
    """Always gives the same answer."""

    def __init__(self, name: str, text: str) -> None:
        self.id = f"hostile/{name}"
        self._text = text

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply(message=assistant(self._text))


class _RaisingMidway(ChatModel):
    """Answers every other request, so that it breaks down within a summary of several parts."""

    id = "hostile/raises-midway"

    def __init__(self) -> None:
        self._asked = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self._asked += 1
        if self._asked % 2 == 0:
            raise BrokenConnectionError("the connection broke while the summary was being written")
        return ChatReply(message=assistant(_EMPTY_SECTIONS))


class _Hanging(ChatModel):
    """Never answers."""

    id = "hostile/hangs"

    async def complete(self, request: ChatRequest) -> ChatReply:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


#: The models that need no server, by name.
BUILT_IN: dict[str, Callable[[], ChatModel]] = {
    "offline": OfflineModel,
    "empty": lambda: _Saying("empty", ""),
    "too-long": lambda: _Saying("too-long", _ENDLESS),
    "drops-identifiers": lambda: _Saying("drops-identifiers", _EMPTY_SECTIONS),
    "invents": lambda: _Saying("invents", _INVENTED),
    "ignores-format": lambda: _Saying("ignores-format", _PROSE),
    "raises-midway": _RaisingMidway,
    "hangs": _Hanging,
}
