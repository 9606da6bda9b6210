"""Random steps of a schedule: most do not apply, and a StepError says so."""

from __future__ import annotations

import random

from luminal.ir.kernel import Alloc, Kernel, Loop, Module, statements
from luminal.passes.schedule import STEPS, Facts, StepError, apply, unique

RARE = ("serial", "parallel", "unroll", "region", "bind")


def random_line(kernel: Kernel, rng: random.Random) -> str:
    """A step with arguments of the right kinds."""
    axes = [s.axis for s in statements(kernel.body) if isinstance(s, Loop)]
    buffers = [*kernel.buffers, *(s.buffer.name for s in statements(kernel.body) if isinstance(s, Alloc))]

    def axis() -> str:
        return rng.choice(axes)

    name = rng.choice([*(n for n in STEPS if n not in RARE), "split", "split", "split", "reorder", "expand", "stage", rng.choice(RARE)])
    some = " ".join(dict.fromkeys(axis() for _ in range(rng.randint(1, 3))))
    buffer = rng.choice(buffers)
    match name:
        case "split" | "unroll":
            return f"{name} {axis()} {rng.randint(1, 5)}" + (
                f" tail={rng.choice(['guard', 'cut', 'pad', 'pad aligned=1', 'cut aligned=1', 'clamp'])}" if name == "split" else ""
            )
        case "collapse" | "join":
            return f"{name} {axis()} {axis()}"
        case "tile":
            return f"tile {axis()} {axis()} {rng.randint(1, 4)} {rng.randint(1, 4)} tail={rng.choice(['guard', 'pad', 'clamp'])}"
        case "bind":
            return f"bind {axis()} {rng.choice(['block.x', 'block.y', 'thread.x', 'thread.y'])}"
        case "expand":
            return f"expand {buffer} {some}"
        case "stage":
            return f"stage {buffer} {some}" + rng.choice(["", f" at={axis()}"]) + f" space={rng.choice(['private', 'shared'])}"
        case "write_back":
            return f"write_back {buffer} {some}"
        case "spill" | "compute_at" | "prefetch_group":
            return f"{name} {buffer} {axis()}"
        case "search":
            return f"search {axis()} {rng.randint(1, 4)}"
        case "version":
            return f"version {rng.randint(1, 4)} {some}"
        case "deal" | "part" | "share" | "short":
            return f"{name} {axis()}" + (" " + str(rng.randint(1, 4)) if name != "part" or rng.random() < 0.5 else "")
        case "split_reduction":
            return f"split_reduction {axis()} {rng.randint(1, 4)}" + rng.choice(["", " least=2"])
        case "accumulate":
            return f"accumulate {axis()}" + rng.choice(["", f" into={buffer}"])
        case "stream_store":
            return f"stream_store {buffer}" + rng.choice(["", " least=40"])
        case "prefetch" | "prefetch_block":
            return f"{name} {buffer} {axis()} {axis()}"
        case "reorder" | "interior" | "tabulate":
            return f"{name} {some}"
        case "fission":
            return f"fission {some}" + rng.choice(["", "", f" stores={buffer}"])
        case "pipeline":
            rows = [(s.axis, [x.axis for x in s.body if isinstance(x, Loop)]) for s in statements(kernel.body) if isinstance(s, Loop)]
            several = [(row, passes) for row, passes in rows if len(passes) > 1]
            if not several:
                return f"pipeline {some}"
            row, passes = rng.choice(several)
            return f"pipeline {row} {' '.join(passes[rng.randint(0, len(passes) - 2) :])}"
        case "hold":
            return f"hold {axis()} {rng.choice(['exp', 'sin', 'mul', 'add'])} {rng.randint(0, 1)}"
        case "region":
            return "region"
        case _:
            return f"{name} {axis()}"


def randomly_scheduled(module: Module, rng: random.Random, steps: int, tries: int) -> Module:
    """Every kernel with up to `steps` steps that apply; nothing is bound to a GPU's threads."""
    facts = Facts.of(module, False)
    kernels: list[Kernel] = []
    for start in module.kernels:
        kernel = unique(start)
        for _ in range(tries):
            if not any(isinstance(s, Loop) for s in statements(kernel.body)) or len(kernel.schedule) >= steps:
                break
            line = random_line(kernel, rng)
            if not line.startswith("bind"):
                try:
                    kernel = apply(kernel, facts, line)
                except StepError:
                    continue
        kernels.append(kernel)
    return module.with_kernels(tuple(kernels))
