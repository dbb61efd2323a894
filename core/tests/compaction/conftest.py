"""A scripted model, random conversations, and a session on disk to compact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen
from hypothesis import strategies as st

from hermitcrab.compaction.budget import Budget, make_budget
from hermitcrab.compaction.runtime import Compactor
from hermitcrab.compaction.summarise import Summariser
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatReply, ChatRequest
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

#: A text is the answer, an exception is raised, ``None`` never answers, a function makes one of these.
Step = Any

NOTES = "\n".join(
    (
        "## Decisions\n- The port is 8443.",
        "## Open TODOs\n- Write the tests.",
        "## Constraints/Rules\n- Never push on Friday.",
        "## Pending user asks\n- Fix the login.",
        "## Exact identifiers\n- localhost:8443",
    )
)


class ScriptedModel(ChatModel):
    """Answers step after step; the last step repeats for ever. It keeps every request."""

    id = "scripted/model"

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps) or [NOTES]
        self.requests: list[ChatRequest] = []
        self.cancelled = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if callable(step) and not isinstance(step, type):
            step = step(request)
        if step is None:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        if isinstance(step, BaseException):
            raise step
        return ChatReply(message=assistant(str(step)))

    @property
    def texts(self) -> list[str]:
        """What the requests said, system prompt first."""
        return [
            "\n".join(
                [request.system, *(m["content"][0]["text"] for m in request.messages)]  # type: ignore[index]
            )
            for request in self.requests
        ]


@frozen(kw_only=True)
class FlushSettings:
    soft_threshold_tokens: int = 4_000


@frozen(kw_only=True)
class QualityGuard:
    enabled: bool = True
    max_retries: int = 1


@frozen(kw_only=True)
class Settings:
    """``agents.defaults.compaction`` with its defaults."""

    reserve_tokens: int = 16_384
    reserve_tokens_floor: int = 20_000
    keep_recent_tokens: int = 20_000
    memory_flush: FlushSettings = field(factory=FlushSettings)
    custom_instructions: str | None = None
    identifier_policy: str = "strict"
    keep_credentials: bool = False
    identifier_instructions: str | None = None
    mode: str = "default"
    provider: str | None = None
    recent_turns_preserve: int = 3
    max_history_share: float = 0.5
    post_compaction_sections: tuple[str, ...] = ()
    quality_guard: QualityGuard = field(factory=QualityGuard)


@define
class Bench:
    """A session on disk and everything that compacts it."""

    folder: Path
    log: SessionLog
    sessions: Sessions
    counter: TokenCounter = field(factory=TokenCounter)
    settings: Settings = field(factory=Settings)
    events: list[Any] = field(factory=list)
    decision: Any = None
    on_event: Callable[[Any], Awaitable[None]] | None = None
    timeout_s: float = 20.0

    def budget(self, window: int = 8_000, fixed: int = 500) -> Budget:
        return make_budget(window, fixed, self.settings)

    async def fire(self, event: Any) -> Any:
        self.events.append(event)
        if self.on_event is not None:
            await self.on_event(event)
        return self.decision if event.hook == "session_before_compact" else None

    def compactor(self, model: ChatModel, window: int = 8_000) -> Compactor:
        def summariser(one: ChatModel) -> Summariser:
            return Summariser(one, self.counter, window=window, timeout_s=self.timeout_s)

        return Compactor(
            self.log,
            view=ViewBuilder(self.counter),
            counter=self.counter,
            settings=self.settings,
            summariser=summariser(model),
            fallback=summariser(OfflineModel()),
            fire=self.fire,
        )

    async def compact(self, model: ChatModel, *, window: int = 8_000, **options: Any) -> Any:
        options = {"trigger": "manual", "must_fit": False, **options}
        return await self.compactor(model, window).compact(self.budget(window), **options)

    def kinds(self) -> list[str]:
        return [entry["type"] for entry in self.log.path]

    def compaction_entry(self) -> Any:
        (entry,) = [entry for entry in self.log.path if entry["type"] == "compaction"]
        return entry


def _work(turns: int, words: int = 60) -> list[Message]:
    """Turns of a question, a call, its result and an answer, each with identifiers of its own."""
    messages: list[Message] = []
    for turn in range(turns):
        path = f"/srv/app/module_{turn}/settings.toml"
        call: Any = {"id": f"call_{turn}", "name": "read", "arguments": {"path": path}}
        messages += [
            user(f"Please look at module {turn}. " + "Say what you find there. " * (words // 6)),
            assistant("I read its settings.", tool_calls=[call]),
            tool_result(
                f"call_{turn}", "read", f"build = {turn:08x}ab\n" + "key = value\n" * words
            ),
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
def settings() -> type[Settings]:
    return Settings


@pytest.fixture(scope="session")
def flush_settings() -> type[FlushSettings]:
    return FlushSettings


@pytest.fixture(scope="session")
def work() -> Callable[..., list[Message]]:
    return _work


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    sessions = Sessions(
        store=JsonlTranscriptStore(tmp_path / "sessions"),
        entries=SessionEntries(tmp_path / "sessions.sqlite"),
        clock=lambda: datetime.now(UTC),
        cwd=str(tmp_path),
    )
    log = await sessions.open("agent:main:main")
    yield Bench(tmp_path, log, sessions)
    await sessions.close()


_CHARACTERS = st.sampled_from("ab Z09.,:/-_#<>[]\n\té中文的👍🏽…")
_TEXTS = st.builds(
    lambda piece, times: (piece * times)[:6_000],
    st.text(_CHARACTERS, max_size=60),
    st.sampled_from([1, 1, 3, 40, 400]),
)


def _round(calls: int, answered: int, texts: Sequence[str], broken: bool) -> list[Message]:
    ids = [f"c{number}" for number in range(calls)]
    made: list[Any] = [
        {"id": one, "name": "read", "arguments": {"path": texts[0][:300], "limit": 5}}
        for one in ids
    ]
    reason = "aborted" if broken else None
    results = [tool_result(one, "read", texts[-1], timestamp=1) for one in ids[:answered]]
    return [
        assistant(texts[0][:200], tool_calls=made, stop_reason=reason, timestamp=1),
        *results,
    ]


@pytest.fixture(scope="session")
def conversations() -> st.SearchStrategy[list[Message]]:
    """Conversations with rounds of tool calls, unanswered calls, aborted ones and stray results."""
    plain = st.builds(lambda text: [user(text, timestamp=1)], _TEXTS)
    spoken = st.builds(lambda text: [assistant(text, timestamp=1)], _TEXTS)
    stray = st.builds(lambda text: [tool_result("gone", "read", text, timestamp=1)], _TEXTS)
    shell = st.builds(
        lambda text: [{"role": "bashExecution", "command": "make", "output": text}], _TEXTS
    )
    custom = st.builds(
        lambda text: [{"role": "custom", "customType": "note", "content": text}], _TEXTS
    )
    rounds = st.integers(1, 3).flatmap(
        lambda calls: st.builds(
            _round,
            st.just(calls),
            st.integers(0, calls),
            st.lists(_TEXTS, min_size=1, max_size=2),
            st.sampled_from([False, False, False, True]),
        )
    )
    pieces = st.one_of(plain, spoken, rounds, rounds, stray, shell, custom)
    return st.lists(pieces, max_size=14).map(lambda found: [one for part in found for one in part])


@pytest.fixture(scope="session")
def texts() -> st.SearchStrategy[str]:
    return _TEXTS
