"""Schedules as text: one step a line, the axes and buffers first, options as `key=value`.

    script ::= line* ("variant" [condition] line*)*        a line is empty, a comment (# …), or a step; variants are explained in `variants.py`
    step   ::= NAME argument* (KEY "=" VALUE)*

        split i 14 tail=pad
        reorder i.0 j.0 i.1 j.1
        stage B j.0 p.1 j.1 at=p.0 space=shared

`luminal compile --emit schedule` prints what the automatic scheduler did in this form; replaying it on the unscheduled kernel gives the same kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from ...ir.expr import Expr
from ...ir.kernel import If, Kernel
from ...ir.record import replace
from .in_place import stays_in_place
from .steps import variants
from .tree import Facts, Never, StepError


class Step(NamedTuple):
    place: str  # MODULE.FUNCTION, imported when the step is first taken: a kernel takes few of all there are
    positional: str  # one letter an argument: n a name, i an integer; a trailing + or ? repeats or leaves out the last
    options: dict[str, str] = {}  # key -> n (name), i (integer), l (names with commas between)

    @property
    def function(self) -> Callable[..., Kernel]:
        return _found(self.place)


@cache
def _found(place: str) -> Callable[..., Kernel]:
    module, _, name = place.partition(".")
    return getattr(import_module(f".steps.{module}", __package__), name)


STEPS: Final[dict[str, Step]] = {
    "split": Step("loops.split", "ni", {"tail": "n", "aligned": "i"}),
    "part": Step("loops.part", "ni?"),
    "short": Step("copies.short", "ni"),
    "version": Step("copies.version", "in+"),
    "fit": Step("copies.fit", "nnii"),
    "share": Step("loops.share", "ni", {"multiple": "i", "whole": "i", "beside": "n"}),
    "deal": Step("residues.deal", "ni"),
    "sieve": Step("residues.sieve", "n"),
    "reorder": Step("loops.reorder", "n+"),
    "collapse": Step("loops.collapse", "nn", {"named": "i"}),
    "tile": Step("loops.tile", "nnii", {"tail": "n"}),
    "unroll": Step("kinds.unroll", "ni?"),
    "vectorize": Step("kinds.vectorize", "n"),
    "parallel": Step("kinds.parallel", "n"),
    "mirror": Step("kinds.mirror", "n"),
    "select": Step("kinds.select", "n"),
    "count_up": Step("kinds.count_up", "n"),
    "serial": Step("kinds.serial", "n"),
    "bind": Step("kinds.bind", "nn"),
    "cooperate": Step("cooperation.cooperate", "ni", {"most": "i"}),
    "divide": Step("layouts.divide", "nii+"),
    "onto": Step("layouts.onto", "n"),
    "gaps": Step("layouts.gaps", "ni"),
    "swizzle": Step("layouts.swizzle", "ni"),
    "partials": Step("layouts.partials", "n+"),
    "portion": Step("portions.portion", "in+"),
    "whole": Step("cooperation.whole", "n"),
    "fetch": Step("fetches.fetch", "nn+", {"ahead": "i"}),
    "ring": Step("fetches.ring", "nn+", {"slots": "i", "behind": "i"}),
    variants.KNOWING: Step("variants.decide", ""),
    "interior": Step("guards.interior", "n+", {"clamps": "i", "guards": "i", "fixed": "i", "masks": "i"}),
    "unswitch": Step("guards.unswitch", "n"),
    "factors": Step("guards.factors", "n"),
    "peel": Step("peels.peel", "n", {"clamps": "i", "fixed": "i", "over": "l"}),
    "expand": Step("distribute.expand", "nn+", {"near": "i"}),
    "jam": Step("jams.jam", "n", {"stores": "i"}),
    "pipeline": Step("pipelines.pipeline", "nn+"),
    "abreast": Step("abreast.abreast", "n"),
    "fission": Step("distribute.fission", "n+", {"around": "l", "stores": "l"}),
    "sink": Step("distribute.sink", "n", {"inline": "i"}),
    "once": Step("doubts.once", "nn"),
    "join": Step("joins.join", "nn"),
    "stage": Step(
        "staging.stage",
        "nn+",
        {
            "at": "n",
            "space": "n",
            "order": "l",
            "name": "n",
            "align": "i",
            "exact": "l",
            "spare": "i",
            "pad": "i",
            "plain": "i",
            "several": "i",
            "whole": "l",
        },
    ),
    "window": Step("windows.window", "nn+", {"at": "n", "multiple": "l", "lanes": "i", "space": "n", "name": "n", "align": "i", "last": "n"}),
    "write_back": Step("written_back.write_back", "nn+", {"filled": "i"}),
    "spill": Step("staging.spill", "nn", {"turned": "i"}),
    "compute_at": Step("producers.compute_at", "nn"),
    "hold": Step("chains.hold", "nni?"),
    "tabulate": Step("tables.tabulate", "n+"),
    "accumulate": Step("reductions.accumulate", "n", {"into": "n", "outside": "n", "space": "n"}),
    "rfactor": Step("reductions.rfactor", "n", {"skip": "i", "into": "n"}),
    "split_reduction": Step("reductions.split_reduction", "ni", {"least": "i"}),
    "search": Step("searches.search", "ni"),
    "narrow": Step("narrow.narrow", "n"),
    "leave": Step("leave.leave", "n"),
    "unrounded": Step("narrow.unrounded", "n"),
    "rough": Step("rough.rough", "n"),
    "distribute": Step("terms.distribute", "n"),
    "floats": Step("terms.floats", "n"),
    "dot": Step("dots.dot", "nn", {"multiple": "i", "signed": "n"}),
    "offset": Step("offsets.offset", "nn"),
    "screen": Step("dots.screen", "n", {"lanes": "l"}),
    "tensorize": Step("tensors.tensorize", "nn"),
    "matrix": Step("warps.matrix", "n"),
    "align": Step("streams.align", "nn", {"least": "i", "trips": "i"}),
    "line_tiles": Step("line_tiles.line_tiles", "nin"),
    "even": Step("line_tiles.even", "nn"),
    "stream_store": Step("streams.stream_store", "n", {"least": "i"}),
    "prefetch": Step(
        "prefetches.prefetch",
        "nnn",
        {
            "trips": "i",
            "bytes": "i",
            "near": "i",
            "least": "i",
            "places": "i",
            "most": "i",
            "over": "i",
            "on": "n",
            "cache": "i",
            "again": "i",
            "times": "i",
            "often": "i",
        },
    ),
    "prefetch_block": Step("block_ahead.prefetch_block", "nnn", {"most": "i", "least": "i", "cache": "i"}),
    "prefetch_group": Step("group_ahead.prefetch_group", "nn", {"ahead": "i", "least": "i"}),
    "prefetch_panel": Step("panels_ahead.prefetch_panel", "nnnn"),
    "prefetch_chunk": Step("panels_ahead.prefetch_chunk", "nnnn", {"chunks": "i", "cache": "i", "least": "i", "times": "i"}),
    "prefetch_rows": Step("panels_ahead.prefetch_rows", "nnn"),
    "prefetch_tile": Step("panels_ahead.prefetch_tile", "nn"),
    "skip": Step("skips.skip", "n", {"end": "i"}),
    "confine": Step("confined.confine", "n"),
    "prefetch_end": Step("streams.prefetch_end", "nn", {"least": "i"}),
    "region": Step("team.region", "n?", {"queue": "n"}),
}


@lru_cache(maxsize=1024)  # variants of a kernel take many of the same steps
def parse(line: str) -> tuple[str, list[Any], dict[str, Any]]:
    """A line as step, arguments and options, which are not to be changed; a StepError says what is wrong with it."""
    words = line.split("#", 1)[0].split()
    if not words:
        raise StepError("an empty line is no step")
    name, rest = words[0], words[1:]
    if name not in STEPS:
        raise StepError(f"no step `{name}`; there are {', '.join(sorted(STEPS))}")
    step = STEPS[name]
    plain = [w for w in rest if "=" not in w]
    kinds = list(step.positional.rstrip("+?"))
    if step.positional.endswith("+"):
        kinds += [kinds[-1]] * (len(plain) - len(kinds))
    elif step.positional.endswith("?") and len(plain) < len(kinds):
        kinds.pop()
    if len(plain) != len(kinds):
        raise StepError(f"{name}: {len(plain)} arguments where {len(kinds)} are expected")
    arguments = [_value(name, w, k) for w, k in zip(plain, kinds, strict=True)]
    options: dict[str, Any] = {}
    for word in rest:
        if "=" in word:
            key, _, text = word.partition("=")
            if key not in step.options:
                raise StepError(f"{name}: no option `{key}`; there are {', '.join(step.options) or 'none'}")
            options[key] = tuple(text.split(",")) if step.options[key] == "l" else _value(name, text, step.options[key])
    return name, arguments, options


def _value(step: str, word: str, kind: str) -> Any:
    if kind != "i":
        return word
    if not word.isdecimal():
        raise StepError(f"{step}: `{word}` is no number")
    return int(word)


def apply(kernel: Kernel, facts: Facts, line: str) -> Kernel:
    """The kernel after one step; the step is recorded in its schedule.  StepError also where what is read where it is updated is no longer seen to be safe."""
    after = taken(kernel, facts, line)
    stays_in_place(kernel, after, facts)
    return after


def taken(kernel: Kernel, facts: Facts, line: str) -> Kernel:
    """The same for one step of several, which are safe together."""
    name, arguments, options = parse(line)
    for s in kernel.body:
        if isinstance(s, If) and variants.WORD in kernel.schedule:  # the last of the variants has no condition
            raise StepError(f"{name}: the variants of `{kernel.name}` are put together already")
    changed = STEPS[name].function(kernel, facts, *arguments, **options)
    return changed.with_schedule((*kernel.schedule, line))


def replay(kernel: Kernel, facts: Facts, script: str | Iterable[str], fewer_sizes: bool = False) -> Kernel:
    """The kernel after all steps of a script, part by part where it has variants; with `fewer_sizes` than those that it was made for, without the steps that do nothing there.  A StepError names the line at fault, or says what is read where it is updated and is no longer seen to be safe."""
    lines = script.splitlines() if isinstance(script, str) else script
    parts: list[tuple[Expr | None, Kernel]] = []
    common, current, known = kernel, kernel, facts
    for number, line in enumerate(lines, 1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        try:
            if text.split()[0] == variants.WORD:
                if parts:
                    parts[-1] = (parts[-1][0], current)
                else:
                    common = current
                found = variants.condition(text.removeprefix(variants.WORD).strip(), facts)
                current = variants.under(common, found, [c for c, _ in parts])
                parts.append((found, current))
                known = facts
            else:
                if text == variants.KNOWING and parts:
                    known = replace(facts, assumed=parts[-1][0])
                current = taken(current, known, text)
        except StepError as e:
            if fewer_sizes and isinstance(e, Never):
                continue
            raise StepError(f"line {number}, `{text}`: {e}") from None
    if parts:
        parts[-1] = (parts[-1][0], current)
        current = variants.choose(common, parts)
    stays_in_place(kernel, current, facts)
    return variants.handed_over(current)
