"""A new plugin as files: a distribution that installs, is tested, and does something small and real."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from attrs import frozen

from hermitcrab.errors import PluginError

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_PREFIX = "hermitcrab-"
_SUFFIX = ".template"
#: Where files of the templates go that a package could not carry under their own names.
_PLACES = {"gitignore": ".gitignore", "workflows/test.yml": ".github/workflows/test.yml"}


@frozen(kw_only=True)
class PluginKind:
    """A kind of plugin that can be begun: its entry-point group, and the command that selects it."""

    group: str
    description: str
    select: str
    dependencies: tuple[str, ...] = ("hermitcrab>=0.1",)


#: By the word on the command line.
KINDS: Mapping[str, PluginKind] = {
    "context-engine": PluginKind(
        group="hermitcrab.context_engines",
        description="A context engine for hermitcrab",
        select="hermitcrab plugins enable plugin-id",
        dependencies=("attrs>=24.2", "hermitcrab>=0.1"),
    ),
    "memory": PluginKind(
        group="hermitcrab.memory",
        description="A memory for hermitcrab",
        select="hermitcrab plugins enable plugin-id",
        dependencies=("attrs>=24.2", "hermitcrab>=0.1"),
    ),
    "hooks": PluginKind(
        group="hermitcrab.plugins",
        description="Hooks for hermitcrab",
        select="hermitcrab plugins enable plugin-id",
        dependencies=("attrs>=24.2", "hermitcrab>=0.1"),
    ),
    "embeddings": PluginKind(
        group="hermitcrab.plugins",
        description="Embeddings for hermitcrab",
        select="hermitcrab config set agents.defaults.memorySearch.provider plugin-id",
    ),
    "model": PluginKind(
        group="hermitcrab.plugins",
        description="A model for hermitcrab",
        select="hermitcrab config set agents.defaults.model plugin-id/echo",
    ),
}


@frozen(kw_only=True)
class NewPlugin:
    """What is to be written: ``folder`` is the distribution's name, ``files`` their texts by relative path."""

    folder: str
    files: Mapping[str, str]
    commands: tuple[str, ...]


def new_plugin(kind: str, name: str) -> NewPlugin:
    """The files of a plugin with the id ``name``, and the commands that install, test and select it.

    :raises PluginError: if the name is no id, or one of a plugin of hermitcrab itself.
    """
    plugin_id = _checked(name)
    words = _words_of(plugin_id, KINDS[kind])
    texts = {
        _filled(path, words): _filled(template, words)
        for part in ("common", kind.replace("-", "_"))
        for path, template in _templates(part)
    }
    module = words["plugin_module"]
    texts[f"src/{module}/py.typed"] = ""
    folder = words["plugin-distribution"]
    return NewPlugin(
        folder=folder,
        files=texts,
        commands=(
            f"python -m pip install --editable './{folder}[test]'",
            f"python -m pytest {folder}",
            _filled(KINDS[kind].select, words),
        ),
    )


def write_plugin(plugin: NewPlugin, place: Path) -> Path:
    """Write the files into a new folder in ``place``; returns it.

    :raises PluginError: if something is there already, or the folder cannot be written.
    """
    folder = place / plugin.folder
    try:
        folder.mkdir(parents=True)
        for path, text in sorted(plugin.files.items()):
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise PluginError(
            "is there already, and nothing is overwritten",
            where=folder,
            hint="Choose another name, or another place with --into",
        ) from error
    except OSError as error:
        raise PluginError(f"cannot be written: {error.strerror or error}", where=folder) from error
    return folder


def _checked(name: str) -> str:
    from hermitcrab.plugins.discovery import CORE_DISTRIBUTIONS

    plugin_id = name.removeprefix(_PREFIX)
    if not _NAME.fullmatch(plugin_id):
        raise PluginError(
            f"{name!r} cannot be the id of a plugin",
            hint="Use small letters, digits and single hyphens, such as word-window",
        )
    if plugin_id in CORE_DISTRIBUTIONS.values():
        raise PluginError(
            f"{plugin_id!r} belongs to {_PREFIX.rstrip('-')} itself", hint="Choose another name"
        )
    return plugin_id


def _words_of(plugin_id: str, kind: PluginKind) -> dict[str, str]:
    """What the words that the templates use stand for."""
    parts = plugin_id.split("-")
    dependencies = ", ".join(f'"{each}"' for each in kind.dependencies)
    return {
        "plugin-distribution": f"{_PREFIX}{plugin_id}",
        "plugin-description": kind.description,
        "plugin-dependencies": f"[{dependencies}]",
        "plugin-group": kind.group,
        "plugin-title": " ".join(parts).capitalize(),
        "plugin-id": plugin_id,
        "plugin_module": f"{_PREFIX}{plugin_id}".replace("-", "_"),
        "PluginClass": "".join(part.capitalize() for part in parts),
    }


def _filled(text: str, words: Mapping[str, str]) -> str:
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.sub(pattern, lambda match: words[match[0]], text)


def _templates(part: str) -> list[tuple[str, str]]:
    """The templates of one part: where each file goes, and its text."""
    found: list[tuple[str, str]] = []
    _collect(files("hermitcrab.cli").joinpath("scaffolds", part), "", found)
    return [(_PLACES.get(path, path), text) for path, text in found]


def _collect(folder: Traversable, path: str, found: list[tuple[str, str]]) -> None:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        inside = f"{path}{each.name}"
        if each.is_dir():
            _collect(each, f"{inside}/", found)
        elif inside.endswith(_SUFFIX):
            found.append((inside.removesuffix(_SUFFIX), each.read_text(encoding="utf-8")))
