"""What a file says about itself, read without decoding its picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cscodec.arguments import File, file_bytes, whole_number
from cscodec.bitstream import container
from cscodec.bitstream.container import Container
from cscodec.bitstream.steps import MUCH_TILT
from cscodec.errors import ModelNotFoundError
from cscodec.layout import DEFAULT_MAX_PIXELS
from cscodec.model import find_model


@dataclass(frozen=True)
class Info:
    """What a file says about itself.

    Attributes
    ----------
    width, height, channels : int
    num_bytes : int
        Size of the whole file.
    bits_per_pixel : float
        Of the whole file.
    format_version : int
    model_id : str
        Hexadecimal.
    model_name : str or None
        Of the shipped model with this id; None if no shipped model has it.
    step, chroma_step : float
        Quantisation steps in units of a sample; ``chroma_step`` is None for gray pictures.
    tune : str
        "psnr" for steps that grow little with the measurement, "visual" for others.
    measurements : int
        Per patch, beside the mean.
    subsampling : str or None
        "4:2:0" or "4:4:4"; None for gray pictures.
    num_tiles : int
    layer_bytes : tuple of int
        Size of each layer, all tiles together.
    complete : bool
        Whether all of the file is there: False only with ``allow_partial``.
    layer_tiles : tuple of int
        How many tiles of each layer are there.
    missing : tuple of str
        What is not there, in words.
    icc_profile, exif, xmp : bytes or None
    """

    width: int
    height: int
    channels: int
    num_bytes: int
    bits_per_pixel: float
    format_version: int
    model_id: str
    model_name: str | None
    step: float
    chroma_step: float | None
    tune: str
    measurements: int
    subsampling: str | None
    num_tiles: int
    layer_bytes: tuple[int, ...]
    complete: bool
    layer_tiles: tuple[int, ...]
    missing: tuple[str, ...]
    icc_profile: bytes | None
    exif: bytes | None
    xmp: bytes | None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-able values; of embedded metadata the number of bytes."""
        fields = asdict(self)
        for key in ("icc_profile", "exif", "xmp"):
            payload = fields.pop(key)
            fields[f"{key}_bytes"] = 0 if payload is None else len(payload)
        fields["layer_bytes"] = list(self.layer_bytes)
        fields["layer_tiles"] = list(self.layer_tiles)
        fields["missing"] = list(self.missing)
        return fields


def _missing(parts: Container) -> tuple[str, ...]:
    header = parts.header
    words = []
    for number, layer in enumerate(parts.segments, 1):
        absent = header.num_tiles - len(layer)
        if absent:
            tiles = "" if not layer else f"{absent} of {header.num_tiles} tiles of "
            words.append(f"{tiles}layer {number} of {header.num_layers}")
    if header.has_alpha and parts.alpha is None:
        words.append("alpha")
    return tuple(words) if words or parts.complete else ("what follows the picture",)


def info(data: File, *, allow_partial: bool = False, max_pixels: int = DEFAULT_MAX_PIXELS) -> Info:
    """Describe a ``.csc`` file without decoding its picture.

    Parameters
    ----------
    data : bytes-like, path or binary file
    allow_partial : bool
        Describe what is there of a file that is cut short or damaged after its header.
    max_pixels : int
        Refuse pictures that claim more.

    Raises
    ------
    BitstreamError
        If the data are not a valid file.
    InvalidInputError
        If they cannot be read.
    """
    whole_number("max_pixels", max_pixels, 1)
    file = file_bytes(data, max_pixels)
    parts = container.unpack(file, max_pixels=max_pixels, allow_partial=allow_partial)
    header = parts.header
    try:
        name: str | None = find_model(header.model_id).name
    except ModelNotFoundError:
        name = None
    colour = header.num_colours == 3
    return Info(
        width=header.width,
        height=header.height,
        channels=header.channels,
        num_bytes=len(file),
        bits_per_pixel=8 * len(file) / (header.width * header.height),
        format_version=container.FORMAT_VERSION,
        model_id=header.model_id.hex(),
        model_name=name,
        step=header.step,
        chroma_step=header.chroma_step if colour else None,
        tune="psnr" if header.step_and_tilt(0)[1] < MUCH_TILT else "visual",
        measurements=header.measurements,
        subsampling=("4:4:4" if header.full_chroma else "4:2:0") if colour else None,
        num_tiles=header.num_tiles,
        layer_bytes=parts.layer_bytes,
        complete=parts.complete,
        layer_tiles=tuple(map(len, parts.segments)),
        missing=_missing(parts),
        icc_profile=parts.icc_profile,
        exif=parts.exif,
        xmp=parts.xmp,
    )
