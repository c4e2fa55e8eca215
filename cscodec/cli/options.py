"""Options that several commands share, and the words that they take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cscodec.choices import DECODERS, UNQUANTISED_DECODERS, Tune
from cscodec.errors import InvalidInputError


def _shipped_models() -> list[str]:
    from cscodec.model import shipped_models

    return list(shipped_models())


Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUT...", help="Files, or '-' for standard input.")
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where to; '-' is standard output."),
]
OutputFolder = Annotated[
    str | None,
    typer.Option("-d", "--output-folder", metavar="FOLDER", help="Write outputs below it."),
]
Recursive = Annotated[bool, typer.Option("-r", "--recursive", help="Take the files of folders.")]
Mirrored = Annotated[
    bool, typer.Option("-r", "--recursive", help="Take the files of folders, and mirror them.")
]
KeepSuffix = Annotated[
    bool, typer.Option("--keep-suffix", help="Add the new suffix after the old: a.jpg.csc.")
]
SkipExisting = Annotated[
    bool, typer.Option("--skip-existing", help="Pass over inputs whose outputs exist.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and stop.")]
Force = Annotated[bool, typer.Option("-f", "--force", help="Replace outputs that exist.")]
AllowPartial = Annotated[
    bool, typer.Option("--allow-partial", help="Take what there is of a file that was cut short.")
]
Workers = Annotated[
    int | None,
    typer.Option("-j", "--workers", min=1, metavar="N", help="Threads; all CPUs by default."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Dask cluster: its scheduler's address, or local:N for N processes here.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Report on standard output as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Say seconds, and what is left out or skipped.")
]
MaxPixels = Annotated[
    int, typer.Option("--max-pixels", min=1, metavar="N", help="Refuse larger pictures.")
]
Strip = Annotated[
    str | None,
    typer.Option(
        "--strip",
        metavar="[exif,xmp,icc,gps]",
        help="Leave metadata out: all, or with '=' some.",
    ),
]
Preserve = Annotated[
    bool, typer.Option("--preserve", help="Give outputs the times of their inputs.")
]
TuneName = Annotated[
    Tune, typer.Option("--tune", help="Steps for the eye, or for the highest PSNR.")
]
Effort = Annotated[
    int,
    typer.Option(
        "--effort",
        min=0,
        max=2,
        help="0: round; 1: search smaller files; 2: search twice, in large tiles.",
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME|PATH",
        help="A shipped model, or a file.",
        autocompletion=_shipped_models,
    ),
]
DecoderName = Annotated[
    str,
    typer.Option(
        "--decoder",
        metavar="|".join(DECODERS),
        help="How pixels are recovered.",
        autocompletion=lambda: list(DECODERS),
    ),
]
Measurements = Annotated[
    int | None,
    typer.Option(
        "-m", "--measurements", min=1, max=63, help="Measurements per patch beside its mean."
    ),
]
Sparsity = Annotated[
    int, typer.Option("--sparsity", min=1, max=63, help="Atoms per patch, decoder omp.")
]


_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_SIZE = re.compile(r"^(.+?)([kmg]i?)?b?$")


def spell_out(arguments: Sequence[str]) -> list[str]:
    """Give ``--strip`` the value that it stands for; Typer has no options whose value is optional.

    The arguments after ``--`` are names of files.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    told = ["--strip=all" if argument == "--strip" else argument for argument in arguments[:end]]
    return [*told, *arguments[end:]]


def parse_strip(text: str | None) -> frozenset[str]:
    """Read what is to be left out.

    Raises
    ------
    typer.BadParameter
        If there is no such kind of metadata.
    """
    from cscodec.images import parse_strip

    try:
        return frozenset() if text is None else parse_strip(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error


def is_strippable(text: str) -> bool:
    """Whether :func:`parse_strip` would take it."""
    from cscodec.images.metadata import STRIPPABLE

    return set(text.lower().split(",")) <= {"all", *STRIPPABLE}


def parse_bytes(text: str) -> int:
    """Read a size such as ``50000``, ``50k``, ``1.5M`` (powers of ten) or ``2KiB`` as bytes.

    Raises
    ------
    typer.BadParameter
        If it is not a positive size.
    """
    number, unit = _SIZE.findall(text.strip().lower() or "0")[0]
    try:
        size = int(float(number) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is not a size; write 50000, 50k, 1.5M or 2KiB")
    return size


def format_bytes(size: int) -> str:
    """Write a size for people: ``612 bytes``, ``50.0 kB``, ``1.5 MB``."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def parse_decoder(name: str, *, unquantised: bool = False) -> Any:
    """Return the decoder of this name: of files, or of unquantised measurements.

    Raises
    ------
    typer.BadParameter
        If there is none.
    """
    allowed = UNQUANTISED_DECODERS if unquantised else DECODERS
    for known in allowed:
        if known == name:
            return known
    if name in UNQUANTISED_DECODERS:
        raise typer.BadParameter(
            f"{name!r} decodes unquantised measurements only ('cscodec eval --unquantized'); "
            f"files are decoded by {', '.join(allowed)}"
        )
    raise typer.BadParameter(f"{name!r} is no decoder; allowed are {', '.join(allowed)}")


def parse_scale(text: str) -> float:
    """Read ``1``, ``1/2``, ``1/4`` or ``1/8``.

    Raises
    ------
    typer.BadParameter
        If it is none of these.
    """
    for reduction in (1, 2, 4, 8):
        if text.strip() in (f"1/{reduction}", f"{1 / reduction:g}"):
            return 1 / reduction
    raise typer.BadParameter(f"{text!r} is no scale; allowed are 1, 1/2, 1/4 and 1/8")


def parse_region(text: str) -> tuple[int, int, int, int]:
    """Read ``X,Y,WIDTH,HEIGHT`` in pixels.

    Raises
    ------
    typer.BadParameter
        If it is not four whole numbers, or describes no pixel.
    """
    try:
        x, y, width, height = (int(field) for field in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a region; write X,Y,WIDTH,HEIGHT") from None
    if x < 0 or y < 0 or width < 1 or height < 1:
        raise typer.BadParameter(
            f"{text!r} holds no pixel: X and Y start at 0, WIDTH and HEIGHT at 1"
        )
    return x, y, width, height
