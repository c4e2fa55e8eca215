"""Pictures to files and back, in memory.

An encoder tiles the picture, applies the learned sensing matrix to the 8x8 patches of each colour
plane, quantises the measurements and codes them. A decoder decodes the measurements and restores
each plane from them, by Orthogonal Matching Pursuit or better. Tiles are independent, so both run
on several threads; the bytes and the pixels do not depend on how many.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from cscodec.alpha import pack_alpha, unpack_alpha
from cscodec.bitstream import container
from cscodec.bitstream.container import DEFAULT_MAX_PIXELS, Container, Header
from cscodec.bitstream.contexts import CoderTables, Values, decode_tile, encode_tile
from cscodec.bitstream.layout import NUM_MEASUREMENTS, num_layers
from cscodec.bitstream.quantize import scaled, step_code, step_for_quality
from cscodec.colour import double, halve, join_colours, split_colours
from cscodec.errors import InvalidInputError, ModelMismatchError
from cscodec.model import Model, System, find_model, load_model
from cscodec.parallel import parallel_map
from cscodec.rate_control import Target, step_for_target
from cscodec.restoration import DECODERS, Quantised, restore_plane
from cscodec.sensing.filters import check_filters, filters_for_step
from cscodec.sensing.patches import extract_patches, patch_grid
from cscodec.sensing.pursuit import multiplied

Pixels = npt.NDArray[np.uint8]
Float32Array = npt.NDArray[np.float32]
Subsampling = Literal["auto", "4:2:0", "4:4:4"]
Decoder = Literal["refine", "consistent", "linear", "omp"]

#: Below this step, chroma keeps its full size under subsampling="auto".
_FULL_CHROMA_STEP = 6.0
_CHROMA_STEP_RATIO = 1.0
RATE_WEIGHT = 0.055  #: λ of the search for quantised values: squared steps per bit
#: How far from zero, in steps, a value quantised to zero may lie: by rounding, and by search.
_ROUNDED_CELL, ZERO_CELL = 0.5, 0.75
_MARGIN = 2  # patches around a tile that restoring it looks at


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
    if subsampling not in ("auto", "4:2:0", "4:4:4"):
        raise InvalidInputError(
            f"subsampling is {subsampling!r}; allowed are 'auto', '4:2:0' and '4:4:4'"
        )
    limit = min(chosen.luma.num_measurements, chosen.chroma.num_measurements)
    measurements = limit if measurements is None else measurements
    if not 1 <= measurements <= limit:
        raise InvalidInputError(
            f"measurements is {measurements}; model {chosen.name!r} allows 1 to {limit}"
        )
    target = Target.of(target_bpp, target_size, target_psnr)
    colours = pixels if pixels.ndim == 2 else pixels[..., : 3 if pixels.shape[2] >= 3 else 1]
    colours = colours[..., 0] if colours.ndim == 3 and colours.shape[2] == 1 else colours
    header = Header(
        width=pixels.shape[1],
        height=pixels.shape[0],
        channels=1 if pixels.ndim == 2 else pixels.shape[2],
        full_chroma=False,
        measurements=measurements,
        step_code=step_code(step_for_quality(quality) if step is None else step),
        chroma_step_code=step_code(1),
        zero_cell=round(64 * (ZERO_CELL if effort > 0 else _ROUNDED_CELL)),
        model_id=chosen.model_id,
    )
    extras = Container(
        header,
        [],
        pack_alpha(pixels[..., -1]) if header.has_alpha else None,
        icc_profile,
        exif,
        xmp,
    )
    job = _EncodingJob(colours, chosen, subsampling, effort, workers)

    if target is None:
        return job.file(extras)

    def file_at(code: int) -> bytes:
        return job.file(replace(extras, header=replace(header, step_code=code)), keep=True)

    def psnr_of(data: bytes) -> float:
        restored = decode(data, model=chosen, workers=workers)
        restored = restored if restored.ndim == 2 else restored[..., : header.num_colours]
        difference = restored.reshape(colours.shape).astype(np.float32) - colours
        error = float(np.mean(np.square(difference), dtype=np.float64))
        return float("inf") if error == 0 else 10 * float(np.log10(255.0**2 / error))

    return step_for_target(target, file_at, psnr_of, num_pixels=header.width * header.height)


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
        If an argument cannot be used.
    """
    if decoder not in DECODERS:
        raise InvalidInputError(f"decoder is {decoder!r}; allowed are {', '.join(DECODERS)}")
    if not 1 <= sparsity < NUM_MEASUREMENTS:
        raise InvalidInputError(f"sparsity is {sparsity}; allowed are 1 to {NUM_MEASUREMENTS - 1}")
    parts = container.unpack(bytes(data), max_pixels=max_pixels, allow_partial=allow_partial)
    header = parts.header
    chosen = _model_for(header, model)
    if measurements is not None and not 0 <= measurements <= header.measurements:
        raise InvalidInputError(
            f"measurements is {measurements}; the picture has 0 to {header.measurements}"
        )
    used = 0 if preview else header.measurements if measurements is None else measurements
    box = _checked_region(region, header)
    job = _DecodingJob(parts, chosen, decoder, sparsity, used, workers)
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


