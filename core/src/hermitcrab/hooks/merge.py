"""How the answers of several handlers become one.

Each field of a result class states its rule; :func:`merge_answers` applies them. Answers come in the order in which the
handlers ran, higher priority first (sessions 6.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs
from attrs import frozen
from attrs.validators import in_, instance_of, optional

_KEY = "hermitcrab.merge"

R = TypeVar("R")
_Values = Sequence[Any]


@frozen
class Answer(Generic[R]):
    """What one plugin's handler answered."""

    plugin_id: str
    result: R


def _nobody(values: _Values) -> int | None:
    return None


def _never(value: Any) -> bool:
    return False


@frozen(kw_only=True)
class MergeRule:
    """How one field merges.

    ``combine`` makes one value of all; ``leader`` is the position of the answer that decided, if a single one did;
    ``ends`` tells whether a value spares the remaining handlers. With ``ranks``, answers of a lower rank lose all
    their fields. With ``along`` the value is that of the leader of another field; with ``source_of``, its plugin id.
    """

    combine: Callable[[_Values], Any]
    leader: Callable[[_Values], int | None] = _nobody
    ends: Callable[[Any], bool] = _never
    ranks: tuple[Any, ...] = ()
    along: str | None = None
    source_of: str | None = None


def first(kind: type | None = None) -> Any:
    """The value of the highest priority wins; None is no opinion."""
    return _field(_pick(_first_given), validator=_kind(kind))


def first_text() -> Any:
    """The text of the highest priority that is not blank wins."""
    return _field(_pick(_first_text), validator=_kind(str))


def last(kind: type | None = None) -> Any:
    """The value of the lowest priority replaces those before it; None is no opinion."""
    return _field(_pick(_last_given), validator=_kind(kind))


def concatenate() -> Any:
    """Texts joined by a blank line, higher priority first; empty texts are left out."""
    return _field(MergeRule(combine=_join), validator=_kind(str))


def sticky_true(*, ends: bool = False) -> Any:
    """True once anyone says so: False is no opinion. With ``ends``, the remaining handlers are not asked."""
    rule = MergeRule(combine=any, leader=_first_true, ends=bool if ends else _never)
    return _field(rule, default=False, validator=instance_of(bool))


def intersect() -> Any:
    """What every answer contains, in the order of the first one; None is no opinion, an empty list allows nothing."""
    return _field(
        MergeRule(combine=_intersection), converter=_as_tuple, validator=_kind(tuple), default=None
    )


def ranked(*ranks: str, default: str, ends: str | None = None) -> Any:
    """The best of ``ranks`` (best first) wins, and answers of a lower rank are ignored altogether.

    The value ``ends`` spares the remaining handlers.
    """
    rule = MergeRule(
        combine=lambda values: min(values, key=ranks.index, default=default),
        leader=lambda values: 0 if values else None,
        ends=lambda value: value == ends,
        ranks=ranks,
    )
    return _field(rule, default=default, validator=in_(ranks))


def along(leader: str, kind: type | None = None) -> Any:
    """The value of whichever answer decided the field ``leader``."""
    return _field(MergeRule(combine=_first_given_value, along=leader), validator=_kind(kind))


def source_of(leader: str) -> Any:
    """The id of the plugin that decided the field ``leader``; what a handler puts here is ignored."""
    return _field(MergeRule(combine=_first_given_value, source_of=leader))


def merge_answers(result_class: type[R], answers: Sequence[Answer[R]]) -> R | None:
    """One result out of all ``answers``; None if there are none."""
    if not answers:
        return None
    rules = merge_rules(result_class)
    answers = _of_best_rank(rules, answers)
    return result_class(**{name: _merged(name, rules, answers) for name in rules})


def ends_the_call(result: object) -> bool:
    """Whether ``result`` settles the matter, so that no further handler is asked."""
    rules = merge_rules(type(result))
    return any(rule.ends(getattr(result, name)) for name, rule in rules.items())


def merge_rules(result_class: type) -> Mapping[str, MergeRule]:
    """The rule of each field of ``result_class``."""
    return {each.name: each.metadata[_KEY] for each in attrs.fields(result_class)}


def _merged(name: str, rules: Mapping[str, MergeRule], answers: Sequence[Answer[Any]]) -> Any:
    rule = rules[name]
    leading_field = rule.along or rule.source_of
    if leading_field is None:
        return rule.combine(_values(answers, name))
    position = rules[leading_field].leader(_values(answers, leading_field))
    if position is None:
        return None
    leader = answers[position]
    return leader.plugin_id if rule.source_of else getattr(leader.result, name)


def _of_best_rank(
    rules: Mapping[str, MergeRule], answers: Sequence[Answer[R]]
) -> Sequence[Answer[R]]:
    for name, rule in rules.items():
        if rule.ranks:
            best = min(_values(answers, name), key=rule.ranks.index)
            return [answer for answer in answers if getattr(answer.result, name) == best]
    return answers


def _values(answers: Iterable[Answer[Any]], name: str) -> list[Any]:
    return [getattr(answer.result, name) for answer in answers]


def _field(rule: MergeRule, *, default: Any = None, **options: Any) -> Any:
    return attrs.field(default=default, metadata={_KEY: rule}, **options)


def _kind(kind: type | None) -> Any:
    return None if kind is None else optional(instance_of(kind))


def _pick(choose: Callable[[_Values], int | None]) -> MergeRule:
    def combine(values: _Values) -> Any:
        position = choose(values)
        return None if position is None else values[position]

    return MergeRule(combine=combine, leader=choose)


def _first_given(values: _Values) -> int | None:
    return next((index for index, value in enumerate(values) if value is not None), None)


def _first_text(values: _Values) -> int | None:
    return next((index for index, value in enumerate(values) if value and value.strip()), None)


def _last_given(values: _Values) -> int | None:
    return max((index for index, value in enumerate(values) if value is not None), default=None)


def _first_given_value(values: _Values) -> Any:
    return next((value for value in values if value is not None), None)


def _first_true(values: _Values) -> int | None:
    return next((index for index, value in enumerate(values) if value), None)


def _join(values: _Values) -> str | None:
    return "\n\n".join(value for value in values if value) or None


def _intersection(values: _Values) -> tuple[Any, ...] | None:
    given = [value for value in values if value is not None]
    if not given:
        return None
    return tuple(item for item in given[0] if all(item in other for other in given[1:]))


def _as_tuple(value: Any) -> Any:
    # A bare string is an iterable too: it stays what it is, and the validator refuses it.
    return tuple(value) if isinstance(value, list | set | frozenset) else value
