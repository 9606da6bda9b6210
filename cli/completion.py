"""`luminal completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for a shell; evaluate it in the shell's start-up file.

    \b
    Examples:
      eval "$(luminal completion bash)"
      luminal completion fish > ~/.config/fish/completions/luminal.fish
    """
    from click.shell_completion import get_completion_class

    from .main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "luminal", "_LUMINAL_COMPLETE").source())
    return 0
