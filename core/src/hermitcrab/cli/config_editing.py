"""Writing config.yaml: changed, checked as a whole, and put in place in one step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermitcrab.config.editing import Change


def edit_config(file: Path, changes: Sequence[Change]) -> bool:
    """Apply ``changes`` to the file, creating it where it is missing; whether anything is different now.

    Nothing is written if the configuration would be wrong afterwards, or if somebody else has written it meanwhile.

    :raises ConfigError: naming every path that would be wrong.
    :raises HermitcrabError: if the file cannot be written.
    """
    from hermitcrab.agent.agent import make_folders
    from hermitcrab.agent.replacing import replace_file
    from hermitcrab.config import config_from
    from hermitcrab.config.editing import changed_text
    from hermitcrab.config.yaml_text import parse_yaml
    from hermitcrab.errors import ConfigError, HermitcrabError

    target = Path(os.path.realpath(file))
    before = _text_of(target)
    after = changed_text(before, changes)
    if after == before:
        return False
    document = parse_yaml(after, where=str(file))
    config_from({} if document is None else document, where=f"{file} (not written)")

    def check() -> None:
        if _text_of(target) != before:
            raise ConfigError(
                "was changed by somebody else meanwhile", where=file, hint="Try again"
            )

    make_folders(target.parent)
    try:
        replace_file(target, after.encode(), check=check)
    except OSError as error:
        raise HermitcrabError(
            f"cannot be written: {error.strerror or error}",
            where=file,
            hint="Check who owns the file and its folder",
        ) from error
    return True


def _text_of(file: Path) -> str:
    from hermitcrab.errors import ConfigError

    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=file) from error
