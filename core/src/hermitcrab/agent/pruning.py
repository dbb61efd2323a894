"""What pruning has done in a session, kept in its transcript as markers (context 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from attrs import field, frozen

from hermitcrab.config.units import parse_duration_ms
from hermitcrab.messages.pruning import (
    Pruning,
    PruningRules,
    ToolResultPruner,
    without_old_images,
)
from hermitcrab.messages.types import Message
from hermitcrab.sessions.format import Entry

#: The entry that says when the prompt cache was touched last, and what was pruned since the marker before.
MARKER = "hermitcrab.cache-ttl"
_MARKERS = frozenset({MARKER, "openclaw.cache-ttl"})
#: Providers that keep a prompt cache, and names of models that others offer with one.
_CACHING_PROVIDERS = frozenset({"anthropic", "google", "openai"})
_CACHING_MODELS = ("claude", "gemini")


class PruningSettings(PruningRules, Protocol):
    """``agents.defaults.contextPruning``."""

    @property
    def mode(self) -> Literal["off", "cache-ttl", "age"]: ...
    @property
    def ttl(self) -> str: ...


@frozen(kw_only=True)
class PruningState:
    """What the markers on a branch say: when a model's cache was touched, in ms since the epoch, and what is pruned."""

    touched: dict[str, int] = field(factory=dict)
    decided: dict[str, Pruning] = field(factory=dict)


def has_prompt_cache(model_id: str) -> bool:
    """Whether a model's provider is known to keep a prompt cache, which pruning must not break."""
    provider, _, name = model_id.lower().partition("/")
    return provider in _CACHING_PROVIDERS or any(part in name for part in _CACHING_MODELS)


def state_of(path: Iterable[Entry]) -> PruningState:
    """What the markers of a branch add up to; what a compaction took away has left the branch with them."""
    state = PruningState()
    for entry in path:
        if entry["type"] != "custom" or entry.get("customType") not in _MARKERS:
            continue
        data = entry.get("data")
        if not isinstance(data, dict):
            continue
        timestamp = data.get("timestamp")
        if isinstance(timestamp, int):
            state.touched[f"{data.get('provider')}/{data.get('modelId')}"] = timestamp
        pruned = data.get("pruned")
        if isinstance(pruned, dict):
            known = {key: value for key, value in pruned.items() if value in {"trimmed", "cleared"}}
            state.decided.update(known)
    return state


class SessionPruner:
    """Prunes what the model sees of one session; nothing here touches its messages on disk."""

    def __init__(
        self, settings: PruningSettings, measure: Callable[[Sequence[Message]], int]
    ) -> None:
        self._settings = settings
        self._measure = measure
        self._pruner = ToolResultPruner(settings)
        self._ttl_ms = parse_duration_ms(settings.ttl, default_unit="m")
        self._touched: dict[str, int] = {}
        self._fresh: dict[str, Pruning] = {}

    def prune(
        self,
        messages: Sequence[Message],
        path: Iterable[Entry],
        *,
        window: int,
        model_id: str,
        now_ms: int,
    ) -> Sequence[Message]:
        """Messages as the model gets them; they are the very list where nothing is pruned."""
        mode = self._settings.mode
        if mode == "off":
            return messages
        messages = without_old_images(messages)
        if mode == "age":
            return self._pruner.show(messages, self._pruner.older_than_turns(messages))
        state = state_of(path)
        decided = {**state.decided, **self._fresh}
        touched = max(self._touched.get(model_id, 0), state.touched.get(model_id, 0))
        if has_prompt_cache(model_id) and touched and now_ms - touched >= self._ttl_ms:
            fresh = self._pruner.decide(messages, decided, window=window, measure=self._measure)
            self._fresh.update(fresh)
            decided.update(fresh)
        self._touched[model_id] = now_ms
        return self._pruner.show(messages, decided)

    def take_marker(self, model_id: str, *, compacted: bool) -> dict[str, object] | None:
        """The data of the marker to append at the end of a turn; ``None`` if there is nothing to say.

        After a compaction the cache is not worth what it was, so that its touch is not recorded (context 7).
        """
        if self._settings.mode != "cache-ttl" or not has_prompt_cache(model_id):
            return None
        touched = self._touched.get(model_id)
        if touched is None or (compacted and not self._fresh):
            return None
        provider, _, name = model_id.partition("/")
        marker: dict[str, object] = {"provider": provider, "modelId": name}
        if not compacted:
            marker["timestamp"] = touched
        if self._fresh:
            marker["pruned"] = dict(self._fresh)
            self._fresh.clear()
        return marker

    def describe(self, path: Iterable[Entry], model_id: str) -> str | None:
        """Pruning in one line, for people; ``None`` where it is off (P18: why nothing is pruned is visible)."""
        mode = self._settings.mode
        if mode == "off":
            return None
        if mode == "age":
            return f"results older than {self._settings.keep_turns} turns are cleared"
        if not has_prompt_cache(model_id):
            return (
                f"nothing: {model_id} is not known to have a prompt cache. The mode age works "
                "with any provider"
            )
        decided = [*{**state_of(path).decided, **self._fresh}.values()]
        trimmed, cleared = decided.count("trimmed"), decided.count("cleared")
        return f"after {self._settings.ttl} without a request; {trimmed} trimmed, {cleared} cleared"
