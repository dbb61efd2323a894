"""One compaction of a long conversation: how long it takes, and how long it keeps the event loop from going on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve, frozen

from hermitcrab import Host
from hermitcrab.config import Config
from hermitcrab.messages.types import Message
from hermitcrab.models import OfflineModel
from hermitcrab.sessions.reading import read_transcript

from .checks import messages_of

_KEY = "agent:main:main"
_BEAT_S = 0.001


@frozen(kw_only=True)
class Scaling:
    """One compaction by the offline model in a window of 128,000 tokens."""

    messages: int
    tokens_before: int
    tokens_after: int
    seconds: float
    longest_stall_ms: float


async def measure_scaling(session: Path, size: int) -> Scaling:
    """Compact a conversation of ``size`` messages, those of ``session`` over and over."""
    recorded = messages_of(read_transcript(session).branch())
    with TemporaryDirectory(prefix="hermitcrab-bench-") as folder:
        config = _config()
        async with Host.open(home=folder, config=config, model=OfflineModel()) as host:
            handle = await host.session(_KEY)
            for message in _repeated(recorded, size):
                await handle.append(message)
            stalls: list[float] = []
            watch = asyncio.create_task(_watch(stalls))
            started = time.perf_counter()
            outcome = await host.compact(_KEY)
            seconds = time.perf_counter() - started
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
    return Scaling(
        messages=size,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after or 0,
        seconds=round(seconds, 3),
        longest_stall_ms=round(max(stalls, default=0.0) * 1000, 1),
    )


def _config() -> Config:
    config = Config()
    defaults = config.agents.defaults
    flush = evolve(defaults.compaction.memory_flush, enabled=False)
    compaction = evolve(defaults.compaction, memory_flush=flush)
    defaults = evolve(defaults, context_tokens=128_000, compaction=compaction)
    return evolve(config, agents=evolve(config.agents, defaults=defaults))


def _repeated(messages: list[Message], size: int) -> itertools.islice[Message]:
    """Messages over and over; calls keep their ids, which are unique within a round."""
    return itertools.islice(itertools.cycle(messages), size)


async def _watch(stalls: list[float]) -> None:
    """Note how much later than it should the loop comes back."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(_BEAT_S)
        stalls.append(time.perf_counter() - before - _BEAT_S)
