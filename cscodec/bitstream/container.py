"""The file: a signature, then typed chunks with lengths and checksums. Format version 1.

Normative text: docs/format.md. Everything read here may come from a stranger: every size is
checked before anything is allocated for it, and every byte must be accounted for.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from cscodec.bitstream.steps import MAX_STEP, MIN_STEP, STEP_UNIT, TILT_UNIT
from cscodec.errors import (
    BadMagicError,
    BitstreamError,
    ChecksumError,
    InvalidFieldError,
    InvalidInputError,
    LimitExceededError,
    TruncatedError,
    UnsupportedVersionError,
)
from cscodec.layout import (
    CODER_ID,
    DEFAULT_MAX_PIXELS,
    MAX_DIMENSION,
    MODEL_ID_BYTES,
    NUM_MEASUREMENTS,
    PATCH_SIZE,
    num_layers,
)
from cscodec.streams import read_up_to

SIGNATURE = b"\x8bCSC\r\n\x1a"
FORMAT_VERSION = 1
TILE_SIZE = 512  #: most pixels on each side of a tile
LARGE_TILE_SIZE = 1024  #: and of a large one
_TILE_UNIT = 2 * PATCH_SIZE  # tiles hold whole patches of halved chroma

HEADER_CHUNK = b"H"
SEGMENT_CHUNK = b"S"
ALPHA_CHUNK = b"A"
ICC_CHUNK = b"i"
EXIF_CHUNK = b"e"
XMP_CHUNK = b"x"

#: Width, height, channels, flags, coder, measurements, step, chroma step, tilt, chroma tilt, zero
#: cell, model id.
HEADER = struct.Struct(f">IIBBBBHHBBB{MODEL_ID_BYTES}s")
_FLAG_FULL_CHROMA = 1  # chroma planes are not subsampled
_FLAG_ICC = 2
_FLAG_EXIF = 4
_FLAG_XMP = 8
_FLAG_UNLAPPED = 16  # patches are not lapped, though the model laps
_FLAG_LARGE_TILES = 32
_KNOWN_FLAGS = (
    _FLAG_FULL_CHROMA | _FLAG_ICC | _FLAG_EXIF | _FLAG_XMP | _FLAG_UNLAPPED | _FLAG_LARGE_TILES
)

MAX_UNKNOWN_CHUNKS = 1000
# A file that goes on beyond this is none of ours. Noise at the finest step, coded with tables that
# are as wrong as can be, takes 3 bytes per sample.
_MOST_BYTES_PER_SAMPLE = 16
_MOST_OTHER_BYTES = 64 << 20  # metadata, unknown chunks
_HEAD_BYTES = 1 << 12  # signature and header are in there


Segment = bytes | memoryview


@dataclass(frozen=True)
class Header:
    """What a decoder must know before the first measurement.

    Attributes
    ----------
    width, height : int
        Pixels, 1..16777215.
    channels : int
        1 gray, 2 gray and alpha, 3 colour, 4 colour and alpha.
    full_chroma : bool
        Whether chroma planes have the size of the luma plane (4:4:4, else 4:2:0).
    measurements : int
        Numbers per patch beside the mean, 1..63.
    step_code, chroma_step_code : int
        Quantisation steps of the means in 1/64.
    tilt_code, chroma_tilt_code : int
        How much the step grows to the last measurement, in 1/32 of itself.
    zero_cell : int
        How far from zero a measurement quantised to zero may lie, in 1/64 of a step.
    model_id : bytes
    coder_id : int
    unlapped : bool
        Whether patches were measured as they are, whatever the model's lapping.
    large_tiles : bool
        Whether a tile may have 1024 pixels on each side (else 512).
    """

    width: int
    height: int
    channels: int
    full_chroma: bool
    measurements: int
    step_code: int
    chroma_step_code: int
    tilt_code: int
    chroma_tilt_code: int
    zero_cell: int
    model_id: bytes
    coder_id: int = CODER_ID
    unlapped: bool = False
    large_tiles: bool = False

    @property
    def num_colours(self) -> int:
        """1 or 3: channels without alpha."""
        return 3 if self.channels >= 3 else 1

    @property
    def has_alpha(self) -> bool:
        """Whether there is an alpha channel."""
        return self.channels in (2, 4)

    @property
    def step(self) -> float:
        """Step of the means of the luma plane, in units of a sample."""
        return self.step_code / STEP_UNIT

    @property
    def chroma_step(self) -> float:
        """Step of the means of the chroma planes."""
        return self.chroma_step_code / STEP_UNIT

    def step_and_tilt(self, plane: int) -> tuple[float, float]:
        """Return what gives the steps of a plane: see :func:`~.steps.measurement_steps`."""
        if plane == 0:
            return self.step, self.tilt_code / TILT_UNIT
        return self.chroma_step, self.chroma_tilt_code / TILT_UNIT

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Height and width of tiles, but for those at the lower and right edges."""
        return self._tile_side(self.height), self._tile_side(self.width)

    def _tile_side(self, length: int) -> int:
        """Divide a side into as few tiles as can be, nearly equal ones."""
        number = -(-length // (LARGE_TILE_SIZE if self.large_tiles else TILE_SIZE))
        return _TILE_UNIT * -(-length // (_TILE_UNIT * number))

    @property
    def tile_grid(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        height, width = self.tile_shape
        return -(-self.height // height), -(-self.width // width)

    @property
    def num_tiles(self) -> int:
        """Number of tiles."""
        rows, columns = self.tile_grid
        return rows * columns

    @property
    def num_layers(self) -> int:
        """Layers per tile."""
        return num_layers(self.measurements)

    def tile_box(self, tile: int) -> tuple[int, int, int, int]:
        """Return x, y, width and height of a tile in pixels."""
        row, column = divmod(tile, self.tile_grid[1])
        height, width = self.tile_shape
        x, y = column * width, row * height
        return x, y, min(width, self.width - x), min(height, self.height - y)

    def patch_grids(self, tile: int) -> list[tuple[int, int]]:
        """Return rows and columns of patches in each plane of a tile."""
        _, _, width, height = self.tile_box(tile)
        grids = []
        for plane in range(self.num_colours):
            unit = PATCH_SIZE if plane == 0 or self.full_chroma else 2 * PATCH_SIZE
            grids.append((-(-height // unit), -(-width // unit)))
        return grids


class Extras(NamedTuple):
    """What a file has beside its colours: a PNG stream of alpha, and metadata as they came."""

    alpha: bytes | None = None
    icc_profile: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None


@dataclass(frozen=True)
class Container:
    """The parts of a file.

    Attributes
    ----------
    header : Header
    segments : list of list of bytes
        Entropy-coded data, by layer and tile. A file cut short has fewer. Those of a file that
        was read are views of its bytes.
    alpha : bytes or None
        A PNG stream.
    icc_profile, exif, xmp : bytes or None
    complete : bool
        Whether all is there: a file that was read with ``allow_partial`` may be cut short.
    """

    header: Header
    segments: Sequence[Sequence[Segment]]
    alpha: bytes | None = None
    icc_profile: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None
    layer_bytes: tuple[int, ...] = field(default=(), compare=False)
    complete: bool = True


def pack(container: Container, layers: Iterable[Iterable[Segment]] | None = None) -> bytes:
    """Return the bytes of a file.

    Parameters
    ----------
    container : Container
    layers : iterable of iterables of bytes, optional
        The segments, in place of the container's: each is asked for once, and need not be kept.
    """
    header = container.header
    flags = (
        _FLAG_FULL_CHROMA * header.full_chroma
        | _FLAG_UNLAPPED * header.unlapped
        | _FLAG_LARGE_TILES * header.large_tiles
    )
    tail = []
    for kind, flag, payload in (
        (ALPHA_CHUNK, 0, container.alpha),
        (ICC_CHUNK, _FLAG_ICC, container.icc_profile),
        (EXIF_CHUNK, _FLAG_EXIF, container.exif),
        (XMP_CHUNK, _FLAG_XMP, container.xmp),
    ):
        if payload is not None:
            flags |= flag
            tail.append(_chunk(kind, payload))
    fields = HEADER.pack(
        header.width,
        header.height,
        header.channels,
        flags,
        header.coder_id,
        header.measurements,
        header.step_code,
        header.chroma_step_code,
        header.tilt_code,
        header.chroma_tilt_code,
        header.zero_cell,
        header.model_id,
    )
    file = io.BytesIO()
    file.write(SIGNATURE + bytes([FORMAT_VERSION]) + _chunk(HEADER_CHUNK, fields))
    for layer in container.segments if layers is None else layers:
        for part in layer:
            file.write(_chunk(SEGMENT_CHUNK, part))
    file.writelines(tail)
    return file.getvalue()


def read(stream: IO[bytes], *, max_pixels: int = DEFAULT_MAX_PIXELS, begun: bytes = b"") -> bytes:
    """Read a file from a stream: its header first, and no more than that allows.

    Parameters
    ----------
    stream : binary file
    max_pixels : int
        Refuse pictures that claim more.
    begun : bytes
        What was read of it before.

    Raises
    ------
    BitstreamError
        If it does not begin as a file does, claims more than ``max_pixels``, or goes on beyond what
        a picture of its size can take.
    """
    head = begun + read_up_to(stream, max(0, _HEAD_BYTES - len(begun)))
    header, _ = _header_of(_Reader(head), max_pixels)
    rows, columns = (-(-side // PATCH_SIZE) for side in (header.height, header.width))
    samples = rows * columns * PATCH_SIZE**2 * header.channels
    most = samples * _MOST_BYTES_PER_SAMPLE + _MOST_OTHER_BYTES
    data = head + read_up_to(stream, most + 1 - len(head))
    if len(data) > most:
        raise LimitExceededError(
            f"the file goes on after {most} bytes, more than a picture of "
            f"{header.width} x {header.height} pixels can take"
        )
    return data


def unpack(
    data: bytes | bytearray | memoryview,
    *,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    allow_partial: bool = False,
) -> Container:
    """Parse a file: inverse of :func:`pack`.

    Parameters
    ----------
    data : bytes-like
    max_pixels : int
        Refuse pictures of more pixels than this.
    allow_partial : bool
        Return what is there if the file ends early or a chunk after the header is damaged.

    Raises
    ------
    BitstreamError
        One of its kinds, see :mod:`cscodec.errors`.
    InvalidInputError
        If ``data`` are not bytes.
    """
    reader = _Reader(_as_bytes(data))
    header, flags = _header_of(reader, max_pixels)

    segments: list[list[Segment]] = [[] for _ in range(header.num_layers)]
    layer_bytes = [0] * header.num_layers
    optional: dict[bytes, bytes] = {}
    complete = True
    expected = [ALPHA_CHUNK] if header.has_alpha else []
    expected += [
        kind
        for kind, flag in ((ICC_CHUNK, _FLAG_ICC), (EXIF_CHUNK, _FLAG_EXIF), (XMP_CHUNK, _FLAG_XMP))
        if flags & flag
    ]
    try:
        for layer in range(header.num_layers):
            while len(segments[layer]) < header.num_tiles:
                start = reader.position
                kind, payload = reader.chunk()
                if kind == SEGMENT_CHUNK:
                    segments[layer].append(payload)
                    layer_bytes[layer] += reader.position - start
                else:
                    reader.skip(kind)
        while expected:
            kind, payload = reader.chunk()
            if kind == expected[0]:
                optional[expected.pop(0)] = bytes(payload)
            else:
                reader.skip(kind)
        while reader.position < len(reader.data):
            kind, _ = reader.chunk()
            reader.skip(kind)
    except BitstreamError:
        if not allow_partial:
            raise
        complete = False
    return Container(
        header,
        segments,
        optional.get(ALPHA_CHUNK),
        optional.get(ICC_CHUNK),
        optional.get(EXIF_CHUNK),
        optional.get(XMP_CHUNK),
        tuple(layer_bytes),
        complete,
    )


def _as_bytes(data: object) -> bytes:
    """What is bytes-like as bytes; a number is not: ``bytes`` would make as many zeros of it."""
    try:
        return data if isinstance(data, bytes) else bytes(memoryview(data))  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInputError(
            f"data is of type {type(data).__name__}; allowed are bytes, bytearray and memoryview"
        ) from None


def _header_of(reader: _Reader, max_pixels: int) -> tuple[Header, int]:
    """Pass a file's signature and header, and return what the header says, and its flags."""
    _check_signature(bytes(reader.data[: len(SIGNATURE) + 1]))
    reader.position = len(SIGNATURE) + 1
    kind, payload = reader.chunk()
    if kind != HEADER_CHUNK:
        raise InvalidFieldError(f"the first chunk is {kind!r}, it must be the header, b'H'")
    return _parse_header(payload, max_pixels)


def _check_signature(data: bytes) -> None:
    if data[: len(SIGNATURE)] != SIGNATURE:
        if data and SIGNATURE.startswith(data):
            raise TruncatedError(f"only {len(data)} bytes, not even the signature is whole")
        reason = "it is empty" if not data else f"it begins with {data[:7].hex(' ')}"
        raise BadMagicError(f"not a cscodec file ({reason}, a .csc file with {SIGNATURE.hex(' ')})")
    if len(data) == len(SIGNATURE):
        raise TruncatedError("the file ends after the signature")
    version = data[len(SIGNATURE)]
    if version != FORMAT_VERSION:
        raise UnsupportedVersionError(
            f"format version {version}; this release reads version {FORMAT_VERSION}: "
            "update cscodec, or encode the picture again"
        )


def _parse_header(payload: memoryview, max_pixels: int) -> tuple[Header, int]:
    if len(payload) != HEADER.size:
        raise InvalidFieldError(f"header has {len(payload)} bytes, it must have {HEADER.size}")
    (
        width,
        height,
        channels,
        flags,
        coder_id,
        measurements,
        step_code,
        chroma_step_code,
        tilt_code,
        chroma_tilt_code,
        zero_cell,
        model_id,
    ) = HEADER.unpack(payload)
    for name, value, low, high in (
        ("width", width, 1, MAX_DIMENSION),
        ("height", height, 1, MAX_DIMENSION),
        ("channels", channels, 1, 4),
        ("measurements", measurements, 1, NUM_MEASUREMENTS - 1),
        ("step", step_code, round(MIN_STEP * STEP_UNIT), round(MAX_STEP * STEP_UNIT)),
        ("chroma step", chroma_step_code, round(MIN_STEP * STEP_UNIT), round(MAX_STEP * STEP_UNIT)),
    ):
        if not low <= value <= high:
            raise InvalidFieldError(f"{name} is {value}; allowed are {low} to {high}")
    if flags & ~_KNOWN_FLAGS:
        raise InvalidFieldError(f"reserved flags are set: {flags & ~_KNOWN_FLAGS:#04x}")
    if flags & _FLAG_FULL_CHROMA and channels < 3:
        raise InvalidFieldError("a gray picture cannot have chroma flags")
    if coder_id != CODER_ID:
        raise UnsupportedVersionError(f"entropy coder {coder_id} is not known to this release")
    if width * height > max_pixels:
        raise LimitExceededError(
            f"the header claims {width} x {height} pixels; the limit is {max_pixels} "
            "(raise max_pixels or --max-pixels if you trust the file)"
        )
    header = Header(
        width,
        height,
        channels,
        bool(flags & _FLAG_FULL_CHROMA),
        measurements,
        step_code,
        chroma_step_code,
        tilt_code,
        chroma_tilt_code,
        zero_cell,
        model_id,
        coder_id,
        bool(flags & _FLAG_UNLAPPED),
        bool(flags & _FLAG_LARGE_TILES),
    )
    return header, flags


def _chunk(kind: bytes, payload: Segment) -> bytes:
    checksum = zlib.crc32(payload, zlib.crc32(kind))
    return kind + _varint(len(payload)) + payload + checksum.to_bytes(4, "big")


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have the high bit set."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Reader:
    """A position in the bytes, and the chunks from there on."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.num_unknown = 0

    def chunk(self) -> tuple[bytes, memoryview]:
        start = self.position
        data = self.data
        if start >= len(data):
            raise TruncatedError(f"the file ends at byte {start}, where a chunk should begin")
        length, begin = self._length(start + 1)
        end = begin + length
        if end + 4 > len(data):
            raise TruncatedError(
                f"chunk at byte {start} needs {end + 4 - start} bytes, {len(data) - start} are left"
            )
        kind, payload = bytes(data[start : start + 1]), data[begin:end]
        if zlib.crc32(payload, zlib.crc32(kind)) != int.from_bytes(data[end : end + 4], "big"):
            raise ChecksumError(f"chunk at byte {start} is damaged: its checksum does not match")
        self.position = end + 4
        return kind, payload

    def skip(self, kind: bytes) -> None:
        """Pass over an unknown ancillary chunk; all others have no business where they stand."""
        if kind in (HEADER_CHUNK, SEGMENT_CHUNK, ALPHA_CHUNK, ICC_CHUNK, EXIF_CHUNK, XMP_CHUNK):
            raise InvalidFieldError(f"chunk {kind!r} is not expected here")
        if not kind.islower():
            raise UnsupportedVersionError(f"critical chunk {kind!r} is not known to this release")
        self.num_unknown += 1
        if self.num_unknown > MAX_UNKNOWN_CHUNKS:
            raise LimitExceededError(f"there are more than {MAX_UNKNOWN_CHUNKS} unknown chunks")

    def _length(self, position: int) -> tuple[int, int]:
        length = 0
        for k in range(5):
            if position + k >= len(self.data):
                raise TruncatedError("the file ends inside the length of a chunk")
            byte = self.data[position + k]
            length |= (byte & 127) << (7 * k)
            if byte < 128:
                if k > 0 and byte == 0:
                    raise InvalidFieldError("the length of a chunk is not in its shortest form")
                return length, position + k + 1
        raise LimitExceededError("the length of a chunk has more than 5 bytes")
