import click


@click.command("sessions")
def sessions_command() -> None:
    """x"""
