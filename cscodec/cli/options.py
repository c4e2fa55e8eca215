"""Options that several commands share, and the words that they take."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cscodec.choices import DECODERS, UNQUANTISED_DECODERS

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
Recursive = Annotated[
    bool, typer.Option("-r", "--recursive", help="Take the files of folders, and mirror them.")
]
Force = Annotated[bool, typer.Option("-f", "--force", help="Replace outputs that exist.")]
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
MaxPixels = Annotated[
    int, typer.Option("--max-pixels", min=1, metavar="N", help="Refuse larger pictures.")
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


def parse_bytes(text: str) -> int:
    """Read a size such as ``50000``, ``50k`` or ``1.5M`` (powers of ten) as bytes.

    Raises
    ------
    typer.BadParameter
        If it is not a positive size.
    """
    number, unit = text.strip().lower().removesuffix("b"), 1
    for suffix, factor in (("k", 10**3), ("m", 10**6)):
        if number.endswith(suffix):
            number, unit = number[:-1], factor
    try:
        size = int(float(number) * unit)
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is not a size; write 50000, 50k or 1.5M")
    return size


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
