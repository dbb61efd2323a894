import click


@click.command("init")
def init_command() -> None:
    """x"""
