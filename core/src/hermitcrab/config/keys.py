"""How a schema class describes its keys: a description in the metadata, types and rules in the annotation."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from attrs import frozen

from hermitcrab.config.names import camel_case
from hermitcrab.config.rules import Rule

__all__ = ["Key", "Meaning", "Shape", "about", "keys_of", "shape_of"]

_METADATA = "hermitcrab.config"

Kind = Literal["section", "list", "map", "choice", "text", "integer", "number", "boolean", "free"]

_SCALARS: dict[Any, Kind] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    Any: "free",
}


@frozen
class Meaning:
    """What the metadata of a field says about its key."""

    description: str
    secret: bool
    placeholder: str


@frozen
class Key:
    """One key of a section. ``default`` is a value, or ``attrs.NOTHING`` where the key must be given."""

    name: str
    attribute: str
    type: Any
    default: Any
    description: str
    secret: bool
    placeholder: str


@frozen
class Shape:
    """An annotation taken apart: ``Annotated[int, Range(1)] | None`` is a nullable integer with a rule."""

    kind: Kind
    nullable: bool = False
    rules: tuple[Rule, ...] = ()
    choices: tuple[str, ...] = ()
    item: Any = None


def about(
    description: str, *, secret: bool = False, placeholder: str = "name"
) -> Mapping[str, Meaning]:
    """The metadata of a key.

    :param description: one line of Markdown.
    :param secret: never shown in messages or by ``config get``; the field needs ``repr=False`` too.
    :param placeholder: what the keys of a map are called in the documentation: ``<id>``.
    """
    return {_METADATA: Meaning(description, secret, placeholder)}


def keys_of(cls: type) -> tuple[Key, ...]:
    """The keys of an attrs class as they stand in YAML, with resolved types."""
    return tuple(_key_of(attribute) for attribute in attrs.fields(attrs.resolve_types(cls)))


def shape_of(annotation: Any) -> Shape:
    """Take the annotation of a key apart.

    :raises TypeError: if it is none of the forms that the schema uses.
    """
    if get_origin(annotation) in (Union, UnionType):
        return _shape_of_optional(annotation)
    if get_origin(annotation) is Annotated:
        rules = tuple(rule for rule in annotation.__metadata__ if isinstance(rule, Rule))
        return attrs.evolve(shape_of(annotation.__origin__), rules=rules)
    if get_origin(annotation) is Literal:
        return Shape("choice", choices=get_args(annotation))
    if get_origin(annotation) is tuple:
        return Shape("list", item=get_args(annotation)[0])
    if len(get_args(annotation)) == 2:
        return Shape("map", item=get_args(annotation)[1])
    if attrs.has(annotation):
        return Shape("section", item=annotation)
    if annotation in _SCALARS:
        return Shape(_SCALARS[annotation])
    raise TypeError(f"{annotation!r} is not a type that the schema can describe")


def _shape_of_optional(annotation: Any) -> Shape:
    (inner,) = (member for member in get_args(annotation) if member is not NoneType)
    return attrs.evolve(shape_of(inner), nullable=True)


def _key_of(attribute: attrs.Attribute[Any]) -> Key:
    meaning = attribute.metadata.get(_METADATA, Meaning("", False, "name"))
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    return Key(
        name=camel_case(attribute.name),
        attribute=attribute.name,
        type=attribute.type,
        default=default,
        description=meaning.description,
        secret=meaning.secret,
        placeholder=meaning.placeholder,
    )
