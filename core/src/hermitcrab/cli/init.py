"""``hermitcrab init``: a home to begin with."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings


@click.command("init")
@json_option
@common_options
@pass_settings
def init_command(settings: Settings, as_json: bool) -> None:
    """Create the home: config.yaml and the files of the workspace.

    What is there already stays as it is.
    """
    from hermitcrab.agent.agent import make_folders, workspace_of
    from hermitcrab.cli.output import print_json, say
    from hermitcrab.cli.templates import CONFIG, WORKSPACE
    from hermitcrab.config import default_agent_id

    home = settings.home_folder()
    config = settings.config()
    workspace = workspace_of(config, default_agent_id(config), home)
    make_folders(home, workspace, workspace / "memory")
    files = {settings.config_file(): CONFIG}
    files |= {workspace / name: text for name, text in WORKSPACE.items()}
    created = [file for file, text in files.items() if write_missing(file, text)]
    if as_json:
        print_json(
            {
                "home": str(home),
                "workspace": str(workspace),
                "created": [str(file) for file in created],
                "kept": [str(file) for file in files if file not in created],
            }
        )
        return
    for file in files:
        say(f"{'created' if file in created else 'kept   '}  {file}")
    say("Next: hermitcrab chat")


def write_missing(file: Path, text: str) -> bool:
    """Write a file that only its owner may read, unless something is there; whether it was written."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    return True
