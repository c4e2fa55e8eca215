"""Pictures to files and back, in memory.

An encoder tiles the picture, applies the learned sensing matrix to the 8x8 patches of each colour
plane, quantises the measurements and codes them. A decoder decodes the measurements and restores
each plane from them, by Orthogonal Matching Pursuit or better. Tiles are independent, so both run
on several threads; the bytes and the pixels do not depend on how many.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from PIL import Image

from cscodec import arguments
from cscodec.arguments import File
from cscodec.arrays import Pixels
from cscodec.bitstream import container
from cscodec.bitstream.alpha import pack_alpha, unpack_alpha
from cscodec.bitstream.container import TILE_SIZE, Container, Extras, Header
from cscodec.bitstream.steps import step_code
from cscodec.choices import (
    DECODERS,
    DEFAULT_QUALITY,
    SUBSAMPLINGS,
    TUNES,
    UNQUANTISED_DECODERS,
    Decoder,
    Subsampling,
    Tune,
)
from cscodec.decoding import Box, DecodingJob, Restoration
from cscodec.encoding import EncodingJob, Settings
from cscodec.errors import InvalidInputError, ModelMismatchError
from cscodec.evaluation.metrics import psnr_db_of_strips
from cscodec.layout import DEFAULT_MAX_PIXELS, MAX_MEASUREMENTS
from cscodec.model import Model, find_model
from cscodec.quality import step_for_picture
from cscodec.rate_control import file_for_target
from cscodec.restore.reduced import MEASUREMENTS_FOR
from cscodec.rows import PictureRows, release_pages
from cscodec.texture import texture_of
from cscodec.transform.colour import without_alpha


class Sized(Protocol):
    """What has the size of a picture: a header, or what `info` returns."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def channels(self) -> int: ...


_REDUCTIONS = {1.0: 1, 1 / 2: 2, 1 / 4: 4, 1 / 8: 8}
#: Up to here, measurements are kept between the steps that are tried for a target.
_MOST_KEPT_PIXELS = 1 << 25


