"""What whole-system tests share: a model that says what a test tells it, and a host in a fresh home."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hermitcrab import Host
from hermitcrab.errors import ModelError
from hermitcrab.messages import Message, assistant
from hermitcrab.models import ChatModel, ChatReply, ChatRequest, OfflineModel, TextDelta


class ScriptedModel(ChatModel):
    """Answers turns from a script, one item a call; flushes and summaries come from the offline model.

    An item is a text, a message, an exception to raise, or a function of the request that returns one of these. When
    the script is at its end, the answer is ``ok``. ``requests`` holds the requests of turns.
    """

    id = "scripted/model"

    def __init__(self, *script: Any, window: int = 32_000) -> None:
        self.script = list(script)
        self.window = window
        self.requests: list[ChatRequest] = []
        self.purposes: list[str] = []
        self.failing: dict[str, ModelError] = {}
        self.closed = False
        self._offline = OfflineModel()

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.purposes.append(request.purpose)
        if request.purpose in self.failing:
            raise self.failing[request.purpose]
        if request.purpose != "turn":
            return await self._offline.complete(request)
        self.requests.append(request)
        item = self.script.pop(0) if self.script else "ok"
        while callable(item):
            item = item(request)
            if inspect.isawaitable(item):
                item = await item
        if isinstance(item, BaseException):
            raise item
        return ChatReply(message=assistant(item, model="model") if isinstance(item, str) else item)

    async def context_window(self) -> int | None:
        return self.window

    async def close(self) -> None:
        self.closed = True


class HangingModel(ScriptedModel):
    """Says a word and then nothing more; ``cancelled`` tells whether its request was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()
        self.cancelled = False
        self.hangs = True

    async def stream(self, request: ChatRequest) -> AsyncIterator[TextDelta | ChatReply]:
        if not self.hangs:
            yield await self.complete(request)
            return
        yield TextDelta("Well,")
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def calling(name: str, call_id: str = "call_1", /, **arguments: Any) -> Message:
    """An assistant message with one tool call."""
    return assistant("", tool_calls=[{"id": call_id, "name": name, "arguments": arguments}])


def entries_of(file: Path) -> list[dict[str, Any]]:
    """The lines of a transcript."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def stored_messages(file: Path) -> list[dict[str, Any]]:
    """The messages of a transcript, as they stand on disk."""
    return [entry["message"] for entry in entries_of(file) if entry["type"] == "message"]


def plugin(*functions: Callable[..., Any]) -> Any:
    """A plugin that carries these marked functions."""
    return SimpleNamespace(**{function.__name__: function for function in functions})


@pytest.fixture
def crab() -> SimpleNamespace:
    """The helpers above, under one name."""
    return SimpleNamespace(
        ScriptedModel=ScriptedModel,
        HangingModel=HangingModel,
        calling=calling,
        entries_of=entries_of,
        stored_messages=stored_messages,
        plugin=plugin,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def open_host(home: Path) -> Callable[..., Any]:
    """Opens a host in ``home``; ``config`` is a mapping in the shape of config.yaml."""

    def open_in_home(
        model: ChatModel | None = None, *, config: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.yaml").write_text(yaml.safe_dump(config or {}), encoding="utf-8")
        options.setdefault("environ", {})
        return Host.open(home=home, model=model, **options)

    return open_in_home
