import click


@click.command("memory")
def memory_command() -> None:
    """x"""
