"""`luminal explain`: the long form of a diagnostic."""

from __future__ import annotations

import click

from ..ir.errors import UsageError
from .answer import answer


@click.command("explain")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def explain(code: str | None, as_json: bool) -> int:
    """Explain the code of a diagnostic, with an example of the mistake; without a code, list all of them.

    \b
    Examples:
      luminal explain E0203
      luminal explain
    """
    from ..dsl.codes import CODES
    from ..dsl.diagnostics import render_diagnostics
    from ..dsl.examples import EXAMPLES, said_of

    if code is None:
        listed = {name: found.title for name, found in CODES.items()}
        click.echo(
            answer(**listed, results=[{"code": name, "title": title} for name, title in listed.items()])
            if as_json
            else "\n".join(f"{name}  {title}" for name, title in listed.items())
        )
        return 0
    name = code.strip().upper()
    if name not in CODES:
        from difflib import get_close_matches

        near = get_close_matches(name, CODES, 1)
        raise UsageError(f"there is no diagnostic {code}" + (f"; nearest: {near[0]}" if near else "; `luminal explain` lists them"))
    title, explanation = CODES[name]
    example = EXAMPLES[name]
    said = render_diagnostics(said_of(example))
    if as_json:
        found = {"code": name, "title": title, "explanation": explanation, "example": example, "said": said}
        click.echo(answer(**found, results=[found]))
    else:
        click.echo(f"{name}: {title}\n\n{explanation}\n\nFor example, of\n\n{_indented(example)}\n\nluminal says\n\n{_indented(said)}")
    return 0


def _indented(text: str) -> str:
    from ..dsl.diagnostics import WIDTH, printable, shorten

    return "\n".join(f"    {printable(shorten(line, WIDTH))}".rstrip() for line in text.rstrip("\n").split("\n"))
