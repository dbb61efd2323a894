import click


@click.command("status")
def status_command() -> None:
    """x"""
