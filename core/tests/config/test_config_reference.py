"""The documentation, the JSON Schema and the classes say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.config import Config, config_from, key_table, schema_json, to_plain
from hermitcrab.config.reference import key_rows

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
CODE_BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if "properties" not in schema and "anyOf" in schema and "properties" in schema["anyOf"][0]:
        yield path, schema
        schema = schema["anyOf"][0]
    if "properties" in schema:
        for name, value in schema["properties"].items():
            yield from leaves(value, f"{path}.{name}" if path else name)
    elif "properties" in schema.get("items", {}):
        yield from leaves(schema["items"], f"{path}[]")
    elif schema.get("additionalProperties"):
        yield from leaves(schema["additionalProperties"], f"{path}.<>")
    else:
        yield path, schema


def test_the_table_in_the_documentation_is_the_schema() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    assert rows == key_table().splitlines()


@pytest.mark.parametrize("block", CODE_BLOCKS)
def test_examples_in_the_documentation_load(load: Callable[..., Config], block: str) -> None:
    assert load(block, EXAMPLE_API_KEY="x", ANTHROPIC_API_KEY="y") != Config()


def test_the_documentation_has_examples() -> None:
    assert len(CODE_BLOCKS) >= 2


def test_every_key_has_a_meaning_in_one_line() -> None:
    for row in key_rows():
        assert row.meaning.endswith("."), row.path
        assert "\n" not in row.meaning
        assert "|" not in row.meaning + row.range


def test_the_json_schema_has_the_keys_of_the_table() -> None:
    in_table = [re.sub(r"<\w+>", "<>", row.path) for row in key_rows()]
    assert [path for path, _ in leaves(schema_json())] == in_table


def test_the_json_schema_is_strict_and_says_which_dialect() -> None:
    schema = schema_json()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema


def test_the_json_schema_states_ranges_choices_and_defaults() -> None:
    properties = dict(leaves(schema_json()))
    compaction = "agents.defaults.compaction"
    assert properties["agents.defaults.contextTokens"] == {
        "description": "The context window in tokens; null takes it from the model's entry or its server.",
        "type": ["integer", "null"],
        "minimum": 1000,
        "default": None,
    }
    assert properties["memory.citations"]["enum"] == ["auto", "on", "off"]
    assert properties[f"{compaction}.keepRecentTokens"]["exclusiveMinimum"] == 0
    assert "boolean" in str(properties[f"{compaction}.memoryFlush"]["anyOf"][1])
    assert properties["agents.list[].id"]["pattern"] == "^[a-z0-9][a-z0-9_-]{0,63}$"
    entry = schema_json()["properties"]["agents"]["properties"]["list"]["items"]
    assert entry["required"] == ["id"]


def test_every_default_is_a_value_that_loads() -> None:
    assert config_from(to_plain(Config()), environ={}) == Config()
    for row in key_rows():
        if row.default.startswith("`") and "<" not in row.path and "[" not in row.path:
            raw = row.default.strip("`")
            value = raw if row.type.startswith("text") and raw != "null" else json.loads(raw)
            document: Any = value
            for name in reversed(row.path.split(".")):
                document = {name: document}
            assert config_from(document, environ={}) == Config(), row.path
