"""The settings of compaction and pruning, key by key: the default, and which values are refused (context 8).

Where a default is another than in that table, design 7 decided so: ``mode`` is ``safeguard`` wherever the plugin is
installed, ``midTurnPrecheck`` is on, and pruning has the mode ``age``.
"""

from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.config import config_from, get_value
from hermitcrab.config.reference import key_rows
from hermitcrab.errors import ConfigError

COMPACTION = "agents.defaults.compaction"
PRUNING = "agents.defaults.contextPruning"

#: Key, default, and values that are refused.
COMPACTION_KEYS: dict[str, tuple[Any, list[Any]]] = {
    "enabled": (True, ["maybe", 2, None]),
    "mode": (None, ["careful", "Default", 1, True]),
    "provider": (None, ["", "  ", 5]),
    "model": (None, ["gpt", "openai/", "/gpt", 7]),
    "thinkingLevel": (None, ["much", "Low", 3, True]),
    "reserveTokens": (16_384, [-1, 1.5, "16k", None, True]),
    "reserveTokensFloor": (20_000, [-1, 1.5, "many", None]),
    "keepRecentTokens": (20_000, [0, -1, 2.5, None]),
    "maxHistoryShare": (0.5, [0.09, 0.91, "half", None]),
    "customInstructions": (None, [5, True, ["a"]]),
    "identifierPolicy": ("strict", ["some", "Strict", None]),
    "identifierInstructions": (None, [5, {"a": 1}]),
    "recentTurnsPreserve": (3, [-1, 13, 2.5, None]),
    "qualityGuard.enabled": (True, ["maybe", 2, None]),
    "qualityGuard.maxRetries": (1, [-1, 1.5, "one", None]),
    "midTurnPrecheck.enabled": (True, ["maybe", 2, None]),
    "postIndexSync": ("async", ["sync", "Async", True, None]),
    "postCompactionSections": ([], ["Red Lines", [5], 5]),
    "maxActiveTranscriptBytes": (0, [-1, "20xb", "mb", None, [1]]),
    "notifyUser": (False, ["maybe", 2, None]),
    "timeoutSeconds": (180.0, [0, -5, "3m", None]),
    "keepCredentials": (False, [1, "maybe", None]),
    "memoryFlush.enabled": (True, ["maybe", 2, None]),
    "memoryFlush.model": (None, ["gpt", 7]),
    "memoryFlush.softThresholdTokens": (4_000, [-1, 0.5, "4k", None]),
    "memoryFlush.forceFlushTranscriptBytes": (2 * 1024**2, [-1, "2xb", "mb", None, [1]]),
    "memoryFlush.prompt": (None, [5, False]),
    "memoryFlush.systemPrompt": (None, [5, False]),
}
PRUNING_KEYS: dict[str, tuple[Any, list[Any]]] = {
    "mode": ("off", ["on", "cache_ttl", "Off!", None]),
    "ttl": ("5m", ["soon", "0m", "-5m", None, True]),
    "keepLastAssistants": (3, [-1, 1.5, None]),
    "keepTurns": (5, [0, -1, 2.5, None]),
    "softTrimRatio": (0.3, [-0.1, 1.1, "a third", None]),
    "hardClearRatio": (0.5, [-0.1, 1.1, "half", None]),
    "minPrunableToolChars": (50_000, [-1, 1.5, "50k", None]),
    "softTrim.maxChars": (4_000, [-1, 1.5, None]),
    "softTrim.headChars": (1_500, [-1, 1.5, None]),
    "softTrim.tailChars": (1_500, [-1, 1.5, None]),
    "hardClear.enabled": (True, ["maybe", 2, None]),
    "hardClear.placeholder": ("[Old tool result content cleared]", ["", " ", 5, None]),
    "tools.allow": ([], ["read", [5], [""]]),
    "tools.deny": ([], ["read", [5], [""]]),
}
RELATED: dict[str, tuple[Any, list[Any]]] = {
    "plugins.slots.contextEngine": ("legacy", ["", 5, None]),
    "agents.defaults.contextTokens": (None, [999, 0, 1.5, "32k"]),
    "agents.defaults.maxToolRounds": (50, [0, 1001, 1.5, None]),
    "session.historyLimit": (None, [0, -1, 1.5]),
}
KEYS = {
    **{f"{COMPACTION}.{key}": row for key, row in COMPACTION_KEYS.items()},
    **{f"{PRUNING}.{key}": row for key, row in PRUNING_KEYS.items()},
    **RELATED,
}


def document_with(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


@pytest.mark.parametrize("path", KEYS)
def test_the_default_is_that_of_the_table(path: str) -> None:
    assert get_value(config_from({}, environ={}), path) == KEYS[path][0]


@pytest.mark.parametrize(
    ("path", "value"), [(path, value) for path, (_, refused) in KEYS.items() for value in refused]
)
def test_a_bad_value_is_an_error_that_names_its_key(path: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from(document_with(path, value), environ={}, where="config.yaml")
    first_line = str(caught.value).splitlines()[0]
    assert first_line.startswith(f"config.yaml: {path}")
    assert "expected" in first_line


@pytest.mark.parametrize("path", KEYS)
def test_the_default_may_be_written_down(path: str) -> None:
    default = KEYS[path][0]
    config = config_from(document_with(path, default), environ={})
    assert get_value(config, path) == default


@pytest.mark.parametrize(
    ("section", "known"), [(COMPACTION, {*COMPACTION_KEYS}), (PRUNING, {*PRUNING_KEYS})]
)
def test_every_key_of_the_schema_stands_in_a_table_above(section: str, known: set[str]) -> None:
    paths = [row.path for row in key_rows() if row.path.startswith(f"{section}.")]
    keys = {path.removeprefix(f"{section}.") for path in paths} - {"memoryFlush"}
    assert keys == known


@pytest.mark.parametrize(
    "path",
    [
        f"{COMPACTION}.truncateAfterCompaction",
        f"{COMPACTION}.qualityGuard.retries",
        f"{PRUNING}.keepLastAssistant",
        f"{PRUNING}.softTrim.maxCharacters",
    ],
)
def test_both_sections_are_strict(path: str) -> None:
    """A transcript is never rewritten in place, so there is nothing to truncate after a compaction (design 5)."""
    with pytest.raises(ConfigError, match="unknown key") as caught:
        config_from(document_with(path, True), environ={})
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("20mb", 20 * 1024**2), ("1.5K", 1_536), ("3 GB", 3 * 1024**3), ("7", 7), ("9b", 9), (0, 0)],
)
def test_sizes_are_numbers_of_bytes_or_texts_with_a_unit(text: Any, size: int) -> None:
    path = f"{COMPACTION}.memoryFlush.forceFlushTranscriptBytes"
    assert get_value(config_from(document_with(path, text), environ={}), path) == size


@pytest.mark.parametrize(("text", "kept"), [(5, "5m"), ("10", "10m"), ("1h30m", "1h30m")])
def test_a_bare_ttl_counts_minutes(text: Any, kept: str) -> None:
    path = f"{PRUNING}.ttl"
    assert get_value(config_from(document_with(path, text), environ={}), path) == kept