def encode(
    image: Any,
    *,
    quality: float | None = None,
    step: float | None = None,
    tune: Tune = "visual",
    measurements: int | None = None,
    model: str | os.PathLike[str] | Model = "photo",
    subsampling: Subsampling = "auto",
    effort: int = 1,
    target_bpp: float | None = None,
    target_size: int | None = None,
    target_psnr: float | None = None,
    icc_profile: bytes | None = None,
    exif: bytes | None = None,
    xmp: bytes | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    workers: int | None = None,
) -> bytes:
    """Compress a picture.

    Parameters
    ----------
    image : array_like, PIL.Image.Image, path, bytes or binary file
        An array is (H, W) gray, (H, W, 2) gray and alpha, (H, W, 3) RGB or (H, W, 4) RGB and
        alpha, of uint8; or of bool, or floats of 0 to 1, which become 0 to 255. (H, W, 1) is gray
        too, and comes back as (H, W). What is sliced like an array (`numpy.memmap`, an array of
        Zarr, Dask, h5py ...) is read a row of tiles at a time, and may be larger than memory; of
        an alpha channel all is held. Others hold a picture, which is read as the command line does:
        upright, with its metadata.
    quality : float
        0 (smallest file) to 100 (finest step), 75 by default. With ``tune="visual"``, pictures of
        one quality look about equally good; with ``"psnr"``, they have one step.
    step : float, optional
        Quantisation step Δ in units of a sample, 0.25..1000, instead of a quality.
    tune : {"visual", "psnr"}
        What the file is made for. "visual": coarser steps for finer detail, where the eye sees
        errors less, and finer ones for colour. "psnr": nearly equal steps, for small squared
        errors.
    measurements : int, optional
        Measurements per patch beside the mean; all that the model has by default.
    model : str, path or Model
    subsampling : {"auto", "4:2:0", "4:4:4"}
        Size of the chroma planes; "auto" keeps them whole at fine steps.
    effort : int
        0: values are rounded. 1: they are chosen by rate and distortion. 2: and chosen again, for
        what decoder "refine" will make of them, which takes about three times as long and is no
        gain for other decoders. Tiles have up to 1024 pixels each way in place of 512: files are
        half a per cent smaller, but a picture of less than a megapixel may be one tile, which one
        thread codes and decodes.
    target_bpp, target_size, target_psnr : optional
        Instead of a quality: at most this many bits per pixel or bytes, where the next finer step
        makes more; or at least this PSNR in dB (over all colour samples), where the next coarser
        step makes less. (PSNR does not fall strictly: a step far coarser may reach it again.)
    icc_profile, exif, xmp : bytes, optional
        In place of those that the picture has. The picture is turned as EXIF or XMP says.
    max_pixels : int
        Refuse pictures in files that claim more.
    workers : int, optional
        Threads; all CPUs by default. The result does not depend on it.

    Returns
    -------
    bytes
        A ``.csc`` file. The same input gives the same bytes.

    Raises
    ------
    InvalidInputError
        If the picture or an argument cannot be used, or a target cannot be reached.
    ModelError
        If the model cannot.
    """
    targets = {"target_bpp": target_bpp, "target_size": target_size, "target_psnr": target_psnr}
    arguments.only_one({"quality": quality, "step": step, **targets})
    aims = [
        (name, arguments.positive(name, value))
        for name, value in targets.items()
        if value is not None
    ]
    arguments.whole_number("effort", effort, 0, 2)
    arguments.one_of("subsampling", subsampling, SUBSAMPLINGS)
    arguments.one_of("tune", tune, TUNES)
    arguments.whole_number("max_pixels", max_pixels, 1)
    workers = arguments.workers_or_none(workers)
    code = None if step is None else step_code(arguments.number("step", step))
    quality = arguments.number("quality", DEFAULT_QUALITY if quality is None else quality)
    chosen = arguments.model_of(model)
    limit = min(chosen.luma.num_measurements, chosen.chroma.num_measurements)
    if measurements is None:
        measurements = limit
    arguments.whole_number("measurements", measurements, 1, limit, of=f"model {chosen.name!r}")
    metadata = {"icc_profile": icc_profile, "exif": exif, "xmp": xmp}
    given = arguments.picture_of(image, max_pixels=max_pixels, **metadata)
    picture = PictureRows(given.pixels)
    alpha = pack_alpha(_alpha_of(picture)) if picture.num_channels in (2, 4) else None
    extras = Extras(alpha, given.icc_profile, given.exif, given.xmp)
    texture = texture_of(picture, chosen)
    settings = Settings(tune, subsampling, effort, measurements, texture.lies_on_grid)
    job = EncodingJob(picture, chosen, settings, extras, workers)
    num_pixels = picture.shape[0] * picture.shape[1]
    if not aims:
        if code is None:
            code = step_code(step_for_picture(quality, texture, tune))
        return job.file(code)

    def file_at(code: int) -> bytes:
        return job.file(code, keep=num_pixels <= _MOST_KEPT_PIXELS)

    def bits_per_pixel(data: bytes) -> float:
        return float(8 * len(data) / num_pixels)

    def psnr_of(data: bytes) -> float:
        return restored_psnr_db(picture, data, chosen, workers)

    ((name, wanted),) = aims
    if name == "target_psnr":
        return file_for_target(file_at, psnr_of, wanted, unit="dB", at_least=True)
    carried = sum(len(payload or b"") for payload in extras[1:])
    note = f"; {carried} bytes of it are metadata, which can be left out (--strip)" * (carried > 0)
    if name == "target_bpp":
        return file_for_target(file_at, bits_per_pixel, wanted, unit="bits per pixel", note=note)
    return file_for_target(file_at, len, wanted, unit="bytes", note=note)


