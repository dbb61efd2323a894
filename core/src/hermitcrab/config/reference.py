"""The schema as documents: JSON Schema for editors, a table of every key for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import NOTHING, frozen

from hermitcrab.config.keys import Key, Kind, Shape, keys_of, shape_of
from hermitcrab.config.plain import plain_value
from hermitcrab.config.rules import Switch
from hermitcrab.config.schema import Config

__all__ = ["KeyRow", "key_rows", "key_table", "schema_json"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HEADER = "| Key | Type | Default | Range | Meaning |\n| --- | --- | --- | --- | --- |"

_JSON_TYPES: dict[Kind, str] = {
    "section": "object",
    "map": "object",
    "list": "array",
    "text": "string",
    "choice": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
_MAY_BE_EMPTY: tuple[Kind, ...] = ("section", "map", "list")


@frozen
class KeyRow:
    """One key as the documentation shows it; ``path`` has ``<id>`` and ``[]`` where names and items go."""

    path: str
    type: str
    default: str
    range: str
    meaning: str

    def __str__(self) -> str:
        return f"| `{self.path}` | {self.type} | {self.default} | {self.range} | {self.meaning} |"


def schema_json() -> dict[str, Any]:
    """The whole file as JSON Schema (draft 2020-12): what ``hermitcrab config schema`` prints."""
    return {"$schema": _DIALECT, "title": "hermitcrab config.yaml", **_section_schema(Config)}


def key_rows() -> list[KeyRow]:
    """Every key that takes a value, in the order of the schema."""
    return list(_rows(Config, ""))


def key_table() -> str:
    """The keys as a Markdown table."""
    return "\n".join([_HEADER, *map(str, key_rows())])


def _section_schema(cls: type) -> dict[str, Any]:
    keys = keys_of(cls)
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _key_schema(key) for key in keys},
    }
    required = [key.name for key in keys if key.default is NOTHING]
    return schema | ({"required": required} if required else {})


def _key_schema(key: Key) -> dict[str, Any]:
    shape = shape_of(key.type)
    schema = {"description": key.description, **_shape_schema(shape)}
    if key.default is not NOTHING and shape.kind != "section":
        schema["default"] = plain_value(key.default)
    return schema


def _shape_schema(shape: Shape) -> dict[str, Any]:
    if shape.kind == "free":
        return {}
    schema: dict[str, Any] = {"type": _JSON_TYPES[shape.kind], **_content_schema(shape)}
    for rule in shape.rules:
        schema |= rule.json_schema
    if "anyOf" in schema:
        del schema["type"]
    if any(isinstance(rule, Switch) for rule in shape.rules):
        schema = {"anyOf": [schema, {"type": "boolean"}, {"type": "null"}]}
    elif shape.nullable and "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    elif shape.nullable or shape.kind in _MAY_BE_EMPTY:
        schema["type"] = [schema["type"], "null"]
    if shape.choices and shape.nullable:
        schema["enum"] = [*shape.choices, None]
    return schema


def _content_schema(shape: Shape) -> dict[str, Any]:
    match shape.kind:
        case "section":
            return _section_schema(shape.item)
        case "list":
            return {"items": _shape_schema(shape_of(shape.item))}
        case "map":
            return {"additionalProperties": _shape_schema(shape_of(shape.item))}
        case "choice":
            return {"enum": list(shape.choices)}
        case _:
            return {}


def _rows(cls: type, prefix: str) -> Iterator[KeyRow]:
    for key in keys_of(cls):
        yield from _rows_of(key, shape_of(key.type), f"{prefix}{key.name}")


def _rows_of(key: Key, shape: Shape, path: str) -> Iterator[KeyRow]:
    item = None if shape.item is None or shape.kind == "section" else shape_of(shape.item)
    if shape.kind == "section":
        if shape.rules:
            yield KeyRow(path, "mapping or boolean", "", _limits(shape), key.description)
        yield from _rows(shape.item, f"{path}.")
    elif item is not None and item.kind == "section":
        step = "[]" if shape.kind == "list" else f".<{key.placeholder}>"
        yield from _rows(item.item, f"{path}{step}.")
    elif item is not None and shape.kind == "map" and item.kind != "free":
        yield KeyRow(
            f"{path}.<{key.placeholder}>", _type_words(item), "", _limits(item), key.description
        )
    else:
        yield KeyRow(path, _type_words(shape), _default(key), _limits(shape), key.description)


def _type_words(shape: Shape) -> str:
    match shape.kind:
        case "map":
            words = "mapping"
        case "choice":
            words = "text"
        case "list":
            words = f"list of {_type_words(shape_of(shape.item))}"
        case kind:
            words = kind
    return f"{words} or null" if shape.nullable else words


def _default(key: Key) -> str:
    if key.default is NOTHING:
        return "required"
    plain = plain_value(key.default)
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


def _limits(shape: Shape) -> str:
    if shape.choices:
        return ", ".join(f"`{choice}`" for choice in shape.choices)
    if shape.kind == "list":
        return _limits(shape_of(shape.item))
    return "; ".join(rule.limits for rule in shape.rules)