class _EncodingJob:
    """One picture on its way into a file; its measurements can be kept for several steps."""

    def __init__(
        self,
        colours: Pixels,
        model: Model,
        subsampling: Subsampling,
        effort: int,
        workers: int | None,
    ) -> None:
        self.colours = colours
        self.model = model
        self.subsampling = subsampling
        self.effort = effort
        self.workers = workers
        self.tables = CoderTables.from_mapping(model.tables)
        self.kept: dict[tuple[int, bool], list[Float32Array]] = {}

    def file(self, parts: Container, *, keep: bool = False) -> bytes:
        """Return the file for the step of ``parts.header``."""
        step = parts.header.step
        full = self.subsampling == "4:4:4" or (
            self.subsampling == "auto" and step < _FULL_CHROMA_STEP
        )
        header = replace(
            parts.header,
            full_chroma=full and parts.header.num_colours == 3,
            chroma_step_code=step_code(min(max(step * _CHROMA_STEP_RATIO, 0.25), 1000)),
        )

        def encode_one(tile: int) -> list[bytes]:
            measured = self.measured(header, tile, keep)
            wanted = [
                scaled(plane, header.step if number == 0 else header.chroma_step)
                for number, plane in enumerate(measured)
            ]
            segments, _ = encode_tile(
                wanted,
                self.tables,
                measurements=header.measurements,
                rate_weight=RATE_WEIGHT if self.effort > 0 else 0.0,
            )
            return segments

        tiles = list(parallel_map(encode_one, range(header.num_tiles), self.workers))
        layers = [list(layer) for layer in zip(*tiles, strict=True)]
        return container.pack(replace(parts, header=header, segments=layers))

    def measured(self, header: Header, tile: int, keep: bool) -> list[Float32Array]:
        """Measurements of a tile in the orthonormal basis: per plane (rows, columns, 64)."""
        key = (tile, header.full_chroma)
        if key in self.kept:
            return self.kept[key]
        x, y, width, height = header.tile_box(tile)
        colours = self.colours[y : y + height, x : x + width]
        measured = measure_colours(colours, self.model, full_chroma=header.full_chroma)
        if keep:
            self.kept[key] = measured
        return measured


