"""How the context window is divided (design 7, row "budgets"). All sizes are tokens unless they say otherwise."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from hermitcrab.errors import CompactionError

#: A stored summary with all its sections takes at most this many characters.
SUMMARY_CHARACTERS = 16_000
#: Below this many tokens for messages, no conversation is possible.
MINIMUM_USABLE = 256
#: In the mode ``aggressive``, compaction starts at this share of what is usable. A compaction leaves at most a half
#: (one group) and a fifth (the summary) of it, so that it is never due again at once.
AGGRESSIVE_START = 0.8


class FlushSettings(Protocol):
    @property
    def soft_threshold_tokens(self) -> int: ...


class BudgetSettings(Protocol):
    """The part of ``agents.defaults.compaction`` that sizes depend on."""

    @property
    def reserve_tokens(self) -> int: ...
    @property
    def reserve_tokens_floor(self) -> int: ...
    @property
    def keep_recent_tokens(self) -> int: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def memory_flush(self) -> FlushSettings: ...


@frozen(kw_only=True)
class Budget:
    """What fits where in one context window.

    ``reserve`` is kept free for the answer, ``fixed`` goes to the system prompt and the tools' schemas, ``usable`` is
    left for messages. Compaction starts above ``compact_at`` and keeps at least ``keep_recent``; the flush runs from
    ``flush_at`` on; a summary takes at most ``summary``; one call-and-results group at most ``group`` in the view.
    """

    window: int
    reserve: int
    fixed: int
    usable: int
    keep_recent: int
    compact_at: int
    flush_at: int
    summary: int
    group: int


def make_budget(window: int, fixed: int, settings: BudgetSettings) -> Budget:
    """Divide a window.

    :param fixed: tokens of the system prompt and the tool schemas.
    :raises CompactionError: if those leave no room for messages.
    """
    reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 4)
    usable = window - reserve - fixed
    if usable < MINIMUM_USABLE:
        raise CompactionError(
            f"the system prompt and the tools take {fixed} of {window} tokens and leave no room for messages",
            where="agents.defaults.contextTokens",
            hint="Shorten the workspace files, offer fewer tools, or use a model with a larger context window.",
        )
    is_aggressive = settings.mode == "aggressive"
    keep_recent = min(settings.keep_recent_tokens, usable // 3)
    keep_recent = max(1, keep_recent // 2 if is_aggressive else keep_recent)
    compact_at = int(usable * AGGRESSIVE_START) if is_aggressive else usable
    return Budget(
        window=window,
        reserve=reserve,
        fixed=fixed,
        usable=usable,
        keep_recent=keep_recent,
        compact_at=compact_at,
        flush_at=compact_at - min(settings.memory_flush.soft_threshold_tokens, keep_recent),
        summary=usable // 5,
        group=usable // 2,
    )
