"""Changing values in the text of config.yaml: comments, order and everything else stay."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.config.editing import REMOVED, Change, changed_text, parse_path
from hermitcrab.errors import ConfigError

TEXT = """\
# what we run
agents:
  defaults:
    model: "local/small"   # cheap
    # the window
    contextTokens: 32_000
  list:
    - id: main
    - id: other
      model: local/large

plugins:
  deny: []
"""
names = st.text("abcdefghij", min_size=1, max_size=6)
scalars = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.none(), names)
documents = st.recursive(
    scalars,
    lambda inner: st.dictionaries(names, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


def test_only_the_line_of_the_value_changes() -> None:
    after = changed_text(TEXT, [Change("agents.defaults.contextTokens", 64000)])
    assert after == TEXT.replace("32_000", "64000")


def test_a_new_key_goes_behind_its_sisters_and_comments_stay() -> None:
    after = changed_text(TEXT, [Change("agents.defaults.userTimezone", "Europe/Vienna")])
    assert "# cheap" in after
    assert "    contextTokens: 32_000\n    userTimezone: Europe/Vienna\n  list:" in after


def test_items_of_lists_are_reached_by_their_index_and_one_can_be_added() -> None:
    changes = [Change("agents.list[0].model", "local/tiny"), Change("agents.list[2]", {"id": "c"})]
    document = yaml.safe_load(changed_text(TEXT, changes))
    assert document["agents"]["list"] == [
        {"id": "main", "model": "local/tiny"},
        {"id": "other", "model": "local/large"},
        {"id": "c"},
    ]


def test_what_is_removed_takes_empty_parents_along() -> None:
    after = changed_text(TEXT, [Change("plugins.deny", REMOVED)])
    assert "plugins" not in yaml.safe_load(after)
    assert "# the window" in after


def test_removing_what_is_not_there_changes_nothing() -> None:
    for path in ("session.mainKey", "agents.list[7].id", "agents.defaults.model.deeper"):
        assert changed_text(TEXT, [Change(path, REMOVED)]) == TEXT


def test_a_file_of_comments_alone_keeps_them() -> None:
    text = "# take away the hash\n# agents:\n#   defaults: {}\n"
    after = changed_text(text, [Change("plugins.slots.memory", "none")])
    assert after.startswith(text)
    assert yaml.safe_load(after) == {"plugins": {"slots": {"memory": "none"}}}


def test_a_name_with_dots_stands_in_quotes_or_is_found_where_it_is() -> None:
    path = 'models.providers.local.models."small-4.1".contextWindow'
    once = changed_text("", [Change(path, 8000)])
    again = changed_text(once, [Change(path.replace('"', ""), 9000)])
    models = yaml.safe_load(again)["models"]["providers"]["local"]["models"]
    assert models == {"small-4.1": {"contextWindow": 9000}}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("agents.defaults.model.name", "leads through a single value"),
        ("agents.list.id", "leads through a list"),
        ("agents[0]", "leads through a mapping"),
        ("agents.list[9].id", "the next index is 2"),
    ],
)
def test_a_path_through_something_without_keys_is_refused(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        changed_text(TEXT, [Change(path, 1)])


@pytest.mark.parametrize("path", ["", ".", "a..b", "a.", "[0]", "a[x]", 'a."', "a[0]b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="no path"):
        parse_path(path)


def test_a_text_that_is_not_yaml_is_refused_without_its_words() -> None:
    with pytest.raises(ConfigError, match="not YAML at line 3") as caught:
        changed_text("a: 1\napiKey: [secret-word\n", [Change("b", 1)])
    assert "secret-word" not in str(caught.value)


@given(
    document=st.dictionaries(names, documents, max_size=4),
    path=st.lists(names, min_size=1, max_size=3),
    value=scalars,
)
def test_the_value_is_there_afterwards_and_all_else_is_as_before(
    document: dict[str, Any], path: list[str], value: Any
) -> None:
    text = yaml.safe_dump(document, sort_keys=False) if document else ""
    try:
        after = yaml.safe_load(changed_text(text, [Change(".".join(path), value)]))
    except ConfigError:
        return
    expected: Any = document
    for name in path[:-1]:
        if expected.get(name) is None:
            expected[name] = {}
        expected = expected[name]
    expected[path[-1]] = value
    assert after == document


@given(document=st.dictionaries(names, documents, min_size=1, max_size=4))
def test_setting_what_is_there_already_changes_nothing_in_meaning(document: dict[str, Any]) -> None:
    name, value = next(iter(document.items()))
    after = changed_text(yaml.safe_dump(document, sort_keys=False), [Change(name, value)])
    assert yaml.safe_load(after) == document
