"""`luminal compile`: everything from one input to source, products or a tested kernel."""

from __future__ import annotations

import re
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import click

from ..compiler import LEVELS, Compilation, Settings, Step, compilations
from ..ir.errors import Diagnostic, LuminalError, SourceError, UsageError
from . import diagnostics
from .answer import answer, failure
from .dependencies import write_rule
from .parse import Bindings, parse_bindings, parse_config, parse_pairs, parse_value
from .progress import stage
from .streams import standard_input

SEARCH = 20.0  # seconds of a search at -O3, where --timeout leaves it as much
MAX_PRESENCES = 8  # sets of optional ports that `--test` tries


@click.command("compile")
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option("-r", "--runtime", default="clang", metavar="NAME|DIR", help="clang, cuda, reference, an installed one, or a folder.")
@click.option("--target", metavar="NAME", help="Which machine of the runtime: native, x86-64-v3, sm_90a, …")
@click.option("-o", "output", metavar="PATH", help="A file (its suffix says what) or a folder for everything.")
@click.option(
    "--emit",
    multiple=True,
    metavar="LEVEL,...",
    help="ast composite graph schedule kernel program source header, to stdout (or into -o); into -o also object, library.",
)
@click.option(
    "-O", "level", type=click.IntRange(0, 3), default=2, show_default=True, help="0 plain, 1 fused, 2 scheduled, 3 searched for on this machine."
)
@click.option("--strict", is_flag=True, help="No reassociation of float reductions.")
@click.option("--fast", is_flag=True, help="Admit what is less accurate: division by a shared reciprocal, short filters by fewer multiplications.")
@click.option("--unchecked", is_flag=True, help="Leave out the run-time index checks.")
@click.option("--why", is_flag=True, help="The reasons for what the compiler decided.")
@click.option("-D", "defines", multiple=True, metavar="M=64", help="Fix a size, or set a parameter, at compile time.")
@click.option(
    "--assume", multiple=True, metavar='"K % 16 = 0"', help="A precondition on the sizes: compiled for, and checked by the emitted function."
)
@click.option("--dtype", "dtypes", multiple=True, metavar="T=f16", help="Bind a type variable.")
@click.option("--without", multiple=True, metavar="B", help="Compile for this optional port being absent.")
@click.option(
    "--test",
    "tests",
    multiple=True,
    metavar='["M=100, N=100"]',
    help="Build, run in a child process, compare with the reference. Again: other sizes, in turn. Leading strides: no gaps, unless given (ldA=128).",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the drawn inputs.")
@click.option("--input", "given", multiple=True, metavar="A=FILE.npy", help="An input of the test run.")
@click.option("--output", "kept", multiple=True, metavar="C=FILE.npy", help="Keep an output of the test run.")
@click.option("-c", "--config", "config", multiple=True, metavar="KEY=VALUE,...", help="The runtime's own settings; see --help-config.")
@click.option("--help-config", is_flag=True, help="List the runtime's settings.")
@click.option("-d", "--debug", type=click.IntRange(0, 4), default=0, help="1 times, 2 source, 3 each pass, 4 every level.")
@click.option("--print-after", metavar="PASS|all", help="Show the IR after a pass.")
@click.option("--stop-after", metavar="PASS", help="Stop there and show the IR.")
@click.option("--time-passes", is_flag=True, help="Seconds of each pass, to stderr.")
@click.option("--save-temps", metavar="DIR", help="Keep the IR after each pass, as files that can be compiled from.")
@click.option("-v", "verbose", is_flag=True, help="Print the downstream compiler's command.")
@click.option("--device", metavar="cuda:N|host", help="Run there.")
@click.option("--entry", metavar="NAME|all", help="Which composite of a file.")
@click.option("-I", "include", multiple=True, metavar="DIR", help="Where called composites are looked up.")
@click.option("-MD", "--write-dependencies", "dependencies", is_flag=True, help="Write beside the product what it was made of, as a rule for make.")
@click.option("--prefix", default="lm_", show_default=True, help="Of the emitted function names.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Bound on the downstream compiler, on each test run and on a search.",
)
@click.option(
    "--mem-limit", type=click.IntRange(1), metavar="MB", help="Bound on the memory of the downstream compiler, of each test run and of a search."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Of diagnostics.")
def compile_(**options: Any) -> int:
    """Compile composites: to C or CUDA, to libraries, or to kernels that are tested.

    An INPUT is a .toml or .lisp file, - (standard input), an intermediate file (.graph, .kernel, .program), or the name of a
    library composite, as `luminal ops` lists them. With neither -o, --emit nor --test, source, header and shared library are written into the current folder.

    \b
    Examples:
      luminal compile softmax -o softmax.c
      luminal compile samples/gemm.toml --runtime cuda -o gemm.cu
      luminal compile samples/gemm.toml --test "M=100, N=100, K=100" --config OMP=1,MARCH="native"
      echo '(composite ((A{f32}[N]) -> (B{f32}[N])) (return (exp A)))' | luminal compile - --emit source
    """
    if options["help_config"]:
        return help_config(options["runtime"])
    if not options["inputs"]:
        raise UsageError("no input: a .toml or .lisp file, - for standard input, an intermediate file, or the name of a library composite")
    emitted = parse_emit(options["emit"])
    consistent(options)
    if options["inputs"].count("-") > 1:
        raise UsageError("-: standard input can be read only once")
    if options["dependencies"] and emitted and options["output"] is None:
        raise UsageError("-MD: nothing is written that could depend on something; name it with -o")
    if options["output"] == "-":
        raise UsageError("-o -: text goes to standard output where there is no -o; else a file or a folder is named (./- where it has that name)")
    if options["as_json"] and (emitted or options["print_after"] or options["stop_after"]) and options["output"] is None:
        raise UsageError("--json prints one object and nothing else: give --emit and its like an -o")
    if options["mem_limit"]:
        from ..runtimes.limits import limit_memory

        limit_memory(options["mem_limit"])
    settings = settings_of(options)
    status = 0
    report: dict[str, Any] = {"ok": True, "runtime": None, "results": [], "files": [], "diagnostics": []}
    for input_ in options["inputs"]:
        try:
            found = compilations(input_, settings, stdin=standard_input, observer=observer(options), keeps=True)
            if (
                options["output"]
                and Path(options["output"]).suffix
                and not Path(options["output"]).is_dir()
                and len(found) + len(options["inputs"]) > 2
            ):
                raise UsageError(f"-o {options['output']}: one file for more than one composite; name a folder")
            for composite in found:
                asked = with_parameters(composite, options["tests"])
                if len(asked) > 1 and (emitted or options["output"]):
                    raise UsageError(f"what is written is one compilation, and --test binds parameters of {composite.name} in more ways than one")
                for compilation, tried in asked:
                    status = max(status, one(compilation, tried, options, emitted, report))
                    warn(compilation.warnings, options, report)
        except SourceError as error:
            warn(error.diagnostics, options, report)
            status = max(status, error.exit_status)
        except LuminalError as error:
            if not options["as_json"]:
                raise
            report |= failure(error)  # beside what was done before
            status = error.exit_status
            break
    overwritten(options["kept"], report["results"])
    if options["as_json"]:
        click.echo(answer(**report | {"ok": status == 0}))
    return status


def overwritten(kept: tuple[str, ...], results: list[dict[str, Any]]) -> None:
    """Say of what `--output` keeps that more than one run wrote it: the file holds what the last one did."""
    for text in kept:
        port = text.partition("=")[0]
        runs = [r for r in results if any(o["name"] == port for o in r["outputs"])]
        if len(runs) > 1:
            sizes = ", ".join(f"{k}={v}" for k, v in runs[-1]["sizes"].items())
            click.echo(
                f'luminal: warning: --output {text}: {len(runs)} runs wrote it, it holds that of the last ("{sizes}"); one --test "…" runs once',
                err=True,
            )


def with_parameters(compilation: Compilation, tests: tuple[str, ...]) -> list[tuple[Compilation, list[Bindings]]]:
    """Each compilation that the tests ask for, with what they try on it, in turn: `--test` may bind parameters too, which are fixed as by `-D`."""
    names = [p.name for p in compilation.composite.parameters] if tests and compilation.composite else []  # what is kept reads no composite
    found: list[tuple[Compilation, list[Bindings]]] = []
    for fixed, tests_of in groupby(map(parse_bindings, tests), key=lambda bound: {k: v for k, v in bound.items() if k in names}):
        of = compilation.changed(sizes={**compilation.settings.sizes, **fixed}) if fixed else compilation
        found.append((of, [{k: v for k, v in bound.items() if k not in names} for bound in tests_of]))
    return found or [(compilation, [])]


def warn(found: list[Diagnostic], options: dict[str, Any], report: dict[str, Any]) -> None:
    """Diagnostics to stderr or into the report, each once in a run: composites of one file may call the same ones."""
    objects = diagnostics.as_objects(found)
    fresh = [k for k, o in enumerate(objects) if o not in report["diagnostics"]]
    report["diagnostics"] += [objects[k] for k in fresh]
    if not options["as_json"]:
        each = list(dict.fromkeys(found))
        diagnostics.show([each[k] for k in fresh], diagnostics.wants_color(options["color"]))


def consistent(options: dict[str, Any]) -> None:
    """UsageError for options that contradict one another, or that would be without effect."""
    if not options["tests"]:
        for option, given in (("--input", options["given"]), ("--output", options["kept"]), ("--device", options["device"])):
            if given:
                raise UsageError(f"{option} is for a test run: it needs --test")
    elif options["stop_after"]:
        raise UsageError(f"--stop-after {options['stop_after']} and --test contradict: what is tested goes through all passes")
    if options["emit"] and options["stop_after"]:
        raise UsageError(f"--stop-after {options['stop_after']} and --emit contradict: both say what is shown")
    if options["print_after"] not in (None, "all"):
        from ..passes.pipeline import PIPELINE

        names = [p.name for p in PIPELINE]
        if options["print_after"] not in ("elaborate", *names):
            raise UsageError(f"--print-after {options['print_after']}: no such pass; there are elaborate, {', '.join(names)}")
    if not re.fullmatch(r"[A-Za-z_]\w*|", options["prefix"], re.ASCII):
        raise UsageError(f"--prefix {options['prefix']}: expected the start of a C name: letters, digits and _")
    for folder in options["include"]:
        if not Path(folder).is_dir():
            raise UsageError(f"-I {folder}: no such folder")


def settings_of(options: dict[str, Any]) -> Settings:
    config = parse_config(options["config"])
    keeps = not options["tests"]
    return Settings(
        runtime=options["runtime"], target=options["target"], config=config, O=options["level"], strict=options["strict"], fast=options["fast"], unchecked=options["unchecked"],
        sizes=parse_pairs(options["defines"], "-D", parse_value), dtype=parse_pairs(options["dtypes"], "--dtype", str), include=options["include"],
        assume=options["assume"], without=options["without"], entry=options["entry"], prefix=options["prefix"], portable=keeps, timeout=options["timeout"], device=options["device"],
        at=parse_bindings(options["tests"][0]) if options["tests"] else {}, budget=min(SEARCH, options["timeout"]),
    )  # fmt: skip


def parse_emit(texts: tuple[str, ...]) -> list[str]:
    from ..products import EMITTED

    levels = list(dict.fromkeys(w.strip() for text in texts for w in text.split(",")))
    for level in levels:
        if level not in EMITTED:
            raise UsageError(f"--emit {level or repr(level)}: no such level; there are {' '.join(EMITTED)}")
    return levels


def observer(options: dict[str, Any]) -> Any:
    """What happens after each pass: printing, timing, saving.  None where nothing of that is wanted."""
    wanted, folder, debug = options["print_after"], options["save_temps"], options["debug"]
    if not (wanted or folder or debug or options["time_passes"]):
        return None
    count = 0

    def observe(step: Step) -> None:
        nonlocal count
        from ..ir import text

        if step.level == "source":
            return
        if options["time_passes"] or debug >= 1:
            click.echo(f"{step.name:<16}{step.seconds * 1e3:9.2f} ms", err=True)
        if wanted in ("all", step.name) or debug >= 3:
            click.echo(f"; after {step.name}\n{text.show(step.ir)}", err=debug >= 3)
        if folder:
            from ..artifacts.write import inside, write_text
            from ..products import make_folder

            make_folder(Path(folder))
            write_text(inside(Path(folder), f"{step.ir.name}.{count:02}.{step.name}.{step.level}"), text.show(step.ir))
        count += 1

    return observe


def one(compilation: Compilation, tried: list[Bindings], options: dict[str, Any], emitted: list[str], report: dict[str, Any]) -> int:
    """One composite: stop early, emit, write, test, as asked.  Gives the exit status."""
    from ..products import emit, write_products

    report["runtime"] = compilation.runtime.name
    if options["stop_after"]:
        from ..ir import text

        show(text.show(compilation.run(stop_after=options["stop_after"])), options["output"])
        return 0
    products: list[Path] = []
    log: list[str] = []
    notes: list[str] = []
    if options["level"] > 2:
        searched(compilation, options, report)
    to_console = bool(options["debug"] or options["time_passes"] or options["print_after"] or (emitted and options["output"] is None))
    with stage(f"compiling {compilation.unit.name}", quiet=to_console or options["as_json"]):
        if options["output"] and not emitted:
            products = write_products(compilation, Path(options["output"]), log, notes)
        elif emitted:
            products = emit_levels(compilation, emitted, options["output"], log)
        elif not tried and not options["print_after"]:
            products = write_products(compilation, Path("."), log, notes)
    for note in notes:
        click.echo(f"luminal: note: {note}", err=True)
    if options["dependencies"]:
        if not products:
            raise UsageError("-MD: nothing is written that could depend on something; name it with -o")
        write_rule(products, compilation.dependencies)
    if options["debug"] >= 2:
        click.echo(compilation.rendered.source, err=True)
    if options["debug"] >= 4:
        for level in LEVELS:
            click.echo(emit(compilation, level), err=True)
    if options["why"]:
        for kernel, note in compilation.notes:
            click.echo(f"{kernel}: {note}", err=True)
    status = 0
    if not tried:
        compilation.rendered  # noqa: B018 - whatever was asked for, all passes run, so that they can be watched
    else:
        from .testing import test

        for variant in presences(compilation):
            status = max(status, test(variant, tried, options, report, log))
    if options["verbose"]:
        for command in log:
            click.echo(command, err=True)
    report["files"] += [str(p) for p in products]
    if products and not options["as_json"] and not emitted:
        click.echo("wrote " + ", ".join(map(str, products)))
    return status


def searched(compilation: Compilation, options: dict[str, Any], report: dict[str, Any]) -> None:
    """-O3, before anything is made: the record for these sizes, or a search, told on a terminal; with --why also what came of it."""
    with stage(f"searching {compilation.name}", quiet=options["as_json"]) as say:
        found = compilation.tune(lambda tried, known, gain: say(f"searching {compilation.name}: {tried} candidates, best {gain:.2f} of the default"))
    if found.warning and not options["as_json"]:
        click.echo(f"luminal: warning: {found.warning}", err=True)
    if found.summary and options["why"]:
        click.echo(found.summary, err=True)
    row: dict[str, Any] = {"warning": found.warning} if found.warning else {}
    if found.record is not None:
        r = found.record
        row |= {
            "sizes": r.sizes,
            "ratio": r.ratio,
            "noise": r.noise,
            "candidates": r.candidates,
            "default": r.is_default,
            "searched": found.found is not None,
        }
    report.setdefault("tuning", []).append({"composite": compilation.name, **row})


def presences(compilation: Compilation) -> list[Compilation]:
    """What `--test` covers: every set of optional ports may be absent (up to MAX_PRESENCES of them), unless --without says which are."""
    optional = compilation.optional
    if compilation.settings.without or not optional:
        return [compilation]
    absent = [names for count in range(len(optional) + 1) for names in combinations(optional, count)][:MAX_PRESENCES]
    return [compilation, *(compilation.variant(names) for names in absent[1:])]


FILES = frozenset({".c", ".h", ".cu", ".ptx", ".cubin", ".o", ".a", ".so", *(f".{level}" for level in LEVELS)})


def emit_levels(compilation: Compilation, levels: list[str], output: str | None, log: list[str]) -> list[Path]:
    from ..artifacts.write import inside, write_text
    from ..products import BUILT, emit, make_folder, source_suffix, write_products

    built = [level for level in levels if level in ("object", "library")]
    if built and output is None:
        raise UsageError(f"--emit {built[0]}: binary; give it a place with -o")
    if output is None:
        for level in levels:
            if len(levels) > 1:
                click.echo(f"---- {level}")
            click.echo(emit(compilation, level), nl=False)
        return []
    path = Path(output)
    if len(levels) == 1 and path.suffix and not path.is_dir():
        named = {"source": source_suffix(compilation), "header": ".h", "object": ".o", "library": ".so"}.get(levels[0], f".{levels[0]}")
        if path.suffix != named and not (levels[0] == "library" and path.suffix == ".a"):
            raise UsageError(f"--emit {levels[0]} and -o {output} contradict: the suffix of {levels[0]} is {named}")
        if levels[0] in built:
            return write_products(compilation, path, log)
        write_text(path, emit(compilation, levels[0]))
        return [path]
    if path.suffix in FILES and not path.is_dir():
        raise UsageError(f"-o {output}: one file for {' and '.join(levels)}; name a folder")
    suffixes = {"source": source_suffix(compilation), "header": ".h", "object": ".o", "library": ".so"}
    # everything is made before the first file is written
    texts = {level: emit(compilation, level) for level in levels if level not in built}
    for level in built:
        compilation.product(BUILT[suffixes[level]], suffixes[level], log)
    make_folder(path)
    written: list[Path] = []
    for level in levels:
        place = inside(path, f"{'lib' if level == 'library' else ''}{compilation.name}{suffixes.get(level, f'.{level}')}")
        if level in built:
            write_products(compilation, place, log)
        else:
            write_text(place, texts[level])
        written.append(place)
    return written


def show(text: str, output: str | None) -> None:
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        from ..artifacts.write import write_text

        write_text(Path(output), text)


def help_config(runtime: str) -> int:
    from .. import runtimes

    for key in runtimes.find(runtime).config_keys():
        choices = f" ({'|'.join(key.choices)})" if key.choices else ""
        click.echo(f"{key.name:<10} {key.type:<7} {key.help}{choices} [default: {key.default}]")
    return 0


__all__ = ["compile_", "parse_bindings"]
