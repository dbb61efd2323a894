"""``agents.defaults.contextPruning`` (context 7, 8; design 7, row "pruning")."""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import Duration, Range
from hermitcrab.config.schema.forms import NAME

__all__ = ["ContextPruningConfig", "HardClearConfig", "PrunableToolsConfig", "SoftTrimConfig"]

Count = Annotated[int, Range(minimum=0)]
Ratio = Annotated[float, Range(minimum=0, maximum=1)]


@frozen(kw_only=True)
class SoftTrimConfig:
    """Keeping the head and the tail of a long tool result."""

    max_chars: Count = field(
        default=4_000, metadata=about("Tool results longer than this, in characters, are trimmed.")
    )
    head_chars: Count = field(default=1_500, metadata=about("How much of the head stays."))
    tail_chars: Count = field(default=1_500, metadata=about("How much of the tail stays."))


@frozen(kw_only=True)
class HardClearConfig:
    """Replacing an old tool result as a whole."""

    enabled: bool = field(
        default=True, metadata=about("Whether `cache-ttl` may clear whole results.")
    )
    placeholder: Annotated[str, NAME] = field(
        default="[Old tool result content cleared]",
        metadata=about("What stands in place of a cleared result."),
    )


@frozen(kw_only=True)
class PrunableToolsConfig:
    """Which tools' results are pruned: patterns such as `web_*`, whose case does not matter."""

    allow: tuple[Annotated[str, NAME], ...] = field(
        default=(), metadata=about("Only the results of these tools; empty is all.")
    )
    deny: tuple[Annotated[str, NAME], ...] = field(
        default=(), metadata=about("Never the results of these tools; wins over `allow`.")
    )


@frozen(kw_only=True)
class ContextPruningConfig:
    """How old tool results are shortened in what the model sees; the transcript keeps them."""

    mode: Literal["off", "cache-ttl", "age"] = field(
        default="off",
        metadata=about(
            "`cache-ttl` shortens once the provider's prompt cache has run out, where there is one; `age` clears what "
            "is older than `keepTurns`, with any provider."
        ),
    )
    ttl: Annotated[str, Duration("m")] = field(
        default="5m", metadata=about("How long the provider's prompt cache lasts.")
    )
    keep_last_assistants: Count = field(
        default=3, metadata=about("`cache-ttl` leaves what follows this many last answers alone.")
    )
    keep_turns: Annotated[int, Range(minimum=1)] = field(
        default=5, metadata=about("`age` leaves the results of this many last user turns alone.")
    )
    soft_trim_ratio: Ratio = field(
        default=0.3, metadata=about("Results are trimmed from this share of the window on.")
    )
    hard_clear_ratio: Ratio = field(
        default=0.5, metadata=about("Results are cleared from this share of the window on.")
    )
    min_prunable_tool_chars: Count = field(
        default=50_000,
        metadata=about("Results are cleared only if they have this many characters together."),
    )
    soft_trim: SoftTrimConfig = field(
        factory=SoftTrimConfig, metadata=about("Keeping head and tail of long results.")
    )
    hard_clear: HardClearConfig = field(
        factory=HardClearConfig, metadata=about("Replacing old results as a whole.")
    )
    tools: PrunableToolsConfig = field(
        factory=PrunableToolsConfig, metadata=about("Which tools' results are pruned.")
    )
