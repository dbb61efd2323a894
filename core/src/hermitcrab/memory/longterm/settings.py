"""What the operator sets for recall and capture; the config class of a plugin inherits it (memory 9.4)."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import Range, Rule

MOST_TRIGGERS = 50
LONGEST_TRIGGER = 100

_Characters = Annotated[int, Range(minimum=100, maximum=10_000)]


@frozen
class _Triggers(Rule):
    """At most 50 texts of 1 to 100 characters."""

    @property
    def limits(self) -> str:
        return f"at most {MOST_TRIGGERS} texts of 1 to {LONGEST_TRIGGER} characters"

    def accepts(self, value: Any) -> bool:
        return len(value) <= MOST_TRIGGERS and all(
            text.strip() and len(text) <= LONGEST_TRIGGER for text in value
        )


@frozen(kw_only=True)
class LongTermSettings:
    """How single memories are recalled before a turn and captured after it; sizes are in characters."""

    auto_recall: bool = field(
        default=True, metadata=about("Whether memories that fit the prompt are shown to the model.")
    )
    auto_capture: bool = field(
        default=False, metadata=about("Whether what users say of themselves is kept by itself.")
    )
    in_groups: bool = field(
        default=False,
        metadata=about("Whether both also happen in groups, where others read along."),
    )
    capture_max_chars: _Characters = field(
        default=500, metadata=about("Longer texts are not captured.")
    )
    recall_max_chars: _Characters = field(
        default=1000, metadata=about("How much of the prompt is searched with.")
    )
    custom_triggers: Annotated[tuple[str, ...], _Triggers()] = field(
        default=(),
        metadata=about("Texts whose occurrence, in any case, makes a message worth keeping."),
    )
    recall_min_score: Annotated[float, Range(minimum=0, maximum=1)] = field(
        default=0.33,
        metadata=about("The least cosine of a memory that shares no word with the prompt."),
    )
    recall_result_cap: Annotated[int, Range(minimum=1, maximum=50)] = field(
        default=3, metadata=about("How many memories a prompt gets at most.")
    )
    auto_recall_overfetch: Annotated[int, Range(minimum=1, maximum=200)] = field(
        default=10, metadata=about("How many are fetched, before unfit ones are dropped.")
    )
    duplicate_min_score: Annotated[float, Range(minimum=0.5, maximum=1)] = field(
        default=0.97, metadata=about("From which cosine on a text counts as already kept.")
    )
