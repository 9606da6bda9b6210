"""kernels → kernels: the schedule of each kernel, by its steps.

-O0 and -O1 leave a kernel as it is, but for the grid of a GPU.  From -O2 the automatic scheduler takes over (`auto.py`), unless the composite has a script for
the runtime.  A script is for a composite of one kernel, or names its kernels: a line `kernel NAME` (or its number) starts the part of that kernel.
"""

from __future__ import annotations

from ...ir.errors import Diagnostic, SourceError
from ...ir.kernel import Barrier, Kernel, Loop, Module, Region, statements
from ...ir.target import Options, Target
from .again import again
from .auto import automatic
from .script import STEPS, apply, parse, replay
from .tree import Facts, StepError, unique


def schedule(ir: Module, target: Target, options: Options) -> Module:
    """Schedule every kernel of the module.  SourceError [E0601] where a step of the user's script is refused."""
    facts = Facts.of(ir, options.strict, target.shared_bytes)
    script = options.schedules.get(target.runtime)
    if script is not None and options.level > 0 and not any(map(is_scheduled, ir.kernels)):
        return _by_script(ir, facts, script)
    if options.level < 2 and not target.gpu:
        return ir
    done: list[tuple[Kernel, Kernel]] = []  # as they were, and as they are scheduled

    def one(kernel: Kernel) -> Kernel:
        if is_scheduled(kernel):
            return kernel
        kernel = unique(kernel)
        same = (k for plain, scheduled in done if (k := again(kernel, plain, scheduled, ir, target.gpu)) is not None)
        done.append((kernel, next(same, None) or automatic(kernel, facts, target, options)))
        return done[-1][1]

    return ir.with_kernels(tuple([one(k) for k in ir.kernels]))  # no `map`: it would take a StopIteration for the end of the kernels


def is_scheduled(kernel: Kernel) -> bool:
    """Whether somebody has decided already: the kernel records steps, or holds what only steps (or a hand) put there."""
    plain = ("serial", "elastic", "parallel", "reduce")
    decided = any(isinstance(s, (Region, Barrier)) or (isinstance(s, Loop) and s.kind not in plain) for s in statements(kernel.body))
    return bool(kernel.schedule) or decided


def _by_script(ir: Module, facts: Facts, script: str) -> Module:
    """The user's steps, kernel by kernel; kernels without a part stay unscheduled."""
    parts: dict[str, list[str]] = {}
    current = ir.kernels[0].name if len(ir.kernels) == 1 else ""
    for line in script.splitlines():
        words = line.split("#", 1)[0].split()
        if words[:1] == ["kernel"] and len(words) == 2:
            current = ir.kernels[int(words[1])].name if words[1].isdecimal() and int(words[1]) < len(ir.kernels) else words[1]
        elif words:
            parts.setdefault(current, []).append(" ".join(words))
    known = {k.name for k in ir.kernels}
    for name in parts:
        if name not in known:
            hint = f"the kernels are {', '.join(sorted(known))}; start a part with `kernel NAME`"
            raise _error(f"the schedule has steps for {f'`{name}`' if name else 'no kernel'}", hint)
    try:
        return ir.with_kernels(tuple(replay(unique(k), facts, parts.get(k.name, [])) for k in ir.kernels))
    except StepError as e:
        raise _error(f"schedule: {e}", "the automatic schedule is what `--emit schedule` prints without a script") from None


def _error(message: str, hint: str) -> SourceError:
    return SourceError([Diagnostic("E0601", message, notes=(hint,))])


__all__ = ["STEPS", "Facts", "StepError", "apply", "automatic", "parse", "replay", "schedule", "unique"]
