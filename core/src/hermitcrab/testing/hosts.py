"""A host in a home of its own, with a model that says what a test tells it and a clock that a test moves."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hermitcrab.agent.host import Host
from hermitcrab.messages.build import assistant
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatReply, ChatRequest
from hermitcrab.models.offline.model import OfflineModel

MAIN = "agent:main:main"


class ScriptedModel(ChatModel):
    """Answers turns from a script, one item a call; summaries and flushes come from the offline model.

    An item is a text, a message, an exception to raise, or a function of the request that returns one of these. At the
    end of the script the answer is ``ok``. ``requests`` holds the requests of turns.
    """

    id = "scripted/model"

    def __init__(self, *script: Any, window: int = 32_000) -> None:
        self.script: list[Any] = list(script)
        self.requests: list[ChatRequest] = []
        self._window = window
        self._offline = OfflineModel()

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.purpose != "turn":
            return await self._offline.complete(request)
        self.requests.append(request)
        item: Any = self.script.pop(0) if self.script else "ok"
        while callable(item):
            item = item(request)
            if inspect.isawaitable(item):
                item = await item
        if isinstance(item, BaseException):
            raise item
        return ChatReply(message=assistant(item, model="model") if isinstance(item, str) else item)

    async def context_window(self) -> int | None:
        return self._window


class SteppingClock:
    """A clock that stands still until it is moved; it begins at a moment of its own, in UTC."""

    def __init__(self, start: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> datetime:
        """Go on by what :class:`~datetime.timedelta` takes, such as ``hours=3``."""
        self.now += timedelta(**by)
        return self.now


class Hermit:
    """What the fixture ``hermit`` gives: ``home``, ``model``, ``clock``, and hosts over them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.model = ScriptedModel()
        self.clock = SteppingClock()
        self._hosts = AsyncExitStack()

    async def open(
        self,
        *script: Any,
        config: Mapping[str, Any] | None = None,
        plugins: Sequence[tuple[str, Any]] = (),
        model: ChatModel | None = None,
    ) -> Host:
        """A host in the home; an earlier one that is still open goes on beside it, as another process would.

        :param script: what the model says in the coming turns.
        :param config: a mapping in the shape of config.yaml, which is written; without it the file stays as it is.
        :param plugins: plugins given in code, as (id, module or instance).
        :raises ConfigError: the config is wrong.
        """
        self.model.script.extend(script)
        self.home.mkdir(parents=True, exist_ok=True)
        if config is not None:
            import yaml

            text = yaml.safe_dump(json.loads(json.dumps(config)), allow_unicode=True)
            (self.home / "config.yaml").write_text(text, encoding="utf-8")
        opening = Host.open(
            home=self.home,
            model=self.model if model is None else model,
            plugins=list(plugins),
            clock=self.clock,
            environ={},
        )
        return await self._hosts.enter_async_context(opening)

    async def say(self, *texts: str, key: str = MAIN, **options: Any) -> list[str]:
        """Open a host, say something in one session, close it, and return the replies."""
        before, self._hosts = self._hosts, AsyncExitStack()
        try:
            host = await self.open(**options)
            return [(await host.send(key, text)).text for text in texts]
        finally:
            await self._hosts.aclose()
            self._hosts = before

    def transcript(self, key: str = MAIN) -> list[Message]:
        """The messages of all transcripts of a key's agent, as they stand on disk, oldest file first."""
        folder = self.home / "agents" / key.split(":")[1] / "sessions"
        lines = [
            json.loads(line)
            for file in sorted(folder.glob("*.jsonl"), key=lambda each: each.stat().st_mtime_ns)
            for line in file.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
        return [entry["message"] for entry in lines if entry["type"] == "message"]

    async def close(self) -> None:
        """Close every host that is open."""
        await self._hosts.aclose()


def calling(name: str, call_id: str = "call_1", /, **arguments: Any) -> Message:
    """An assistant message with one tool call, for a script."""
    return assistant("", tool_calls=[{"id": call_id, "name": name, "arguments": arguments}])


def plugin_of(*functions: Callable[..., Any]) -> Any:
    """A plugin that carries these functions, each marked with ``hookimpl``."""
    return SimpleNamespace(**{function.__name__: function for function in functions})
