"""The report of a training run: one HTML page, pictures and plots inline, no network needed.

It is drawn from the model (whose metadata hold the history of the run) and from a few held-out
planes, so it can be made again for any trained model.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Pixels
from cscodec.atomic import write_whole
from cscodec.choices import DECODERS
from cscodec.evaluation.report import Series, line_chart
from cscodec.images import Picture, write_picture
from cscodec.layout import PATCH_SIZE
from cscodec.learning.validation import sense_and_restore
from cscodec.model import Model, System
from cscodec.sensing.pursuit import omp
from cscodec.transform.patches import extract_patches, remove_mean

PAGE_NAME = "index.html"
_ZOOM = 4  # screen pixels per pixel of an atom
_MAX_CROPS = 4
_CROP_SIDE = 160

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #222; background: #fff }
h1, h2, h3 { line-height: 1.2 } h2 { margin-top: 2.5rem }
table { border-collapse: collapse } td, th { padding: .2rem .8rem; text-align: left;
  border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
figure { display: inline-block; margin: 0 1rem 1rem 0; vertical-align: top }
figcaption { font-size: .85rem; color: #555 }
img { image-rendering: pixelated; max-width: 100% }
svg { max-width: 36rem; height: auto }
code { overflow-wrap: anywhere }
"""


def write_report(model: Model, planes: Sequence[Pixels], folder: str | os.PathLike[str]) -> Path:
    """Write ``index.html`` in ``folder``, which is made if need be, and return its path.

    Parameters
    ----------
    model : Model
        Trained by :func:`cscodec.learning.trainer.train`.
    planes : sequence of ndarray, (H, W) uint8
        Luma planes that were held out: usage of atoms and crops before and after are theirs.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path = Path(folder) / PAGE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render_report(model, planes).encode(), replace=True)
    return path


def render_report(model: Model, planes: Sequence[Pixels]) -> str:
    """Return the page as HTML."""
    metadata = model.metadata
    configuration = metadata.get("configuration", {})
    sparsity = int(configuration.get("sparsity", 4))
    title = f"Training report: {model.name}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p><code>{escape(str(metadata.get('command', '')))}</code></p>",
        _results_section(metadata.get("results", {})),
        _history_section(metadata.get("results", {}).get("history", {})),
        _system_section("Luma", model.luma, planes, sparsity),
    ]
    if not np.array_equal(model.chroma.dictionary, model.luma.dictionary):
        parts.append(_system_section("Chroma", model.chroma, [], sparsity))
    parts += [
        _crops_section(model.luma, planes, sparsity),
        "<h2>Configuration and data</h2>",
        _table(["", ""], [*configuration.items(), *metadata.get("data", {}).items()]),
        f"<p>Model id {model.model_id.hex()}.</p>",
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def tile_patches(patches: npt.ArrayLike, columns: int) -> Pixels:
    """Lay patches out as a mosaic, each stretched to its own largest magnitude.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Atoms, or rows of Φ.

    Returns
    -------
    ndarray, (rows * 9 + 1, columns * 9 + 1) uint8
        Zero is mid gray; lines of one pixel part the patches.
    """
    blocks = np.asarray(patches, np.float64)
    peaks = np.abs(blocks).max(axis=1, keepdims=True)
    blocks = np.rint(127.5 + 127.5 * blocks / np.where(peaks > 0, peaks, 1))
    cell = PATCH_SIZE + 1
    rows = -(-len(blocks) // columns)
    mosaic = np.full((rows * cell + 1, columns * cell + 1), 255, np.uint8)
    for i, block in enumerate(blocks):
        top, left = (1 + cell * place for place in divmod(i, columns))
        mosaic[top : top + PATCH_SIZE, left : left + PATCH_SIZE] = block.reshape(PATCH_SIZE, -1)
    return mosaic


def _results_section(results: dict[str, Any]) -> str:
    held_out = results.get("held_out", {})
    rows = [
        (channel, decoder, f"{quality['psnr_db']:.2f}", f"{quality['ssim']:.4f}")
        for channel, decoders in held_out.items()
        for decoder, quality in decoders.items()
    ]
    protocol = escape(str(results.get("protocol", "")))
    heads = ["channel", "decoder", "PSNR (dB)", "SSIM"]
    return f"<h2>Held-out pictures</h2><p>{protocol}</p>" + _table(heads, rows)


def _history_section(history: dict[str, list[dict[str, float]]]) -> str:
    parts = ["<h2>Progress</h2>"]
    for key, label in (("psnr_db", "PSNR (dB)"), ("ssim", "SSIM"), ("objective", "objective")):
        series = [
            Series(channel, [(row["iteration"], row[key]) for row in rows if key in row])
            for channel, rows in history.items()
        ]
        if any(line.points for line in series):
            parts.append(_chart(series, f"{label} against iteration", "iteration", label))
    return "\n".join(parts)


def _system_section(name: str, system: System, planes: Sequence[Pixels], sparsity: int) -> str:
    equivalent = system.sensing_matrix @ system.dictionary
    spectra = [
        Series(label, list(enumerate(np.linalg.svd(matrix, compute_uv=False).tolist(), 1)))
        for label, matrix in (("Ψ", system.dictionary), ("ΦΨ", equivalent))
    ]
    parts = [f"<h2>{name}</h2>"]
    atoms, caption = system.dictionary.T, "Atoms of Ψ"
    if planes:
        usage = _atom_usage(system, planes, sparsity)
        order = np.argsort(-usage, kind="stable")
        atoms, caption = atoms[order], "Atoms of Ψ, the most used on held-out pictures first"
        ranked = list(enumerate((100 * usage[order]).tolist(), 1))
        axis = "share of uses (%)"
        parts.append(_chart([Series("usage", ranked)], "Usage of atoms", "atom", axis))
    parts.append(_chart(spectra, "Singular values", "index", "value"))
    columns = int(np.ceil(np.sqrt(len(atoms))))
    rows = system.sensing_matrix
    parts.append("<div>" + _image(tile_patches(atoms, columns), caption, _ZOOM))
    mosaic = tile_patches(rows, min(10, len(rows)))
    parts.append(_image(mosaic, "Rows of Φ, by falling singular value", _ZOOM) + "</div>")
    return "\n".join(parts)


def _atom_usage(system: System, planes: Sequence[Pixels], sparsity: int) -> npt.NDArray[np.float64]:
    """Share of each atom in the uses of all, over the patches of planes, (L,)."""
    equivalent = system.sensing_matrix @ system.dictionary
    counts = np.zeros(system.num_atoms)
    for plane in planes:
        patches, _ = remove_mean(extract_patches(plane))
        measurements = patches @ system.sensing_matrix.T
        indices = omp(measurements, equivalent, sparsity=sparsity).indices
        counts += np.bincount(indices[indices >= 0], minlength=system.num_atoms)
    shares: npt.NDArray[np.float64] = counts / max(counts.sum(), 1)
    return shares


def _crops_section(system: System, planes: Sequence[Pixels], sparsity: int) -> str:
    parts = [f"<h2>Before and after: {system.num_measurements} measurements a patch</h2>"]
    for plane in planes[:_MAX_CROPS]:
        top, left = ((side - min(side, _CROP_SIDE)) // 2 for side in plane.shape)
        crop = plane[top : top + _CROP_SIDE, left : left + _CROP_SIDE]
        parts.append("<div>" + _image(crop, "original", 1))
        for decoder in DECODERS:
            restored = sense_and_restore(crop, system, decoder, sparsity=sparsity)
            parts.append(_image(restored, decoder, 1))
        parts.append("</div>")
    return "\n".join(parts)


def _chart(series: Sequence[Series], title: str, x_label: str, y_label: str) -> str:
    return (
        "<figure>"
        + line_chart(series, title=title, x_label=x_label, y_label=y_label)
        + ("</figure>")
    )


def _image(pixels: Pixels, caption: str, zoom: int) -> str:
    data = base64.b64encode(write_picture(Picture(pixels), ".png")).decode()
    height, width = (side * zoom for side in pixels.shape)
    return (
        f'<figure><img src="data:image/png;base64,{data}" width="{width}" height="{height}" '
        f'alt="{escape(caption)}"><figcaption>{escape(caption)}</figcaption></figure>'
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