class _DecodingJob:
    """One file on its way to pixels."""

    def __init__(
        self,
        parts: Container,
        model: Model,
        decoder: str,
        sparsity: int,
        measurements: int,
        workers: int | None,
    ) -> None:
        self.header = parts.header
        self.segments = parts.segments
        self.systems = (model.luma, model.chroma)
        self.tables = CoderTables.from_mapping(model.tables)
        check_filters(model.filters)
        steps = (parts.header.step, parts.header.chroma_step)
        self.filters = [
            filters_for_step(model.filters[name], step) if name in model.filters else None
            for name, step in zip(("luma", "chroma"), steps, strict=True)
        ]
        self.decoder = decoder
        self.sparsity = sparsity
        self.measurements = measurements
        self.workers = workers

    def pixels(self, box: tuple[int, int, int, int]) -> Pixels:
        """Colour samples of a part of the picture."""
        header = self.header
        x, y, width, height = box
        size = container.TILE_SIZE
        rows, columns = header.tile_grid
        wanted = [
            row * columns + column
            for row in range(y // size, (y + height - 1) // size + 1)
            for column in range(x // size, (x + width - 1) // size + 1)
        ]
        around = sorted(
            {
                row * columns + column
                for tile in wanted
                for row in range(max(0, tile // columns - 1), min(rows, tile // columns + 2))
                for column in range(max(0, tile % columns - 1), min(columns, tile % columns + 2))
            }
        )
        planes = self._empty_planes()
        for tile, values in zip(
            around, parallel_map(self._values, around, self.workers), strict=True
        ):
            for plane, part in zip(planes, values, strict=True):
                top, left = self._patch_origin(tile, plane.shape)
                plane[top : top + part.shape[0], left : left + part.shape[1]] = part
        shape = (height, width) if header.num_colours == 1 else (height, width, 3)
        out = np.empty(shape, np.uint8)

        def restore(tile: int) -> None:
            tile_x, tile_y, tile_width, tile_height = header.tile_box(tile)
            part = self._restored(tile, planes)
            left, top = max(x, tile_x), max(y, tile_y)
            right = min(x + width, tile_x + tile_width)
            bottom = min(y + height, tile_y + tile_height)
            out[top - y : bottom - y, left - x : right - x] = part[
                top - tile_y : bottom - tile_y, left - tile_x : right - tile_x
            ]

        for _ in parallel_map(restore, wanted, self.workers):
            pass
        return out

    def _empty_planes(self) -> list[Values]:
        header = self.header
        planes = []
        for number in range(header.num_colours):
            unit = 8 if number == 0 or header.full_chroma else 16
            rows, columns = -(-header.height // unit), -(-header.width // unit)
            planes.append(np.zeros((rows, columns, NUM_MEASUREMENTS), np.int16))
        return planes

    def _patch_origin(self, tile: int, shape: tuple[int, ...]) -> tuple[int, int]:
        """First patch row and column of a tile in a plane of this many patches."""
        x, y, _, _ = self.header.tile_box(tile)
        unit = (
            8
            if shape[0] == -(-self.header.height // 8) and (shape[1] == -(-self.header.width // 8))
            else 16
        )
        return y // unit, x // unit

    def _values(self, tile: int) -> list[Values]:
        layers = [layer[tile] for layer in self.segments if tile < len(layer)]
        if self.measurements < self.header.measurements:
            layers = layers[: num_layers(self.measurements)]
        values = decode_tile(
            layers,
            self.header.patch_grids(tile),
            self.tables,
            measurements=self.header.measurements,
        )
        for plane in values:
            plane[..., self.measurements + 1 :] = 0
        return values

    def _restored(self, tile: int, planes: list[Values]) -> Pixels:
        """Pixels of one tile."""
        header = self.header
        _, _, width, height = header.tile_box(tile)
        restored = []
        for number, plane in enumerate(planes):
            halved = number > 0 and not header.full_chroma
            top, left = self._patch_origin(tile, plane.shape)
            rows, columns = header.patch_grids(tile)[number]
            first_row, first_column = max(0, top - _MARGIN), max(0, left - _MARGIN)
            quantised = Quantised(
                values=plane[
                    first_row : top + rows + _MARGIN, first_column : left + columns + _MARGIN
                ],
                step=header.step if number == 0 else header.chroma_step,
                zero_cell=header.zero_cell / 64,
                measurements=self.measurements,
            )
            samples = restore_plane(
                quantised,
                self.systems[number > 0],
                self.decoder,
                filters=self.filters[number > 0],
                sparsity=self.sparsity,
            )
            y, x = 8 * (top - first_row), 8 * (left - first_column)
            # Samples beyond the picture's edge are padding, not picture.
            total_rows = -(-header.height // (2 if halved else 1))
            total_columns = -(-header.width // (2 if halved else 1))
            samples = samples[: total_rows - 8 * first_row, : total_columns - 8 * first_column]
            if halved:
                samples, y, x = double(samples), 2 * y, 2 * x
            restored.append(samples[y : y + height, x : x + width])
        return join_colours(restored)


def measure_colours(colours: Pixels, model: Model, *, full_chroma: bool) -> list[Float32Array]:
    """Take the measurements of a picture or tile in the models' orthonormal bases.

    Parameters
    ----------
    colours : ndarray, (H, W) or (H, W, 3) uint8
    model : Model
    full_chroma : bool
        Whether chroma keeps its size (4:4:4) or is halved (4:2:0).

    Returns
    -------
    list of ndarray, (rows, columns, 64) float32
        Per plane: 8 times the mean of every patch, then its measurements; zeros after the last.
    """
    planes = split_colours(colours)
    if not full_chroma:
        planes[1:] = [halve(plane) for plane in planes[1:]]
    measured = []
    for number, plane in enumerate(planes):
        transform = _analysis(model.chroma if number > 0 else model.luma)
        grid = patch_grid((plane.shape[0], plane.shape[1]))
        measured.append(multiplied(extract_patches(plane), transform).reshape(*grid, -1))
    return measured


def _analysis(system: System) -> Float32Array:
    """Return the orthonormal transform of a patch, (64, 64) float32, inputs along rows.

    Column 0 is the mean times 8; columns beyond the model's measurements are zero.
    """
    transform = np.zeros((NUM_MEASUREMENTS, NUM_MEASUREMENTS), np.float32)
    transform[:, 0] = 1 / 8
    transform[:, 1 : 1 + system.num_measurements] = system.basis.T
    return transform


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
    if min(pixels.shape[:2]) < 1 or max(pixels.shape[:2]) > container.MAX_DIMENSION:
        raise InvalidInputError(
            f"image is {pixels.shape[1]} x {pixels.shape[0]} pixels; allowed are 1 to "
            f"{container.MAX_DIMENSION} each way"
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
