"""Whatever stands in the file, it loads or ends in a ConfigError."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.config import Config, config_from, load_config, to_plain
from hermitcrab.config.reference import key_rows
from hermitcrab.config.yaml_text import parse_yaml
from hermitcrab.errors import ConfigError

NAMES = sorted({part for row in key_rows() for part in row.path.replace("[]", "").split(".")})

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["${A}", "$${", "${", "on", "none", "2mb", "a/b", "UTC"])
)
keys = st.sampled_from(NAMES) | st.text(max_size=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def schema_documents(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Documents with the right keys, whose values may be wrong."""
    if "anyOf" in schema:
        return st.one_of(*map(schema_documents, schema["anyOf"])) | scalars
    if "properties" in schema:
        optional = {name: schema_documents(value) for name, value in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=optional)
    if schema.get("additionalProperties"):
        return st.dictionaries(
            st.sampled_from(["a", "b"]),
            schema_documents(schema["additionalProperties"]),
            max_size=2,
        )
    return scalars | st.sampled_from(schema.get("enum", [1, 1000, 0.5, True]))


def outcome(document: Any) -> Config | None:
    try:
        return config_from(document, environ={"A": "5"})
    except ConfigError as error:
        str(error).encode("utf-8")
        return None


@settings(deadline=None)
@given(values)
def test_any_values_load_or_are_refused(document: Any) -> None:
    outcome(document)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_loads_survives_being_written_out_and_loaded(data: st.DataObject) -> None:
    from hermitcrab.config import schema_json

    config = outcome(data.draw(schema_documents(schema_json())))
    if config is not None:
        plain = to_plain(config)
        escaped = json.loads(json.dumps(plain).replace("${", "$${"))
        again = config_from(escaped, environ={})
        assert to_plain(again) == plain


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values)
def test_any_document_loads_or_is_refused(tmp_path: Path, document: Any) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(document, allow_unicode=False))
    with contextlib.suppress(ConfigError):
        assert isinstance(load_config(file, environ={}), Config)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=40) | st.text(alphabet="abA0:-[]{},&*!'\"#|>%@<~ \n\t.\\", max_size=40))
def test_any_bytes_load_or_are_refused(tmp_path: Path, content: bytes | str) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with contextlib.suppress(ConfigError):
        assert isinstance(load_config(file, environ={}), Config)


@settings(deadline=None)
@given(values)
def test_yaml_is_read_as_it_was_written(document: Any) -> None:
    text = json.dumps(document, allow_nan=False) if _is_json(document) else "null"
    assert parse_yaml(text, where="x") == json.loads(text)


def _is_json(document: Any) -> bool:
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        return False
    return True
