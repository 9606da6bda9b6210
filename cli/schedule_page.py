"""docs/schedules.md, made from what the steps say of themselves: `python -m luminal.cli.schedule_page` prints it."""

from __future__ import annotations

import sys

from ..passes.schedule import STEPS
from ..passes.schedule.script import Step
from ..passes.schedule.steps import variants

HEAD = """# Schedules

How a kernel is run: a list of steps, each a rewrite of the loop nest that keeps its meaning. The automatic scheduler writes such a list for every kernel; `--emit schedule` prints it, and
`--why` the reasons. A list that stands in a composite's TOML takes its place, for one runtime:

```toml
[composite]
name = "scaled"
inputs = ["X{f32}[M N]"]
outputs = ["Y{f32}[M N]"]

[implementation]
code = "(return (* 2 (exp X)))"

[schedule.clang]
steps = \"\"\"
split j 16 tail=pad     # j.1 in vectors of 16
vectorize j.1
parallel i
\"\"\"
```

```sh
luminal compile scaled.toml --emit kernel
luminal compile scaled.toml --test "M=37, N=29"
```

What `--emit schedule` printed gives the same bytes again when it stands there. Axes are named as `--emit kernel -O1` shows them; `split i 4` makes `i.0` and `i.1`. A composite of several kernels has a part for each,
headed `kernel NAME`; `#` begins a comment. A step that would change the meaning of the kernel is refused, with the line and the reason (E0601), and so is one that names what is not there.

`NAME` stands for an axis or a buffer, `N` for a number, `…` for more of the same, `[ ]` for what may be left out; options are `key=value`, their lists have commas.
"""

WORDS = {"n": "NAME", "i": "N", "l": "NAME,…"}


def schedule_page() -> str:
    parts = [HEAD, "`make docs` writes the rest of this page from the steps themselves.\n"]
    parts += [f"## {name}\n\n`{usage(name, step)}`\n\n{explained(step.function.__doc__, 4)}\n" for name, step in STEPS.items()]
    parts.append(f"## variant\n\n`variant [CONDITION]`\n\n{explained(variants.__doc__, 0)}\n")
    return "\n".join(parts)


def usage(name: str, step: Step) -> str:
    letters = step.positional.rstrip("+?")
    words = [WORDS[letter] for letter in letters]
    if step.positional.endswith("+"):
        words.append("…")
    elif step.positional.endswith("?"):
        words[-1] = f"[{words[-1]}]"
    return " ".join([name, *words, *(f"[{key}={WORDS[kind]}]" for key, kind in step.options.items())])


def explained(text: str | None, margin: int) -> str:
    """A docstring as it stands in its file, without the margin of what it stands in; what is indented in it is code."""
    first, *rest = (text or "").rstrip().split("\n")
    return "\n".join([first, *(line[margin:] for line in rest)])


if __name__ == "__main__":
    sys.stdout.write(schedule_page())
