"""What callers pass to `encode`, `decode` and `info`: checked, and refused by name.

Pictures and files may come as values, as paths or as open files; here they become one thing.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Real
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cscodec.bitstream import container
from cscodec.errors import CscodecError, InvalidInputError
from cscodec.model import Model, load_model

if TYPE_CHECKING:
    from cscodec.images import Picture

#: A file: its bytes, its path, or opened for reading in binary mode.
File: TypeAlias = bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes]


def whole_number(name: str, value: Any, low: int, high: int | None = None, of: str = "") -> int:
    """Return an argument that is a whole number in a range, which is that ``of`` something.

    Raises
    ------
    InvalidInputError
        If it is not.
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        allowed = f"{low} to {high}" if high is not None else f"whole numbers from {low}"
        allows = f"{of} allows" if of else "allowed are"
        raise InvalidInputError(f"{name} is {value!r}; {allows} {allowed}")
    return int(value)


def number(name: str, value: Any) -> float:
    """Return an argument that is a finite number.

    Raises
    ------
    InvalidInputError
        If it is not.
    """
    return _number(name, value, "a finite number")


def positive(name: str, value: Any) -> float:
    """Return an argument that is a positive number.

    Raises
    ------
    InvalidInputError
        If it is not.
    """
    return _number(name, value, "positive and finite", above=0)


def _number(name: str, value: Any, wanted: str, above: float = -math.inf) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    with suppress(OverflowError):
        if is_number and above < float(value) < math.inf:
            return float(value)
    raise InvalidInputError(f"{name} is {value!r}; it must be {wanted}")


def workers_or_none(value: Any) -> int | None:
    """Return a number of threads; None stands for all CPUs.

    Raises
    ------
    InvalidInputError
        If it is not a whole number from 1.
    """
    return None if value is None else whole_number("workers", value, 1)


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Check an argument that is chosen by name.

    Raises
    ------
    InvalidInputError
        If it is none of those.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInputError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")


def only_one(values: Mapping[str, Any]) -> None:
    """Check arguments that exclude each other.

    Raises
    ------
    InvalidInputError
        If several are not None.
    """
    given = [name for name, value in values.items() if value is not None]
    if len(given) > 1:
        raise InvalidInputError(f"give only one of {' and '.join(given)}")


def region_within(region: Any, width: int, height: int) -> tuple[int, int, int, int]:
    """Return the part of a picture that is meant: the whole if None.

    Raises
    ------
    InvalidInputError
        If it is not four whole numbers, or lies outside.
    """
    if region is None:
        return 0, 0, width, height
    try:
        x, y, wide, high = (operator.index(value) for value in region)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"region is {region!r}; it must be four whole numbers: x, y, width and height"
        ) from error
    if min(x, y) < 0 or min(wide, high) < 1 or x + wide > width or y + high > height:
        raise InvalidInputError(
            f"region {x},{y},{wide},{high} does not lie within the picture of "
            f"{width} x {height} pixels"
        )
    return x, y, wide, high


def model_of(model: Any) -> Model:
    """Return a model that was given by name, by path or as itself.

    Raises
    ------
    InvalidInputError
        If it is something else.
    ModelError
        If there is none, or it cannot be used.
    """
    return model if isinstance(model, Model) else load_model(model)


def output_array(out: Any, shape: tuple[int, ...]) -> Any:
    """Return what a picture of this shape can be written to; a new array if None.

    Raises
    ------
    InvalidInputError
        If ``out`` is of another shape or type, or read-only.
    """
    if out is None:
        return np.empty(shape, np.uint8)
    if not (hasattr(out, "dtype") and hasattr(out, "shape")):
        raise InvalidInputError(f"out is {_kind(out)}; it must be an array of uint8 {shape}")
    if out.dtype != np.uint8 or tuple(out.shape) != shape:
        raise InvalidInputError(
            f"out is {out.dtype} {tuple(out.shape)}; this picture needs uint8 {shape}"
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InvalidInputError("out cannot be written to: it is read-only")
    return out


def file_bytes(file: Any, max_pixels: int) -> bytes:
    """Return the bytes of a file; what is read is read no further than its header allows.

    Raises
    ------
    InvalidInputError
        If it cannot be read.
    BitstreamError
        If what is read is no file of ours, or claims more than ``max_pixels``.
    """
    if isinstance(file, bytes):
        return file
    if isinstance(file, str | os.PathLike):
        try:
            with open(file, "rb") as opened:
                return container.read(opened, max_pixels=max_pixels)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInputError(f"{os.fspath(file)}: cannot be read: {reason}") from error
    try:
        if hasattr(file, "read"):
            return container.read(file, max_pixels=max_pixels)
        return bytes(memoryview(file))
    except CscodecError:
        raise
    except (OSError, ValueError) as error:  # closed, or for writing only
        raise InvalidInputError(f"data cannot be read: {error}") from error
    except TypeError as error:
        raise InvalidInputError(
            f"data is {_kind(file)}; give bytes, a path, or a file opened in binary mode"
        ) from error


def picture_of(
    image: Any, *, max_pixels: int, icc_profile: Any = None, exif: Any = None, xmp: Any = None
) -> Picture:
    """Return the picture that is meant, upright, with the metadata that it has or is given.

    Raises
    ------
    InvalidInputError
        If it cannot be read, or its samples or metadata are of another kind.
    """
    from PIL import Image

    from cscodec.images import Picture, from_pillow, read_picture, upright
    from cscodec.images.metadata import take_orientation

    given = {"icc_profile": icc_profile, "exif": exif, "xmp": xmp}
    for name, payload in given.items():
        if payload is not None and not isinstance(payload, bytes | bytearray | memoryview):
            raise InvalidInputError(f"{name} is {_kind(payload)}; it must be bytes")
    given = {name: bytes(payload) for name, payload in given.items() if payload is not None}
    exif = given.get("exif")
    if exif and exif.removeprefix(b"Exif\0\0")[:4] not in (b"II*\0", b"MM\0*"):
        raise InvalidInputError(r"exif is not EXIF: it begins with neither II*\0 nor MM\0*")
    if isinstance(image, Picture):
        picture = image
    elif isinstance(image, Image.Image):
        picture = from_pillow(image)
    elif isinstance(image, bytes | bytearray | memoryview):
        picture = read_picture(bytes(image), max_pixels=max_pixels)
    elif isinstance(image, str | os.PathLike) or hasattr(image, "read"):
        picture = read_picture(image, max_pixels=max_pixels)
    elif isinstance(image, np.ma.MaskedArray) and np.ma.is_masked(image):
        raise InvalidInputError("image has masked samples; fill them first: image.filled(0)")
    else:
        picture = Picture(image)
    picture = replace(picture, **given)
    orientation, tidied = take_orientation(picture)
    if orientation == 1:
        return tidied
    return upright(replace(picture, pixels=np.asarray(picture.pixels)))


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"
