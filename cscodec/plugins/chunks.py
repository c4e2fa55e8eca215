"""Chunks of arrays as .csc files: what the codecs of numcodecs and of Zarr have in common.

It is lossy: what is read is not what was written. A chunk is a picture of its own, whose file says
all that decoding needs; options are for writing, and tell readers of the metadata what was done.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

import cscodec
from cscodec.arrays import Pixels
from cscodec.choices import Decoder, Subsampling, Tune
from cscodec.errors import InvalidFieldError, InvalidInputError, ModelNotFoundError
from cscodec.layout import DEFAULT_MAX_PIXELS
from cscodec.model import Model, find_model, load_model, shipped_models

NAME = "cscodec"
MISSING = "{} needs Zarr 3 and numcodecs, which are not installed: pip install 'cscodec[zarr]'"

_known_models: dict[str, Model] = {}


def use_model(model: str | os.PathLike[str] | Model) -> str:
    """Make a model that is not shipped known in this process, and return its id.

    Metadata of arrays name a model by its id: who reads or adds to an array made with a model of
    their own says so first, in each process.
    """
    chosen = model if isinstance(model, Model) else load_model(model)
    return _known_models.setdefault(chosen.model_id.hex(), chosen).model_id.hex()


@dataclass(frozen=True)
class ChunkCoder:
    """How chunks become files and are restored: fields are options of `encode` and `decode`.

    Attributes
    ----------
    model : str, path or Model
        By name, by path, or by id (see :func:`use_model`); kept as the id.
    """

    quality: float | None = None
    step: float | None = None
    tune: Tune = "visual"
    measurements: int | None = None
    model: str = "photo"
    subsampling: Subsampling = "auto"
    effort: int = 1
    decoder: Decoder = "refine"

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # which no metadata can hold
                object.__setattr__(self, name, value.item())
        if _is_model_id(self.model):  # from metadata: readers may not have the model
            return
        object.__setattr__(self, "model", use_model(self.model))
        self.decode(self.encode(np.zeros((8, 8), np.uint8)))  # wrong options are wrong now

    @classmethod
    def from_metadata(cls, options: Mapping[str, Any]) -> ChunkCoder:
        """Make what an array's metadata describe, which open no file and no connection.

        Raises
        ------
        InvalidInputError
            If there are other options, or the model is named by anything but an id or the name of
            a shipped one.
        """
        if unknown := sorted(set(map(str, options)) - {field.name for field in fields(cls)}):
            raise InvalidInputError(f"the metadata have an unknown option {unknown[0]!r}")
        model = options.get("model", "photo")
        if not (_is_model_id(model) or (isinstance(model, str) and model in shipped_models())):
            raise InvalidInputError(
                f"the metadata name the model {model!r}; allowed are ids, and names of shipped "
                "models: cscodec.plugins.chunks.use_model(PATH) makes others known, by their id"
            )
        return cls(**options)

    def config(self) -> dict[str, Any]:
        """Return the options as JSON-able values; those not set are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def encode(self, chunk: Any) -> bytes:
        """Compress a chunk, on this thread alone: arrays have many.

        Raises
        ------
        InvalidInputError
            If it is not uint8, or not a picture.
        """
        pixels = np.asarray(chunk)
        if pixels.dtype != np.uint8:  # others, too, would come back as uint8
            raise InvalidInputError(f"the array has dtype {pixels.dtype}; allowed is uint8")
        if pixels.ndim > 1 and np.isfortran(pixels):
            raise InvalidInputError("the array's order is F; make it with order 'C'")
        options = self.config() | {"model": self._model()}
        del options["decoder"]
        return cscodec.encode(pixels.reshape(picture_shape(pixels.shape)), **options, workers=1)

    def decode(self, data: Any, size: int | None = None) -> Pixels:
        """Restore a chunk.

        Parameters
        ----------
        data : bytes-like
        size : int, optional
            Samples that the chunk has: a file that claims others is refused before it is decoded.

        Raises
        ------
        BitstreamError, ModelError
            If the chunk is damaged, or was made with another model than the metadata say.
        """
        data = bytes(data)
        if size is not None:
            info = cscodec.info(data, max_pixels=size)
            if info.width * info.height * info.channels != size:
                raise InvalidFieldError(
                    f"the chunk holds {info.width} x {info.height} pixels of {info.channels} "
                    f"channels, not the {size} samples that the array's metadata promise"
                )
        return cscodec.decode(
            data,
            decoder=self.decoder,
            model=self._model(),
            max_pixels=DEFAULT_MAX_PIXELS if size is None else size,
            workers=1,
        )

    def _model(self) -> Model:
        if self.model in _known_models:
            return _known_models[self.model]
        try:
            return find_model(bytes.fromhex(self.model))
        except ModelNotFoundError as error:
            raise ModelNotFoundError(
                f"the array was made with model {self.model}, which is not shipped: "
                "cscodec.plugins.chunks.use_model(PATH) makes it known"
            ) from error


def picture_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a chunk as a picture: leading axes of length 1 are left out.

    Raises
    ------
    InvalidInputError
        If it is neither (..., H, W) nor (..., H, W, 1..4), the other axes being 1.
    """
    given = shape
    while len(shape) > 2 and shape[0] == 1 and not (len(shape) == 3 and shape[2] <= 4):
        shape = shape[1:]
    if len(shape) == 2 or (len(shape) == 3 and 1 <= shape[2] <= 4):
        return shape
    raise InvalidInputError(
        f"chunks have shape {given}; allowed are pictures, (H, W) or (H, W, 1..4), "
        "with any number of axes of length 1 before them"
    )


def _is_model_id(model: object) -> bool:
    return isinstance(model, str) and re.fullmatch("[0-9a-f]{16}", model) is not None
