import click


@click.command("plugins")
def plugins_command() -> None:
    """x"""
