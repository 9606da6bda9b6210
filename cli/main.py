"""The `luminal` command: arguments in, text and exit status out."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .. import __version__
from ..ir.errors import CompilerBug, LuminalError, SourceError, ToolError, UsageError
from . import diagnostics
from .streams import drop_output, open_closed

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# name -> its module in this folder; the command is the attribute of the same name
COMMANDS = {
    "compile": "compile_",
    "check": "check",
    "explain": "explain",
    "ops": "ops",
    "test-runtime": "test_runtime",
    "bench": "bench",
    "tune": "tune",
    "tuning": "tuning",
    "show": "show",
    "new": "new",
    "doctor": "doctor",
    "cache": "cache",
    "completion": "completion",
}


class Closed(Exception):
    """Nobody reads what is written (`| head`).  click gives status 1 where it sees BrokenPipeError itself."""


class Lazy(click.Group):
    """Commands are imported when they are called: `luminal --version` pays for none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            if ctx.resilient_parsing:  # completion
                return None
            from difflib import get_close_matches

            near = get_close_matches(cmd_name, COMMANDS, 1)
            raise UsageError(f"there is no command {cmd_name}; " + (f"nearest: {near[0]}" if near else f"there are {', '.join(COMMANDS)}"))
        from importlib import import_module

        return getattr(import_module(f".{module}", __package__), module)

    def invoke(self, ctx: click.Context) -> int | None:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise Closed from None


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="luminal", message="%(prog)s %(version)s")
def cli() -> None:
    """Compile tensor composites to fast C and CUDA kernels.

    \b
    Example:
      luminal compile samples/gemm.toml --runtime clang --test "M=100, N=100, K=100"
    """


def prepare(argv: Sequence[str]) -> list[str]:
    """The arguments as click takes them: @response files expanded, the ancestor's `-i FILE …` turned into `compile FILE …`, and a `--test` whose next word is no
    binding (it holds no `=`) given the empty one."""
    words: list[str] = []
    for word in argv:
        if word.startswith("@") and len(word) > 1:
            import shlex

            try:
                words.extend(shlex.split(Path(word[1:]).read_text(encoding="utf-8"), comments=True))
            except UnicodeDecodeError:
                raise UsageError(f"{word}: not UTF-8 text") from None
            except (OSError, ValueError) as error:
                said = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
                raise UsageError(f"{word}: {said}") from None
        else:
            words.append(word)
    if words and words[0] in ("-i", "--input-file"):
        words = ["compile", *words[1:]]
    result: list[str] = []
    k = 0
    while k < len(words):
        if words[k] == "--test":
            binding = words[k + 1] if k + 1 < len(words) else ""
            takes = "=" in binding and not binding.startswith("-")
            result.append(f"--test={binding if takes else ''}")
            k += 2 if takes else 1
        elif words[k] == "-i" and k + 1 < len(words):
            result.append(words[k + 1])
            k += 2
        else:
            result.append(words[k])
            k += 1
    return result


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and leave with the exit status of the contract (see `docs/cli.md`)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    seldom_collect()
    open_closed()
    for name in ("SIGTERM", "SIGHUP"):  # an orderly end, so that what was begun is cleared away
        # what `nohup` has us ignore stays ignored
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), _leave)
    status = run(arguments)
    gc.freeze()  # the end of the process looks for cycles in all that was made: a twentieth of its time
    sys.exit(status)


def seldom_collect() -> None:
    """Nearly all that a compilation makes lives as long as it does: one look for cycles among 200 000 objects takes 12 ms and finds none, after every 50 000 they took a sixteenth of the
    time, after every 700 a tenth more."""
    gc.set_threshold(1_000_000)


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def run(arguments: list[str]) -> int:
    try:
        arguments = prepare(arguments)
        result = cli.main(arguments, prog_name="luminal", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        answered(arguments, "interrupted")
        return 130
    except click.ClickException as error:
        if not answered(arguments, error):
            error.show()
        return error.exit_code
    except (Closed, BrokenPipeError):
        drop_output()
        return 0
    except MemoryError:
        return report(ToolError("out of memory"), arguments)
    except LuminalError as error:
        return report(error, arguments)
    except OSError as error:
        if error.filename is None and error.errno in FULL:  # of what is written a piece at a time only standard output
            drop_output()
            return report(UsageError(f"standard output: {os.strerror(error.errno).lower()}"), arguments)
        return unexpected(error, arguments)
    except Exception as error:
        return unexpected(error, arguments)


def unexpected(error: Exception, arguments: list[str]) -> int:
    """Whatever it is, it is ours, but for what the driver or a template of a runtime raised."""
    from ..runtimes.registry import written_by_author

    where = written_by_author(error)
    if where:
        return report(UsageError(f"the runtime fails at {where}: {type(error).__name__}: {error}"), arguments)
    return report(CompilerBug(type(error).__name__, str(error)), arguments, error)


def answered(arguments: list[str], error: LuminalError | click.ClickException | str) -> bool:
    """Under --json an error is one object on standard output."""
    if "--json" not in arguments:
        return False
    from .answer import answer, failure

    click.echo(answer(**failure(error)))
    return True


def report(error: LuminalError, arguments: list[str], cause: BaseException | None = None) -> int:
    """Print an error to stderr (to stdout as JSON under --json) and give its exit status."""
    if answered(arguments, error):
        return error.exit_status
    if isinstance(error, SourceError):
        diagnostics.show(error.diagnostics, diagnostics.wants_color(diagnostics.color_among(arguments)))
        return error.exit_status
    if isinstance(error, CompilerBug):
        click.echo(f"luminal: internal error: {error}", err=True)
        click.echo(f"this is a bug of luminal; it shows again with: luminal {' '.join(map(quote, arguments))} --print-after all", err=True)
        shown = cause if cause is not None else error
        if "-d" in arguments or "--debug" in arguments:
            import traceback

            click.echo("".join(traceback.format_exception(shown)), err=True)
        return error.exit_status
    click.echo(f"luminal: error: {error}", err=True)
    return error.exit_status


def quote(word: str) -> str:
    import shlex

    return shlex.quote(word)
