"""The command line: one thin module per command.

Nothing numerical is imported until a command runs, so that ``--help`` answers at once. Data go to
standard output and everything else to standard error. Exit codes are those of `console.Exit`.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, NoReturn

import typer

from cscodec import __version__
from cscodec.cli import compare, console, decode, encode, eval, info, models, options, train
from cscodec.errors import CscodecError
from cscodec.signals import raised_signals

app = typer.Typer(
    name="cscodec",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich alone would double the time that --help takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_versions(wanted: bool) -> None:
    if wanted:
        from cscodec.bitstream.container import FORMAT_VERSION
        from cscodec.model import load_model, shipped_models

        console.show(f"cscodec {__version__}\nfile format {FORMAT_VERSION}")
        for name in shipped_models():
            model = load_model(name)
            identity = f"{model.model_id.hex()}, restoration {model.restoration_version}"
            console.show(f"model {name} {identity}")
        raise typer.Exit


def _print_manual(wanted: bool) -> None:
    if wanted:
        from cscodec.cli.manual import manual_page

        console.show(manual_page(typer.main.get_command(app)).rstrip("\n"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_versions,
            is_eager=True,
            help="Show the versions of program, file format and models.",
        ),
    ] = False,
    man: Annotated[
        bool,
        typer.Option(
            "--man", callback=_print_manual, is_eager=True, help="Show the manual page, as roff."
        ),
    ] = False,
) -> None:
    """Compress pictures to small .csc files and back, by learned compressive sensing."""


_COMMANDS: dict[str, Callable[..., None]] = {
    "encode": encode.encode,
    "decode": decode.decode,
    "train": train.train,
    "eval": eval.evaluate,
    "compare": compare.compare,
    "info": info.info,
    "models": models.models,
}
for _name, _command in _COMMANDS.items():
    # Its first line whole: Typer would cut it off in the list of commands.
    app.command(_name, short_help=(_command.__doc__ or "").split("\n")[0])(_command)


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
    given = list(sys.argv[1:] if arguments is None else arguments)
    _refuse_doubtful(given)
    typed = shlex.join(["cscodec", *given])
    with raised_signals():
        try:
            app(args=options.spell_out(given), prog_name="cscodec", obj=typed)
        except BrokenPipeError:  # the reader of our output left, as `head` does
            console.discard_stdout()
            sys.exit(console.Exit.FAILED)
        # ImportError: for lack of memory libraries cannot be loaded.
        except (CscodecError, OSError, MemoryError, ImportError) as error:
            console.say(console.reason(error))
            sys.exit(console.exit_code(error))
    sys.exit(console.Exit.OK)


def _refuse_doubtful(arguments: Sequence[str]) -> None:
    """Stop at what would be read otherwise than it was meant.

    At files such as -draft.png, which would be -d raft.png, and at --strip exif, where exif would
    be a file.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for option, name in pairwise(arguments[:end]):
        if option == "--strip" and options.is_strippable(name) and not os.path.lexists(name):
            console.say(f"--strip {name}: write --strip={name}")
            sys.exit(console.Exit.USAGE)
    for name in arguments[:end]:
        if name.startswith("-") and len(name) > 2 and os.path.lexists(name):
            console.say(
                f"{name} is read as options; if the file is meant, write ./{name} or put -- before"
            )
            if not name.startswith("--"):  # which nobody writes for an option and its value
                sys.exit(console.Exit.USAGE)
