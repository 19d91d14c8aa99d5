"""`sliceworks completion`: print shell completion scripts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_INSTALL = {
    "bash": 'eval "$(sliceworks completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(sliceworks completion zsh)"   in ~/.zshrc',
    "fish": "sliceworks completion fish > ~/.config/fish/completions/sliceworks.fish",
}


@click.command(epilog="\b\n" + "\n".join(_INSTALL.values()))
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script."""
    root = ctx.find_root()
    program = root.info_name or "sliceworks"
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(root.command, {}, program, f"_{program}_COMPLETE".upper().replace("-", "_")).source())
