import click


@click.command("config")
def config_command() -> None:
    """x"""
