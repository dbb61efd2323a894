"""YAML to plain values, by the safe rules: no Python objects, no guessing of types, no duplicate keys.

Scalars follow YAML 1.2, and ``20_000`` is a number too: ``on``, ``off``, ``yes`` and ``no`` are texts,
``12:30`` is no number and ``2026-01-31`` no date. Imported only when a file is read.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

from hermitcrab.errors import ConfigError

__all__ = ["parse_yaml"]

_PREFIX = "tag:yaml.org,2002:"
#: Tag, pattern, and the characters that a scalar of this kind may begin with.
_SCALARS = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    "int": (re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)\Z"), list("-+0123456789")),
    "float": (
        re.compile(
            r"(?:[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
        ),
        list("-+0123456789."),
    ),
    "merge": (re.compile(r"<<\Z"), ["<"]),
}
#: Messages of PyYAML that go on with a name from the file: a password that begins with `!` looks like one.
_SAYS_NAME = re.compile(
    r"found undefined alias|found duplicate anchor|found undefined tag handle"
    r"|could not determine a constructor for the tag"
)


def parse_yaml(text: str, *, where: str) -> Any:
    """The document as mappings, lists, texts, numbers, booleans and None.

    :raises ConfigError: with line and column, never with the text around them: that may be a secret.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _error(error.problem, error.problem_mark, where) from None
    except yaml.YAMLError as error:
        raise ConfigError(
            f"not YAML: {getattr(error, 'reason', 'it cannot be read')}", where=where
        ) from None
    except RecursionError:
        raise ConfigError("not usable: nested too deeply", where=where) from None


def _error(problem: str | None, mark: yaml.Mark | None, where: str) -> ConfigError:
    place = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
    says_name = _SAYS_NAME.match(problem or "")
    if says_name:
        hint = "Put text that begins with ! or & or * into quotes"
        return ConfigError(f"not YAML{place}: {says_name[0]}", where=where, hint=hint)
    return ConfigError(f"not YAML{place}: {problem or 'it cannot be read'}", where=where)


_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _kind, (_pattern, _beginnings) in _SCALARS.items():
    for _beginning in _beginnings:
        _RESOLVERS.setdefault(_beginning, []).append((_PREFIX + _kind, _pattern))


class _Loader(yaml.SafeLoader):
    """The rules of PyYAML's safe loader, with a shorter list of types."""

    yaml_implicit_resolvers = _RESOLVERS
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Compose a mapping and refuse a key that stands in it twice.

        Later is too late: merging (``<<``) puts keys into the node that the file does not repeat.
        """
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value[:60]!r} stands here twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node


def _construct_boolean(loader: _Loader, node: yaml.ScalarNode) -> bool:
    return _checked(node, "bool").lower() == "true"


def _construct_integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    try:
        return int(_checked(node, "int"))
    except ValueError:
        raise _misread(node, "a number of this length") from None


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = node.value if re.fullmatch(_SCALARS["int"][0], node.value) else _checked(node, "float")
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    text = loader.construct_scalar(node)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    # JSON, which YAML includes, writes characters beyond the first 65,536 as two escapes.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _construct_null(loader: _Loader, node: yaml.ScalarNode) -> None:
    _checked(node, "null")


def _checked(node: yaml.Node, kind: str) -> str:
    # An explicit tag (`!!int x`) reaches a constructor without having matched its pattern.
    if isinstance(node, yaml.ScalarNode) and _SCALARS[kind][0].match(node.value):
        return str(node.value)
    raise _misread(node, f"a value tagged {kind}")


def _misread(node: yaml.Node, what: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, f"{what} cannot be read", node.start_mark)


_Loader.yaml_constructors |= {
    None: yaml.SafeLoader.construct_undefined,
    f"{_PREFIX}null": _construct_null,
    f"{_PREFIX}bool": _construct_boolean,
    f"{_PREFIX}int": _construct_integer,
    f"{_PREFIX}float": _construct_number,
    f"{_PREFIX}str": _construct_text,
    f"{_PREFIX}seq": yaml.SafeLoader.construct_yaml_seq,
    f"{_PREFIX}map": yaml.SafeLoader.construct_yaml_map,
}
