"""Plain values to attrs classes, by cattrs, with every problem found and named by its path.

Imported only when a configuration is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import BaseValidationError, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

from hermitcrab.config.keys import shape_of
from hermitcrab.config.names import camel_case
from hermitcrab.config.problems import Path, Problem, nearest_name
from hermitcrab.config.refusals import KIND_WORDS, RefusedError, problems_in
from hermitcrab.config.rules import Rule
from hermitcrab.config.scalars import read_boolean, read_number

__all__ = ["structure_section"]

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

_COLLECTIONS: dict[Any, Callable[[list[Any]], Any]] = {
    tuple: tuple,
    list: list,
    Sequence: tuple,
    set: set,
    frozenset: frozenset,
}


def structure_section(cls: type[T], document: object, *, path: Path = ()) -> T | list[Problem]:
    """An instance of the attrs class ``cls``, or what is wrong with ``document``.

    Keys are the camelCase spellings of the attributes, unknown ones are problems, and nothing is
    converted silently: ``5`` is no text and ``"5"`` no number. ``path`` is where ``document`` stands.
    """
    try:
        return _converter().structure(document, cls)
    except BaseValidationError as error:
        return list(problems_in(error, path))
    except RefusedError as refused:
        return [refused.problem(path)]


@cache
def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    converter.register_structure_hook(bool, _read_boolean)
    converter.register_structure_hook(int, _read_integer)
    converter.register_structure_hook(float, _read_number)
    converter.register_structure_hook(str, _read_text)
    converter.register_structure_hook_func(lambda annotation: annotation is Any, _read_anything)
    for predicate, factory in (
        (attrs.has, _section_hook),
        (_is_mapping, _mapping_hook),
        (_is_collection, _collection_hook),
        (_is_choice, _choice_hook),
        (_is_ruled, _ruled_hook),
    ):
        converter.register_structure_hook_factory(predicate, partial(factory, converter))
    return converter


def _read_boolean(value: Any, _: Any) -> bool:
    boolean = read_boolean(value)
    if boolean is None:
        raise RefusedError(value, KIND_WORDS["boolean"])
    return boolean


def _read_integer(value: Any, _: Any) -> int:
    number = read_number(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise RefusedError(value, KIND_WORDS["integer"])
    return number


def _read_number(value: Any, _: Any) -> float:
    number = read_number(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise RefusedError(value, KIND_WORDS["number"])
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RefusedError(value, "a finite number")
    return number


def _read_text(value: Any, _: Any) -> str:
    if isinstance(value, str):
        return str(value)
    is_scalar = isinstance(value, bool | int | float)
    raise RefusedError(
        value, KIND_WORDS["text"], "Put the value into quotes" if is_scalar else None
    )


def _read_anything(value: Any, _: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _read_anything(item, _) for key, item in value.items()}
    if isinstance(value, list):
        return [_read_anything(item, _) for item in value]
    return str(value) if isinstance(value, str) else value


def _section_hook(converter: Converter, cls: type) -> Hook:
    renamed = {
        attribute.name: override(rename=camel_case(attribute.name))
        for attribute in attrs.fields(attrs.resolve_types(cls))
    }
    structure: Hook = make_dict_structure_fn(cls, converter, **renamed)  # type: ignore[arg-type]

    def read_section(value: Any, _: Any) -> Any:
        return structure(_as_mapping(value), cls)

    return read_section


def _mapping_hook(converter: Converter, annotation: Any) -> Hook:
    key_type, item_type = get_args(annotation)
    read_key = converter.get_structure_hook(key_type)
    read_item = converter.get_structure_hook(item_type)

    def read_entry(entry: tuple[Any, Any]) -> tuple[Any, Any]:
        return read_key(entry[0], key_type), read_item(entry[1], item_type)

    def read_mapping(value: Any, _: Any) -> dict[Any, Any]:
        entries = _as_mapping(value)
        return dict(_read_items(annotation, zip(entries, entries.items(), strict=True), read_entry))

    return read_mapping


def _collection_hook(converter: Converter, annotation: Any) -> Hook:
    item_type = get_args(annotation)[0]
    read_item = converter.get_structure_hook(item_type)
    collect = _COLLECTIONS[get_origin(annotation)]

    def read_collection(value: Any, _: Any) -> Any:
        items = [] if value is None else value
        if not isinstance(items, list | tuple):
            raise RefusedError(value, KIND_WORDS["list"])
        return collect(
            _read_items(annotation, enumerate(items), lambda item: read_item(item, item_type))
        )

    return read_collection


def _choice_hook(converter: Converter, annotation: Any) -> Hook:
    choices = get_args(annotation)

    def read_choice(value: Any, _: Any) -> Any:
        candidates = [str(value)] if isinstance(value, str) else [value]
        if isinstance(value, bool):
            # What a reader of YAML 1.1 makes of the words `on` and `off`.
            candidates.append("on" if value else "off")
        for choice in choices:
            if any(type(one) is type(choice) and one == choice for one in candidates):
                return choice
        nearest = nearest_name(value, map(str, choices)) if isinstance(value, str) else None
        expected = f"one of {', '.join(map(str, choices))}"
        raise RefusedError(value, expected, nearest and f"Did you mean {nearest}?")

    return read_choice


def _ruled_hook(converter: Converter, annotation: Any) -> Hook:
    rules = [rule for rule in annotation.__metadata__ if isinstance(rule, Rule)]
    base = annotation.__origin__
    read = converter.get_structure_hook(base)
    if not rules:
        return lambda value, _: read(value, base)
    kind = KIND_WORDS[shape_of(annotation).kind]
    expected = ", ".join([kind, *(rule.limits for rule in rules)])

    def read_ruled(value: Any, _: Any) -> Any:
        prepared = value
        for rule in rules:
            prepared = _prepare(rule, prepared, expected)
        try:
            result = read(prepared, base)
        except RefusedError as refused:
            raise RefusedError(value, expected, refused.hint) from None
        for rule in rules:
            if not rule.accepts(result):
                raise RefusedError(value, expected, rule.hint(result))
        return result

    return read_ruled


def _prepare(rule: Rule, value: Any, expected: str) -> Any:
    try:
        return rule.prepare(value)
    except ValueError:
        raise RefusedError(value, expected) from None


def _is_choice(annotation: Any) -> bool:
    origin: Any = get_origin(annotation)
    return origin is Literal


def _is_ruled(annotation: Any) -> bool:
    origin: Any = get_origin(annotation)
    return origin is Annotated


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_collection(annotation: Any) -> bool:
    arguments = get_args(annotation)
    one_item_type = len(arguments) == 1 or (len(arguments) == 2 and arguments[1] is Ellipsis)
    return one_item_type and get_origin(annotation) in _COLLECTIONS


def _as_mapping(value: Any) -> Mapping[str, Any]:
    # A key with nothing after it, all of its settings commented out, means the defaults.
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RefusedError(value, KIND_WORDS["section"])
    return value


def _read_items(
    annotation: Any, items: Iterable[tuple[str | int, Any]], read: Callable[[Any], Any]
) -> list[Any]:
    results, errors = [], []
    for index, item in items:
        try:
            results.append(read(item))
        except Exception as error:  # noqa: BLE001 - regrouped, as cattrs does in its own collections
            error.add_note(IterableValidationNote(f"at {index!r}", index, annotation))
            errors.append(error)
    if errors:
        raise IterableValidationError("in a collection", errors, annotation)
    return results