def restored_psnr_db(image: Any, data: bytes, model: Model, workers: int | None) -> float:
    """Return the PSNR of what a file restores over the colours of the picture that it was made of.

    Parameters
    ----------
    image : array_like or PictureRows
        As :func:`encode` takes it.
    """
    picture = image if isinstance(image, PictureRows) else PictureRows(image)
    parts = container.unpack(data, max_pixels=picture.shape[0] * picture.shape[1])
    restoration = Restoration("refine", 4, parts.header.measurements)
    restored = DecodingJob(parts, model, restoration, workers).strips()
    pairs = zip(picture.strips(parts.header.tile_shape[0]), restored, strict=True)
    return psnr_db_of_strips((without_alpha(strip), found) for strip, found in pairs)


def decode(
    data: File,
    *,
    decoder: Decoder = "refine",
    measurements: int | None = None,
    sparsity: int = 4,
    model: str | os.PathLike[str] | Model | None = None,
    region: Box | None = None,
    preview: bool = False,
    scale: float = 1.0,
    out: Any = None,
    allow_partial: bool = False,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    max_seconds: float | None = None,
    workers: int | None = None,
) -> Pixels:
    """Restore a picture from a ``.csc`` file.

    Parameters
    ----------
    data : bytes-like, path or binary file
    decoder : {"refine", "consistent", "linear", "omp"}
        ``omp``: the paper's decoder, at most ``sparsity`` atoms per patch. ``linear``: the
        transpose of the orthonormal basis. ``consistent``: ``omp`` moved into the quantisation
        cells. ``refine``: overlapping patches coded sparsely, averaged, moved into the cells.
    measurements : int, optional
        Use only this many measurements per patch (and so only the layers that hold them).
    sparsity : int
        K for ``omp`` and ``consistent``, 1..63.
    model : str, path or Model, optional
        Needed if the picture was made with a model that is not shipped.
    region : (x, y, width, height), optional
        Return only this part; only the tiles it needs are decoded. Equal to the same part of
        the whole picture. In pixels of the whole size, also where ``scale`` is below 1.
    preview : bool
        Show the patch means only, each as 8x8 equal pixels, smoothed.
    scale : {1, 1/2, 1/4, 1/8}
        Below 1, a smaller picture from the first layers, at a part of the time: 1/8 from the
        patch means alone. Sides are rounded up, ``decoder`` is not asked.
    out : array, uint8, optional
        Where to write the picture to, of its shape; it is returned. What is assigned to like an
        array will do (`numpy.memmap`, an array of Zarr, h5py ...): a row of tiles at a
        time is written, from the top, so the picture may be larger than memory.
    allow_partial : bool
        Accept a file that is cut short or damaged after its header, and show what is there.
    max_pixels : int
        Refuse pictures that claim more.
    max_seconds : float, optional
        Give up when this much time has passed; looked at between planes of tiles.
    workers : int, optional
        Threads; all CPUs by default. The result does not depend on it.

    Returns
    -------
    ndarray, uint8
        (H, W), (H, W, 2), (H, W, 3) or (H, W, 4), as it was encoded; or ``out``.

    Raises
    ------
    BitstreamError
        If the data are not a valid file.
    ModelError
        If the model is missing, or is not the one that made the file.
    InvalidInputError
        If an argument cannot be used, or the file cannot be read.
    """
    if isinstance(decoder, str) and decoder in UNQUANTISED_DECODERS and decoder not in DECODERS:
        raise InvalidInputError(
            f"decoder is {decoder!r}, for unquantised measurements; allowed for files are "
            f"{', '.join(DECODERS)}"
        )
    arguments.one_of("decoder", decoder, DECODERS)
    arguments.whole_number("sparsity", sparsity, 1, MAX_MEASUREMENTS)
    arguments.whole_number("max_pixels", max_pixels, 1)
    if max_seconds is not None:
        arguments.positive("max_seconds", max_seconds)
    workers = arguments.workers_or_none(workers)
    file = arguments.file_bytes(data, max_pixels)
    parts = container.unpack(file, max_pixels=max_pixels, allow_partial=allow_partial)
    header = parts.header
    chosen = _model_for(header, model)
    if measurements is None:
        measurements = header.measurements
    arguments.whole_number("measurements", measurements, 0, header.measurements, of="this file")
    reduction = _reduction(scale)
    used = min(0 if preview else measurements, MEASUREMENTS_FOR.get(reduction, measurements))
    box = _box_of_result(header, region, reduction)
    x, y, width, height = box
    restoration = Restoration(decoder, sparsity, used, reduction)
    job = DecodingJob(parts, chosen, restoration, workers, max_seconds)
    out = arguments.output_array(out, _shape_of(box, header.channels))
    strips = job.strips(box)
    if header.has_alpha:
        strips = _with_alpha(strips, _alpha(parts, reduction)[y : y + height, x : x + width])
    top = 0
    for strip in strips:
        out[top : top + len(strip)] = strip
        top += len(strip)
        release_pages(out)
    return out  # type: ignore[no-any-return]


