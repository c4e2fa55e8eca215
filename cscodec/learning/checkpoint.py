"""Checkpoints of a training run: everything that it needs to go on as if it had never stopped.

A checkpoint is a safetensors file: arrays as tensors, all else as one JSON string in the metadata.
A run killed at any moment leaves the previous one whole. It remembers the configuration of its run
and refuses any other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec import locations
from cscodec.atomic import write_whole
from cscodec.errors import InvalidInputError
from cscodec.learning.saved import Saved
from cscodec.locations import is_url
from cscodec.streams import is_special, read_up_to

_MOST_BYTES = 1 << 31
VERSION = 2  #: of the checkpoint file; a checkpoint of another version is refused


@dataclass(frozen=True)
class Checkpoint:
    """State of a training run between two batches.

    Attributes
    ----------
    configuration : mapping
        JSON-able; whatever determines the result of the run.
    state : mapping
        Nested dicts and lists of JSON-able values and of arrays.
    """

    configuration: Mapping[str, Any]
    state: Mapping[str, Any] = field(default_factory=dict)


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically: at any time a path or URL holds a whole one, old or new.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    from safetensors.numpy import save

    arrays: dict[str, npt.NDArray[Any]] = {}
    record = {
        "version": VERSION,
        "configuration": dict(checkpoint.configuration),
        "state": _detach_arrays(checkpoint.state, "", arrays),
    }
    data = save(arrays, metadata={"checkpoint": json.dumps(record)})
    if is_url(path):
        locations.write_whole(os.fspath(path), data, replace=True)
    else:
        write_whole(path, data, replace=True)


def checkpoint_exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint."""
    return locations.exists(os.fspath(path)) if is_url(path) else os.path.exists(path)


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Inverse of :func:`save_checkpoint`.

    Raises
    ------
    InvalidInputError
        If the file is missing or is no checkpoint of this release.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not is_url(path) and is_special(path):
        raise InvalidInputError(f"{os.fspath(path)}: cannot read the checkpoint: it is no file")
    try:
        with locations.opened(os.fspath(path)) if is_url(path) else open(path, "rb") as file:
            data = read_up_to(file, _MOST_BYTES)
        arrays = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        record = json.loads(header["__metadata__"]["checkpoint"])
        saved = Saved("checkpoint", record, ("version", "configuration", "state"))
        if saved.value("version") != VERSION:
            saved.refuse("version", str(VERSION))
        configuration = saved.mapping("configuration")
        return Checkpoint(
            {key: _attach_arrays(configuration.value(key), {}) for key in configuration.keys},
            _attach_arrays(saved.value("state"), arrays),
        )
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInputError(f"{path}: cannot read the checkpoint: {reason}") from error
    except (SafetensorError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise not_a_checkpoint(path, error) from error


def not_a_checkpoint(path: str | os.PathLike[str], reason: Exception) -> InvalidInputError:
    """Return the error that says why a file cannot be resumed from."""
    return InvalidInputError(
        f"{path}: not a checkpoint of this release ({reason}); train without --resume"
    )


def check_configuration(
    path: str | os.PathLike[str], saved: Mapping[str, Any], current: Mapping[str, Any]
) -> None:
    """Refuse a checkpoint of another configuration.

    Raises
    ------
    InvalidInputError
        The message names every difference.
    """
    differences = [
        f"{key} was {saved.get(key, 'absent')}, now {current.get(key, 'absent')}"
        for key in sorted({*saved, *current})
        if saved.get(key) != current.get(key)
    ]
    if differences:
        raise InvalidInputError(
            f"{path}: checkpoint of another configuration: {'; '.join(differences)}; "
            "give the same parameters and pictures, or train without --resume"
        )


_ARRAY = "__array__"
_DEEPEST = 16


def _detach_arrays(value: Any, name: str, arrays: dict[str, npt.NDArray[Any]]) -> Any:
    """Copy a nested value, its arrays replaced by references to entries of ``arrays``."""
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        return {k: _detach_arrays(v, f"{name}.{k}".lstrip("."), arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_detach_arrays(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _attach_arrays(value: Any, arrays: dict[str, npt.NDArray[Any]], depth: int = 0) -> Any:
    """Inverse of :func:`_detach_arrays`, which refers to each array once; takes them out."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays.pop(value[_ARRAY]).copy()
        return {key: _attach_arrays(item, arrays, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_attach_arrays(item, arrays, depth + 1) for item in value]
    return value
