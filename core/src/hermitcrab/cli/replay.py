import click


@click.command("replay")
def replay_command() -> None:
    """x"""
