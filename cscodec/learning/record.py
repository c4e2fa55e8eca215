"""The finished model: what was learned, and the record of how, without clocks or paths."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import list_pictures, writable
from cscodec.learning.options import TrainingOptions
from cscodec.learning.validation import PROTOCOL, measure_decoders, read_planes
from cscodec.model import Model, System

_WHOLE = 1 << 16  # pixels; no side of a test picture is longer


def make_model(
    name: str,
    options: TrainingOptions,
    systems: Mapping[str, System],
    *,
    data: Mapping[str, Any],
    held_out: Mapping[str, Any],
    history: Mapping[str, Any],
) -> Model:
    """Join systems and record to a model.

    Parameters
    ----------
    name : str
    options : TrainingOptions
    systems : mapping
        ``luma``, and ``chroma`` if it has a system of its own.
    data : mapping
        About the pictures: ``folders`` (names), ``licence`` and counts.
    held_out, history : mapping
        Quality on held-out pictures in the end and on the way, by channel.
    """
    metadata = {
        "description": options.description(),
        "command": options.command(data["folders"], f"{name}.safetensors", licence=data["licence"]),
        "configuration": options.as_dict(),
        "data": dict(data),
        "results": {"protocol": PROTOCOL, "held_out": held_out, "history": history},
    }
    luma = systems["luma"]
    return Model(name, luma, systems.get("chroma", luma), metadata=metadata)


def record_test(
    model: Model, folder: str | os.PathLike[str], sparsity: int, max_pixels: int
) -> Model:
    """Measure a model on the luma of whole pictures; return it with the result recorded.

    Raises
    ------
    InvalidInputError
        If the folder holds no picture that can be used.
    """
    pictures = list_pictures([folder])
    skipped: dict[str, str] = {}
    planes = read_planes(pictures, "luma", max_side=_WHOLE, max_pixels=max_pixels, skipped=skipped)
    if not planes:
        raise InvalidInputError(f"{folder}: none of the {len(pictures)} pictures can be used")
    test: dict[str, Any] = {
        "folder": writable(Path(folder).resolve().name),
        "num_pictures": len(planes),
        "skipped_pictures": skipped,
        "luma": measure_decoders(planes, model.luma, sparsity=sparsity),
    }
    results = {**model.metadata["results"], "test": test}
    command = f"{model.metadata['command']} --test-folder {shlex.quote(test['folder'])}"
    return replace(model, metadata={**model.metadata, "command": command, "results": results})


def describe_data(
    folders: Sequence[str | os.PathLike[str]],
    licence: str,
    num_pictures: tuple[int, int],
    skipped_pictures: Mapping[str, str],
    skipped_patches: Mapping[str, int],
) -> dict[str, Any]:
    """Return what a model records of the pictures; ``num_pictures`` trained on and held out."""
    return {
        "folders": [writable(Path(folder).resolve().name) for folder in folders],
        "licence": licence,
        "num_pictures": num_pictures[0],
        "num_held_out": num_pictures[1],
        "skipped_pictures": dict(sorted(skipped_pictures.items())),
        "skipped_patches": dict(skipped_patches),
    }
