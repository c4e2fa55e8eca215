"""Pictures to files and back, in memory.

An encoder tiles the picture, applies the learned sensing matrix to the 8x8 patches of each colour
plane, quantises the measurements and codes them. A decoder decodes the measurements and restores
each plane from them, by Orthogonal Matching Pursuit or better. Tiles are independent, so both run
on several threads; the bytes and the pixels do not depend on how many.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

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
from cscodec.layout import DEFAULT_MAX_PIXELS, MAX_DIMENSION, MAX_MEASUREMENTS
from cscodec.model import Model, find_model, load_model
from cscodec.rate_control import Target, step_for_target
from cscodec.transform.colour import without_alpha


def encode(
    image: npt.ArrayLike,
    *,
    quality: float = 75.0,
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
    workers: int | None = None,
) -> bytes:
    """Compress a picture.

    Parameters
    ----------
    image : array_like, uint8
        (H, W) gray, (H, W, 2) gray and alpha, (H, W, 3) RGB, (H, W, 4) RGB and alpha.
    quality : float
        0 (smallest file) to 100 (finest step), on the scale that users of JPEG know.
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
        Instead of a quality: the finest step whose file has at most this many bits per pixel or
        bytes, or the coarsest that restores at least this PSNR in dB (over all colour samples).
    icc_profile, exif, xmp : bytes, optional
        Stored as they are.
    workers : int, optional
        Threads; all CPUs by default. The result does not depend on it.

    Returns
    -------
    bytes
        A ``.csc`` file. The same input gives the same bytes.

    Raises
    ------
    InvalidInputError
        If an argument cannot be used, or a target cannot be reached.
    ModelError
        If the model cannot.
    """
    pixels = _checked_pixels(image)
    chosen = model if isinstance(model, Model) else load_model(model)
    if effort not in (0, 1):
        raise InvalidInputError(f"effort is {effort}; allowed are 0 and 1")
    if subsampling not in SUBSAMPLINGS:
        raise InvalidInputError(
            f"subsampling is {subsampling!r}; allowed are {', '.join(SUBSAMPLINGS)}"
        )
    limit = min(chosen.luma.num_measurements, chosen.chroma.num_measurements)
    measurements = limit if measurements is None else measurements
    if not 1 <= measurements <= limit:
        raise InvalidInputError(
            f"measurements is {measurements}; model {chosen.name!r} allows 1 to {limit}"
        )
    target = Target.of(target_bpp, target_size, target_psnr)
    code = step_code(step_for_quality(quality) if step is None else step)
    has_alpha = pixels.ndim == 3 and pixels.shape[2] in (2, 4)
    alpha = pack_alpha(pixels[..., -1]) if has_alpha else None
    extras = Extras(alpha, icc_profile, exif, xmp)
    settings = Settings(subsampling, effort, measurements)
    job = EncodingJob(pixels, chosen, settings, extras, workers)

    if target is None:
        return job.file(code)

    def file_at(code: int) -> bytes:
        return job.file(code, keep=True)

    def psnr_of(data: bytes) -> float:
        return psnr_db(job.colours, without_alpha(decode(data, model=chosen, workers=workers)))

    return step_for_target(
        target, file_at, psnr_of, num_pixels=job.colours.shape[0] * job.colours.shape[1]
    )


def decode(
    data: bytes | bytearray | memoryview,
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
    data : bytes-like
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
        If an argument cannot be used, or ``data`` are not bytes.
    """
    if decoder not in DECODERS:
        why = ", for unquantised measurements" if decoder in UNQUANTISED_DECODERS else ""
        raise InvalidInputError(
            f"decoder is {decoder!r}{why}; allowed for files are {', '.join(DECODERS)}"
        )
    if not 1 <= sparsity <= MAX_MEASUREMENTS:
        raise InvalidInputError(f"sparsity is {sparsity}; allowed are 1 to {MAX_MEASUREMENTS}")
    parts = container.unpack(data, max_pixels=max_pixels, allow_partial=allow_partial)
    header = parts.header
    chosen = _model_for(header, model)
    if measurements is not None and not 0 <= measurements <= header.measurements:
        raise InvalidInputError(
            f"measurements is {measurements}; the picture has 0 to {header.measurements}"
        )
    used = 0 if preview else header.measurements if measurements is None else measurements
    box = _checked_region(region, header)
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


def _checked_pixels(image: npt.ArrayLike) -> Pixels:
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        raise InvalidInputError(
            f"image has dtype {pixels.dtype}; allowed is uint8 (scale 16-bit or float data to "
            "0..255 first)"
        )
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (2, 3, 4))):
        raise InvalidInputError(
            f"image has shape {pixels.shape}; allowed are (H, W) and (H, W, 1..4)"
        )
    if min(pixels.shape[:2]) < 1 or max(pixels.shape[:2]) > MAX_DIMENSION:
        raise InvalidInputError(
            f"image is {pixels.shape[1]} x {pixels.shape[0]} pixels; allowed are 1 to "
            f"{MAX_DIMENSION} each way"
        )
    return pixels


def _checked_region(
    region: tuple[int, int, int, int] | None, header: Header
) -> tuple[int, int, int, int]:
    if region is None:
        return 0, 0, header.width, header.height
    x, y, width, height = region
    if not (
        x >= 0 and y >= 0 and width >= 1 and height >= 1
        and x + width <= header.width and y + height <= header.height
    ):  # fmt: skip
        raise InvalidInputError(
            f"region {x},{y},{width},{height} does not lie within the picture of "
            f"{header.width} x {header.height} pixels"
        )
    return x, y, width, height


def _model_for(header: Header, model: str | os.PathLike[str] | Model | None) -> Model:
    if model is None:
        chosen = find_model(header.model_id)
    else:
        chosen = model if isinstance(model, Model) else load_model(model)
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
