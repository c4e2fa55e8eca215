"""Pictures to files and back, in memory.

An encoder tiles the picture, applies the learned sensing matrix to the 8x8 patches of each colour
plane, quantises the measurements and codes them. A decoder decodes the measurements and restores
each plane from them, by Orthogonal Matching Pursuit or better. Tiles are independent, so both run
on several threads; the bytes and the pixels do not depend on how many.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cscodec import arguments
from cscodec.arguments import File
from cscodec.arrays import Pixels
from cscodec.bitstream import container
from cscodec.bitstream.alpha import pack_alpha, unpack_alpha
from cscodec.bitstream.container import Extras, Header
from cscodec.bitstream.steps import step_code, step_for_quality
from cscodec.choices import DECODERS, SUBSAMPLINGS, UNQUANTISED_DECODERS, Decoder, Subsampling
from cscodec.decoding import DecodingJob, Restoration
from cscodec.encoding import EncodingJob, Settings
from cscodec.errors import InvalidInputError, ModelMismatchError
from cscodec.evaluation.metrics import psnr_db
from cscodec.layout import DEFAULT_MAX_PIXELS, MAX_MEASUREMENTS
from cscodec.model import Model, find_model
from cscodec.rate_control import file_for_target
from cscodec.transform.colour import without_alpha


def encode(
    image: Any,
    *,
    quality: float | None = None,
    step: float | None = None,
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
        too, and comes back as (H, W). Others hold a picture, which is read as the command line
        does: upright, with its metadata.
    quality : float
        0 (smallest file) to 100 (finest step), on the scale that users of JPEG know; 75 by
        default.
    step : float, optional
        Quantisation step Δ in units of a sample, 0.25..1000, instead of a quality.
    measurements : int, optional
        Measurements per patch beside the mean; all that the model has by default.
    model : str, path or Model
    subsampling : {"auto", "4:2:0", "4:4:4"}
        Size of the chroma planes; "auto" keeps them whole at fine steps.
    effort : int
        0: values are rounded. 1: they are chosen by rate and distortion.
    target_bpp, target_size, target_psnr : optional
        Instead of a quality: at most this many bits per pixel or bytes, where the next finer step
        makes more; or at least this PSNR in dB (over all colour samples), where the next coarser
        step makes less. (PSNR does not fall strictly: a step far coarser may reach it again.)
    icc_profile, exif, xmp : bytes, optional
        In place of those that the picture has. The picture is turned as the EXIF says.
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
    arguments.whole_number("effort", effort, 0, 1)
    arguments.one_of("subsampling", subsampling, SUBSAMPLINGS)
    workers = arguments.workers_or_none(workers)
    if step is None:
        step = step_for_quality(arguments.number("quality", 75.0 if quality is None else quality))
    code = step_code(arguments.number("step", step))
    chosen = arguments.model_of(model)
    limit = min(chosen.luma.num_measurements, chosen.chroma.num_measurements)
    if measurements is None:
        measurements = limit
    arguments.whole_number("measurements", measurements, 1, limit, of=f"model {chosen.name!r}")
    picture = arguments.picture_of(
        image,
        max_pixels=arguments.whole_number("max_pixels", max_pixels, 1),
        icc_profile=icc_profile,
        exif=exif,
        xmp=xmp,
    )
    pixels = picture.pixels
    has_alpha = pixels.ndim == 3 and pixels.shape[2] in (2, 4)
    alpha = pack_alpha(pixels[..., -1]) if has_alpha else None
    extras = Extras(alpha, picture.icc_profile, picture.exif, picture.xmp)
    settings = Settings(subsampling, effort, measurements)
    job = EncodingJob(pixels, chosen, settings, extras, workers)
    num_pixels = pixels.shape[0] * pixels.shape[1]
    if not aims:
        return job.file(code)

    def file_at(code: int) -> bytes:
        return job.file(code, keep=True)

    def bits_per_pixel(data: bytes) -> float:
        return float(8 * len(data) / num_pixels)

    def psnr_of(data: bytes) -> float:
        restored = decode(data, model=chosen, max_pixels=num_pixels, workers=workers)
        return psnr_db(job.colours, without_alpha(restored))

    ((name, wanted),) = aims
    if name == "target_psnr":
        return file_for_target(file_at, psnr_of, wanted, unit="dB", at_least=True)
    if name == "target_bpp":
        return file_for_target(file_at, bits_per_pixel, wanted, unit="bits per pixel")
    return file_for_target(file_at, len, wanted, unit="bytes")


def decode(
    data: File,
    *,
    decoder: Decoder = "refine",
    measurements: int | None = None,
    sparsity: int = 4,
    model: str | os.PathLike[str] | Model | None = None,
    region: tuple[int, int, int, int] | None = None,
    preview: bool = False,
    allow_partial: bool = False,
    max_pixels: int = DEFAULT_MAX_PIXELS,
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
        the whole picture.
    preview : bool
        Show the patch means only, each as 8x8 equal pixels, smoothed.
    allow_partial : bool
        Accept a file that is cut short or damaged after its header, and show what is there.
    max_pixels : int
        Refuse pictures that claim more.
    workers : int, optional
        Threads; all CPUs by default. The result does not depend on it.

    Returns
    -------
    ndarray, uint8
        (H, W), (H, W, 2), (H, W, 3) or (H, W, 4), as it was encoded.

    Raises
    ------
    BitstreamError
        If the data are not a valid file.
    ModelError
        If the model is missing, or is not the one that made the file.
    InvalidInputError
        If an argument cannot be used, or the file cannot be read.
    """
    if decoder not in DECODERS:  # one of another kind is named as such
        why = ", for unquantised measurements" if decoder in UNQUANTISED_DECODERS else ""
        raise InvalidInputError(
            f"decoder is {decoder!r}{why}; allowed for files are {', '.join(DECODERS)}"
        )
    arguments.whole_number("sparsity", sparsity, 1, MAX_MEASUREMENTS)
    arguments.whole_number("max_pixels", max_pixels, 1)
    workers = arguments.workers_or_none(workers)
    file = arguments.file_bytes(data, max_pixels)
    parts = container.unpack(file, max_pixels=max_pixels, allow_partial=allow_partial)
    header = parts.header
    chosen = _model_for(header, model)
    if measurements is None:
        measurements = header.measurements
    arguments.whole_number("measurements", measurements, 0, header.measurements, of="this file")
    used = 0 if preview else measurements
    box = arguments.region_within(region, header.width, header.height)
    job = DecodingJob(parts, chosen, Restoration(decoder, sparsity, used), workers)
    pixels = job.pixels(box)
    if header.has_alpha:
        x, y, width, height = box
        alpha = np.full((height, width), 255, np.uint8)
        if parts.alpha is not None:
            whole = unpack_alpha(parts.alpha, header.width, header.height)
            alpha = whole[y : y + height, x : x + width]
        colours = pixels if pixels.ndim == 3 else pixels[..., None]
        pixels = np.concatenate([colours, alpha[..., None]], axis=2)
    return pixels


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