def _with_alpha(strips: Iterable[Pixels], alpha: Pixels) -> Iterator[Pixels]:
    top = 0
    for strip in strips:
        yield np.dstack([strip, alpha[top : top + len(strip)]])
        top += len(strip)


def _alpha(parts: Container, reduction: int) -> Pixels:
    """Return the alpha channel; opaque if it is missing."""
    width, height = parts.header.width, parts.header.height
    if parts.alpha is None:
        return np.full((-(-height // reduction), -(-width // reduction)), 255, np.uint8)
    alpha = unpack_alpha(parts.alpha, width, height)
    return alpha if reduction == 1 else np.asarray(Image.fromarray(alpha).reduce(reduction))


def decoded_shape(header: Sized, region: Box | None = None, scale: float = 1.0) -> tuple[int, ...]:
    """Return the shape of what :func:`decode` returns: (H, W), or (H, W, 2..4).

    Raises
    ------
    InvalidInputError
        If the region or the scale cannot be used.
    """
    return _shape_of(_box_of_result(header, region, _reduction(scale)), header.channels)


def _shape_of(box: Box, channels: int) -> tuple[int, ...]:
    _, _, width, height = box
    return (height, width) if channels == 1 else (height, width, channels)


def _reduction(scale: float) -> int:
    reduction = _REDUCTIONS.get(arguments.number("scale", scale))
    if reduction is None:
        raise InvalidInputError(f"scale is {scale}; allowed are 1, 1/2, 1/4 and 1/8")
    return reduction


def _box_of_result(header: Sized, region: Box | None, reduction: int) -> Box:
    """Return the part of a reduced picture that covers a region of the whole one."""
    x, y, width, height = arguments.region_within(region, header.width, header.height)
    left, top = x // reduction, y // reduction
    return left, top, -(-(x + width) // reduction) - left, -(-(y + height) // reduction) - top


def _alpha_of(picture: PictureRows) -> Pixels:
    return np.concatenate([strip[..., -1] for strip in picture.strips(TILE_SIZE)])


def _model_for(header: Header, model: str | os.PathLike[str] | Model | None) -> Model:
    if model is None:
        chosen = find_model(header.model_id)
    else:
        chosen = arguments.model_of(model)
        if chosen.model_id != header.model_id:
            raise ModelMismatchError(
                f"the picture was made with model {header.model_id.hex()}, "
                f"{chosen.name!r} is {chosen.model_id.hex()}: give the model that encoded it"
            )
    available = min(chosen.luma.num_measurements, chosen.chroma.num_measurements)
    if header.measurements > available:
        raise ModelMismatchError(
            f"the picture has {header.measurements} measurements per patch, "
            f"model {chosen.name!r} only {available}"
        )
    return chosen
