"""cscodec: an image codec built on learned compressive sensing.

>>> import cscodec
>>> data = cscodec.encode(image, quality=75)      # uint8 array in, bytes out
>>> restored = cscodec.decode(data)               # bytes in, uint8 array out

Importing the package is cheap: numerical code is loaded when it is first used.
"""

from __future__ import annotations

# Before any fork: loaded while one waits (below), it would release locks that it does not hold.
import concurrent.futures.thread  # noqa: F401
import importlib
from typing import TYPE_CHECKING, Any

from cscodec.errors import (
    BadMagicError,
    BitstreamError,
    ChecksumError,
    CscodecError,
    InvalidFieldError,
    InvalidInputError,
    InvalidModelError,
    KernelsError,
    LimitExceededError,
    ModelError,
    ModelMismatchError,
    ModelNotFoundError,
    SchedulerError,
    TruncatedError,
    UnsupportedVersionError,
)
from cscodec.loading import loading as _loading

if TYPE_CHECKING:
    from cscodec.codec import decode, encode
    from cscodec.describe import Info, info
    from cscodec.model import Model, load_model, shipped_models

__version__ = "0.1.0"

__all__ = [
    "BadMagicError",
    "BitstreamError",
    "ChecksumError",
    "CscodecError",
    "Info",
    "InvalidFieldError",
    "InvalidInputError",
    "InvalidModelError",
    "KernelsError",
    "LimitExceededError",
    "Model",
    "ModelError",
    "ModelMismatchError",
    "ModelNotFoundError",
    "SchedulerError",
    "TruncatedError",
    "UnsupportedVersionError",
    "__version__",
    "decode",
    "encode",
    "info",
    "load_model",
    "shipped_models",
]

_LAZY = {
    "Info": "cscodec.describe",
    "decode": "cscodec.codec",
    "encode": "cscodec.codec",
    "info": "cscodec.describe",
    "Model": "cscodec.model",
    "load_model": "cscodec.model",
    "shipped_models": "cscodec.model",
}
_AT_FIRST_CALL = {"encode": "cscodec.images"}  # what a function imports itself, when it is called


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        with _loading:
            if name in _AT_FIRST_CALL:
                importlib.import_module(_AT_FIRST_CALL[name])
            value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
