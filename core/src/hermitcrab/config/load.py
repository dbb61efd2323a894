"""config.yaml to :class:`~hermitcrab.config.schema.Config`: read, parse, fill in variables, check."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from hermitcrab.config.problems import Problem, config_error
from hermitcrab.config.schema import Config
from hermitcrab.errors import ConfigError

__all__ = ["config_from", "load_config", "resolve_home", "section_from"]

T = TypeVar("T")

_FILE_NAME = "config.yaml"
_LARGEST_FILE_BYTES = 1024 * 1024


def resolve_home(home: Path | str | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The home directory: the argument, else ``$HERMITCRAB_HOME``, else ``~/.hermitcrab``; absolute."""
    environ = os.environ if environ is None else environ
    return _expanded(home or environ.get("HERMITCRAB_HOME") or "~/.hermitcrab").absolute()


def load_config(
    path: Path | str | None = None,
    *,
    home: Path | str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Read ``path``, by default config.yaml in the home directory, where a missing file means defaults.

    :raises ConfigError: the file cannot be read, is not YAML, or breaks the schema. All problems are
        in the one message; it never contains the value of a secret.
    """
    file = resolve_home(home, environ) / _FILE_NAME if path is None else _expanded(path)
    text = _read_text(file, may_be_missing=path is None)
    if text is None:
        return Config()

    from hermitcrab.config.yaml_text import parse_yaml

    document = parse_yaml(text, where=str(file))
    return config_from({} if document is None else document, environ=environ, where=str(file))


def config_from(
    document: object,
    *,
    environ: Mapping[str, str] | None = None,
    where: str = "the configuration",
) -> Config:
    """Check a parsed document: the same rules as for a file, variables included.

    :raises ConfigError: naming ``where`` and every path that is wrong.
    """
    from hermitcrab.config.document import prepare_document

    if not isinstance(document, Mapping):
        hint = 'Begin with a key, such as "agents:"'
        raise ConfigError("not a mapping of keys to values", where=where, hint=hint)
    environ = os.environ if environ is None else environ
    prepared, problems = prepare_document(document, environ, where=where)
    config = _structured(Config, prepared, problems)
    if config is not None:
        problems += _contradictions(config)
    if config is None or problems:
        raise config_error(problems, where=where, document=prepared)
    return config


def section_from(cls: type[T], document: object, *, path: str = "", where: str) -> T:
    """Check values against any attrs class, by the rules of config.yaml: what plugins validate with.

    :param path: where the values stand, such as ``plugins.entries.example.config``.
    :raises ConfigError: naming ``where`` and every path that is wrong.
    """
    problems: list[Problem] = []
    section = _structured(cls, document, problems, path)
    if section is None:
        raise config_error(problems, where=where, document=document)
    return section


def _structured(
    cls: type[T], document: object, problems: list[Problem], path: str = ""
) -> T | None:
    from hermitcrab.config.structure import structure_section

    result = structure_section(cls, document, path=(path,) if path else ())
    if isinstance(result, list):
        problems += result
        return None
    return result


def _contradictions(config: Config) -> list[Problem]:
    """What no single key can know: agents with the same id, more than one default agent."""
    problems = []
    entries = config.agents.list
    ids = [entry.id for entry in entries]
    for index, entry in enumerate(entries):
        path = ("agents", "list", index)
        if entry.id in ids[:index]:
            problems.append(Problem((*path, "id"), f'"{entry.id}" is the id of another agent too'))
        if entry.default and any(earlier.default for earlier in entries[:index]):
            problems.append(Problem((*path, "default"), "another agent is the default already"))
    return problems


def _expanded(path: Path | str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        hint = "Give an absolute path, for the home directory in HERMITCRAB_HOME"
        raise ConfigError(
            f"cannot tell what ~ stands for: {error}", where=path, hint=hint
        ) from error


def _read_text(file: Path, *, may_be_missing: bool) -> str | None:
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST_FILE_BYTES + 1)
    except FileNotFoundError as error:
        if may_be_missing and not file.is_symlink():
            return None
        raise ConfigError("there is no such file", where=file) from error
    except IsADirectoryError as error:
        raise ConfigError("a directory, not a file", where=file) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot be read: {reason}", where=file) from error
    if len(content) > _LARGEST_FILE_BYTES:
        raise ConfigError("larger than 1 MiB, so it is no configuration", where=file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        hint = "Save the file as UTF-8"
        raise ConfigError(f"not UTF-8 text at line {line}", where=file, hint=hint) from error
