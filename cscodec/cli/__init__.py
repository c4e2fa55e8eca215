"""The command line: one thin module per command.

Nothing numerical is imported until a command runs, so that ``--help`` answers at once. Data go to
standard output and everything else to standard error. Exit codes are those of `console.Exit`.
"""

from __future__ import annotations

import gc
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from cscodec import __version__
from cscodec.cli import compare, console, decode, encode, eval, info, models, train
from cscodec.errors import CscodecError

app = typer.Typer(
    name="cscodec",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich alone would double the time that --help takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cscodec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """An image codec built on learned compressive sensing."""


app.command("encode")(encode.encode)
app.command("decode")(decode.decode)
app.command("train")(train.train)
app.command("eval")(eval.evaluate)
app.command("compare")(compare.compare)
app.command("info")(info.info)
app.command("models")(models.models)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    arguments : sequence of str, optional
        Instead of ``sys.argv[1:]``.

    Raises
    ------
    SystemExit
        Always; its code is one of `console.Exit`.
    """
    # Starting up makes half a million objects that stay. Looking for garbage among them as often as
    # Python does by default takes a sixth of a short command's time.
    gc.set_threshold(100_000, 50, 50)
    # What Pillow finds odd in a file is not for the user of a command, unless it stops the work.
    warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    try:
        words = sys.argv[1:] if arguments is None else arguments
        app(args=arguments, prog_name="cscodec", obj=shlex.join(["cscodec", *words]))
    except BrokenPipeError:  # the reader of our output left, as `head` does
        console.discard_stdout()
        sys.exit(console.Exit.FAILED)
    except (CscodecError, OSError, MemoryError) as error:
        console.say(console.reason(error))
        sys.exit(console.exit_code(error))
    sys.exit(console.Exit.OK)


def _terminate(signal_number: int, frame: object) -> NoReturn:
    sys.exit(128 + signal_number)  # as an exception, so that temporary files are removed
