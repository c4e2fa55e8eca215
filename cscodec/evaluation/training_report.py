"""The report of a training run: one HTML page, pictures and plots inline, no network needed.

It is drawn from the model (whose metadata hold the history of the run) and from a few held-out
planes, so it can be made again for any trained model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Pixels
from cscodec.choices import DECODERS
from cscodec.evaluation.charts import Series, line_chart, themed
from cscodec.evaluation.metrics import db_text, psnr_db
from cscodec.evaluation.pages import data_uri, render, table
from cscodec.layout import PATCH_SIZE
from cscodec.learning.validation import sense_and_restore
from cscodec.model import Model, System
from cscodec.sensing.pursuit import omp
from cscodec.transform.patches import extract_patches, remove_mean

_ZOOM = 4  # screen pixels per pixel of an atom
_MAX_CROPS = 4
_CROP_SIDE = 160


def render_report(model: Model, planes: Sequence[Pixels], *, command: str = "") -> str:
    """Return the page as HTML.

    Parameters
    ----------
    model : Model
        Trained by :func:`cscodec.learning.trainer.train`.
    planes : sequence of ndarray, (H, W) uint8
        Luma planes that were held out: usage of atoms and crops before and after are theirs.
    command : str
        As it was typed; by default the one that the model records.
    """
    metadata = model.metadata
    configuration, results = metadata.get("configuration", {}), metadata.get("results", {})
    sparsity = int(configuration.get("sparsity", 4))
    systems = [_system_section("Luma", model.luma, planes, sparsity)]
    if not np.array_equal(model.chroma.dictionary, model.luma.dictionary):
        systems.append(_system_section("Chroma", model.chroma, [], sparsity))
    recorded = [*configuration.items(), *metadata.get("data", {}).items()]
    return render(
        "training.html",
        "training.css",
        title=f"Training report: {model.name}",
        command=escape(command or str(metadata.get("command", ""))),
        protocol=escape(str(results.get("protocol", ""))),
        results=_results_table(results.get("held_out", {})),
        progress=_progress_section(results.get("history", {})),
        systems="\n".join(systems),
        measurements=str(model.luma.num_measurements),
        crops=_crops(model.luma, planes, sparsity),
        configuration=table(["", ""], recorded, words=True),
        id=model.model_id.hex(),
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


def _results_table(held_out: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    rows = [
        (f"{channel}, {decoder}", db_text(quality["psnr_db"]), f"{quality['ssim']:.4f}")
        for channel, decoders in held_out.items()
        for decoder, quality in decoders.items()
    ]
    return table(["Planes, decoder", "PSNR, dB", "SSIM"], rows)


def _progress_section(history: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    charts = []
    for key, label in (("psnr_db", "PSNR, dB"), ("ssim", "SSIM"), ("objective", "objective")):
        series = [
            Series(channel, [(row["iteration"], row[key]) for row in rows if key in row])
            for channel, rows in history.items()
        ]
        if any(line.points for line in series):
            charts.append(_chart(series, f"{label} while it learned", "iteration", label))
    return f'<h2>Progress</h2>\n<div class="charts">{"".join(charts)}</div>' if charts else ""


def _system_section(name: str, system: System, planes: Sequence[Pixels], sparsity: int) -> str:
    equivalent = system.sensing_matrix @ system.dictionary
    spectra = [
        Series(label, list(enumerate(np.linalg.svd(matrix, compute_uv=False).tolist(), 1)))
        for label, matrix in (("Ψ", system.dictionary), ("ΦΨ", equivalent))
    ]
    charts = []
    atoms, caption = system.dictionary.T, "Atoms of Ψ"
    if planes:
        usage = _atom_usage(system, planes, sparsity)
        order = np.argsort(-usage, kind="stable")
        atoms, caption = atoms[order], "Atoms of Ψ, the most used on held-out pictures first"
        ranked = list(enumerate((100 * usage[order]).tolist(), 1))
        charts.append(_chart([Series("usage", ranked)], "Usage of atoms", "atom", "% of all uses"))
    charts.append(_chart(spectra, "Singular values", "index", "value"))
    columns = int(np.ceil(np.sqrt(len(atoms))))
    rows = system.sensing_matrix
    return (
        f'<h2>{name}</h2>\n<div class="charts">{"".join(charts)}</div>\n<div class="mosaics">'
        + _image(tile_patches(atoms, columns), caption, _ZOOM)
        + _image(
            tile_patches(rows, min(10, len(rows))), "Rows of Φ, by falling singular value", _ZOOM
        )
        + "</div>"
    )


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


def _crops(system: System, planes: Sequence[Pixels], sparsity: int) -> str:
    parts = []
    for plane in planes[:_MAX_CROPS]:
        top, left = ((side - min(side, _CROP_SIDE)) // 2 for side in plane.shape)
        crop = plane[top : top + _CROP_SIDE, left : left + _CROP_SIDE]
        figures = [_image(crop, "original")]
        for decoder in DECODERS:
            restored = sense_and_restore(crop, system, decoder, sparsity=sparsity)
            figures.append(
                _image(restored, f"{decoder}: {db_text(psnr_db(crop, restored), ' dB')}")
            )
        parts.append(f'<div class="crops">{"".join(figures)}</div>')
    return "\n".join(parts)


def _chart(series: Sequence[Series], title: str, x_label: str, y_label: str) -> str:
    svg = line_chart(series, title=title, x_label=x_label, y_label=y_label)
    return f"<figure>{themed(svg)}</figure>"


def _image(pixels: Pixels, caption: str, zoom: int = 1) -> str:
    height, width = (side * zoom for side in pixels.shape)
    return (
        f'<figure><img src="{data_uri(pixels)}" width="{width}" height="{height}" '
        f'alt="{escape(caption)}"><figcaption>{escape(caption)}</figcaption></figure>'
    )
