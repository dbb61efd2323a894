"""A scripted model, and a host whose session is long enough to be compacted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermitcrab import Host
from hermitcrab.messages import Message, assistant, text_of, tool_result, user
from hermitcrab.models import ChatModel, ChatReply, ChatRequest, OfflineModel

KEY = "agent:main:main"
NOTES = "\n".join(
    (
        "## Decisions\n- Module 3 uses port 9003.",
        "## Open TODOs\n- Find the rest of the modules.",
        "## Constraints/Rules\n- Never push on Friday.",
        "## Pending user asks\n- Look at the module, say what is there.",
        "## Exact identifiers\nNone captured.",
    )
)


class ScriptedModel(ChatModel):
    """Answers requests for summaries step after step, the last step for ever.

    A text is the answer, an exception is raised, ``None`` never answers, a function of the request makes one of these.
    """

    id = "scripted/model"

    def __init__(self, *steps: Any, window: int = 16_000) -> None:
        self._steps = list(steps) or [NOTES]
        self._window = window
        self._offline = OfflineModel()
        self.requests: list[ChatRequest] = []
        self.cancelled = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.purpose not in ("summarise", "merge"):
            return await self._offline.complete(request)
        self.requests.append(request)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if callable(step):
            step = step(request)
        if step is None:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        if isinstance(step, BaseException):
            raise step
        return ChatReply(message=assistant(step))

    async def context_window(self) -> int | None:
        return self._window

    @property
    def systems(self) -> list[str]:
        """The system prompts of the requests."""
        return [str(request.system) for request in self.requests]

    @property
    def texts(self) -> list[str]:
        """What the requests said."""
        return ["\n".join(map(text_of, request.messages)) for request in self.requests]


def work(turns: int) -> list[Message]:
    """Turns of a question, a call, its result and an answer, each with identifiers of its own."""
    messages: list[Message] = []
    for turn in range(turns):
        path = f"/srv/app/module_{turn}/settings.toml"
        call: Any = {"id": f"call_{turn}", "name": "read", "arguments": {"path": path}}
        result = f"build = {turn:08x}ab\n" + "key = value\n" * 30
        messages += [
            user(f"Please look at module {turn}. " + "Say what you find there. " * 20),
            assistant("I read its settings.", tool_calls=[call]),
            tool_result(f"call_{turn}", "read", result, is_error=turn % 5 == 0),
            assistant(f"We decided to use port {9000 + turn} for module {turn}. " * 3),
        ]
    return messages


@pytest.fixture(scope="session")
def scripted() -> type[ScriptedModel]:
    return ScriptedModel


@pytest.fixture(scope="session")
def notes() -> str:
    """A summary as a model should write it."""
    return NOTES


@pytest.fixture(scope="session")
def conversation() -> Callable[[int], list[Message]]:
    return work


class Compaction:
    """What a compaction came to: the outcome, and the entry in the transcript where there is one."""

    def __init__(self, outcome: Any, entry: Any, host: Host) -> None:
        self.outcome = outcome
        self.entry = entry
        self.diagnostics = [str(each) for each in host.plugins.diagnostics]

    @property
    def safeguard(self) -> Any:
        return self.entry["details"]["safeguard"]


@pytest.fixture
def compact(tmp_path: Path) -> Callable[..., Any]:
    """Fills a session, compacts it by hand (``times`` times) and says what came of the last one."""

    async def run(
        model: ChatModel,
        messages: Sequence[Message] | None = None,
        *,
        times: int = 1,
        focus: str | None = None,
        plugins: Sequence[Any] = (),
        **settings: Any,
    ) -> Compaction:
        settings = {"mode": "safeguard", **settings}
        config = {"agents": {"defaults": {"compaction": settings}}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        async with Host.open(home=tmp_path, model=model, environ={}, plugins=plugins) as host:
            session = await host.session(KEY)
            for message in work(25) if messages is None else messages:
                await session.append(message)
            for _ in range(times):
                outcome = await host.compact(KEY, instructions=focus)
            entries = (await host.open_session(KEY)).log.path
            found = [entry for entry in entries if entry["type"] == "compaction"]
            return Compaction(outcome, found[-1] if found else None, host)

    return run
