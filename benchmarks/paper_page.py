"""The page docs/paper-results.md and its pictures, from the results of benchmarks/paper.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cscodec.choices import PATCH_DECODERS
from cscodec.evaluation.charts import PALETTE, Series, line_chart
from cscodec.evaluation.metrics import psnr_db
from cscodec.evaluation.report import Cell, markdown_table
from cscodec.evaluation.training_report import tile_patches
from cscodec.learning.validation import sense_and_restore
from cscodec.model import System

Results = Mapping[str, Any]
Uint8Array = npt.NDArray[np.uint8]

NAMES = {
    "letter": "online, to the letter",
    "letter-kept": "online, printed, kept",
    "restarted": "online, exact, restarted",
    "online": "online",
    "online-large": "online, large η",
    "s-dcs": "S-DCS",
    "bl": "BL-style",
    "s-dcs-small": "S-DCS, small set",
    "robust": "robust Φ, K-SVD Ψ",
    "ksvd": "K-SVD, then φ(Ψ)",
    "mod": "MOD, then φ(Ψ)",
    "random": "Gaussian Φ, K-SVD Ψ",
    "random-dct": "Gaussian Φ, DCT Ψ",
    "pca": "PCA",
    "dct": "20 DCT coefficients",
}
JOINT = ("s-dcs-small", "s-dcs", "bl", "letter")  # the paper's columns, in its order
OURS = ("letter-kept", "restarted", "online", "online-large")  # variants of the paper's algorithm
UNDESIGNED = ("random", "random-dct")  # nobody looked at Ψ when Φ was made

#: Table 2 as printed: PSNR in dB and SSIM for S-DCS small, S-DCS, BL and the paper's algorithm.
PRINTED = {
    "lena": (33.0566, 0.9089, 33.7859, 0.9184, 33.3059, 0.9111, 34.6557, 0.9281),
    "elaine": (32.3990, 0.8073, 32.6903, 0.8145, 32.4076, 0.8043, 33.1756, 0.8244),
    "man": (31.1978, 0.8738, 31.8509, 0.8866, 31.4686, 0.8782, 32.5941, 0.8999),
    "mandrill": (23.4291, 0.7598, 23.8411, 0.7823, 23.8221, 0.7746, 24.3753, 0.8007),
    "peppers": (28.9462, 0.8877, 29.6975, 0.9005, 29.4145, 0.8925, 30.6859, 0.9169),
    "boat": (29.7350, 0.8561, 30.3488, 0.8679, 30.1027, 0.8580, 31.2858, 0.8837),
    "house": (31.5166, 0.8842, 32.0602, 0.8985, 32.0707, 0.8956, 33.0146, 0.9158),
    "cameraman": (26.2240, 0.8581, 26.8272, 0.8716, 26.4545, 0.8673, 27.4254, 0.8877),
    "barbara": (25.6148, 0.8239, 25.9153, 0.8316, 25.5165, 0.8168, 26.0835, 0.8393),
    "tank": (30.7233, 0.8252, 30.8210, 0.8369, 31.1403, 0.8361, 31.7818, 0.8576),
}
#: Table 1 as printed: seconds of CPU on a two-core laptop of 2015, and patches.
PRINTED_CPU_S = {"s-dcs-small": 27.9, "s-dcs": 1320.0, "bl": 43300.0, "letter": 154.0}
#: A system has one colour in all figures.
COLORS = dict(zip(NAMES, PALETTE, strict=False))


def write_page(
    docs: Path, results: Results, systems: Mapping[str, System], sample: Uint8Array
) -> None:
    """Write ``paper-results.md`` and the folder ``paper`` of its pictures into ``docs``.

    Parameters
    ----------
    sample : ndarray, (H, W) uint8
        A freely licensed picture to show restored by each system.
    """
    pictures = docs / "paper"
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [
        _introduction(results),
        _table_1(results),
        _table_2(results),
        _decoders(results),
        _figure_1(results, pictures),
        _figure_4(results, pictures),
        _figure_5(results, pictures),
        _fewer(results),
        _choices(results),
        _matrices(systems, pictures),
        _restored(systems, sample, pictures),
    ]
    (docs / "paper-results.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _introduction(results: Results) -> str:
    machine, schedule = results["machine"], results["schedule"]
    return f"""# The paper's tables and figures

Written by `make paper` (`benchmarks/paper.py`); do not edit. What the paper leaves open, and where
and why these results differ from its own, is in [paper.md](paper.md). All numbers are in
`benchmarks/results/paper.json`.

M = 20 measurements beside the patch mean (21 numbers per patch, as in the paper's protocol),
L = 256 atoms, K = 4. Trained on {results["num_training_pictures"]} pictures; test patches:
{results["num_test_patches"]:,} of {results["num_held_out_pictures"]} pictures held out from them.
Batch methods had {schedule["rounds"]} rounds; the `online` systems the paper's schedule,
{schedule["outer_iterations"]} × {schedule["dictionary_iterations"]} batches of 128. These differ in
two things:

| system | update of an atom | when Φ is designed anew, A and B |
| --- | --- | --- |
| {NAMES["letter"]} | as printed | start again |
| {NAMES["letter-kept"]} | as printed | go on |
| {NAMES["restarted"]} | the exact minimiser | start again |
| {NAMES["online"]} | the exact minimiser | go on |

The first is the paper's text, the last what `cscodec train` does by default.
`{NAMES["online-large"]}` is the last with batches of {schedule["large_batch"]}.

Machine: {machine["cpu"]}, {machine["cpus"]} CPUs, Python {machine["python"]}, NumPy
{machine["numpy"]}; BLAS on one thread. {results.get("note", "")}"""


def _table_1(results: Results) -> str:
    rows: list[list[Cell]] = []
    for name, label in NAMES.items():
        if name in ("dct", "random-dct"):
            continue
        found = results["systems"][name]
        seconds = found["cpu_s"]  # not measured where a machine was too busy for it
        printed = PRINTED_CPU_S.get(name)
        rows.append(
            [
                label,
                f"{found['num_patches']:,}",
                "-" if seconds is None else f"{seconds:.1f}",
                "-" if printed is None else f"{printed:,.0f}",
            ]
        )
    table = markdown_table(["system", "patches", "seconds of CPU", "printed (their laptop)"], rows)
    return f"""## Table 1: what training costs

{table}

Patches are those in the training set of a batch method, which sweeps them in every round, and
those drawn in all by `online`. Reading pictures and measuring test patches are not counted.
`robust` was given K-SVD's dictionary, whose cost is its own row's."""


def _table_2(results: Results) -> str:
    headers = ["picture"]
    for name in JOINT:
        headers += [NAMES[name], "printed"]
    headers += [NAMES[name] for name in OURS]
    rows: dict[str, list[list[Cell]]] = {"psnr_db": [], "ssim": []}
    for offset, (measure, table) in enumerate(rows.items()):
        columns = []
        for place, name in enumerate(JOINT):
            columns.append(_column(results, name, measure))
            columns.append([row[2 * place + offset] for row in PRINTED.values()])
        columns += [_column(results, name, measure) for name in OURS]
        table += [[name, *values] for name, *values in zip(PRINTED, *columns, strict=True)]
        table.append(["mean", *(float(np.mean(column)) for column in columns)])
    return f"""## Table 2: the paper's decoder (OMP, K = 4)

PSNR in dB:

{markdown_table(headers, rows["psnr_db"])}

SSIM:

{markdown_table(headers, rows["ssim"], digits=4)}

Ours are measured on 8-bit output. The last columns have no printed counterpart.
{_distances(results)}"""


def _column(results: Results, name: str, measure: str) -> list[float]:
    found = results["systems"][name]["table2"]["omp"]
    return [found[picture][measure] for picture in PRINTED]


def _distances(results: Results) -> str:
    sentences = []
    for name in ("letter", *OURS):
        found = zip(PRINTED, _column(results, name, "psnr_db"), PRINTED.values(), strict=True)
        away = [f"{p} ({ours - row[6]:+.2f})" for p, ours, row in found if abs(ours - row[6]) > 1]
        listed = ", ".join(away) or "none"
        sentences.append(
            f"More than 1 dB from the printed value of CS_Alg3, `{NAMES[name]}`: {listed}."
        )
    return " ".join(sentences)


def _decoders(results: Results) -> str:
    decoders = (*PATCH_DECODERS, "refine", "learned")
    rows: list[list[Cell]] = []
    for name, label in NAMES.items():
        found = results["systems"][name]["table2"]
        row: list[Cell] = [
            f"{_mean(found[decoder], 'psnr_db'):.2f} / {_mean(found[decoder], 'ssim'):.3f}"
            if decoder in found
            else None
            for decoder in decoders
        ]
        rows.append([label, *row])
    best = results["systems"]["online"]["table2"]
    pictures: list[list[Cell]] = [
        [
            picture,
            *(
                f"{best[decoder][picture]['psnr_db']:.2f} / {best[decoder][picture]['ssim']:.3f}"
                for decoder in decoders
            ),
            *(best[decoder][picture]["seconds"] for decoder in decoders[-2:]),
        ]
        for picture in PRINTED
    ]
    return f"""## Every system, every decoder

Mean over the ten pictures, PSNR in dB / SSIM; the same measurements in each row:

{markdown_table(["system", *decoders], rows)}

`omp` is the paper's decoder. `linear` is the pseudo-inverse of Φ and knows nothing of sparsity; it
is ahead of `omp` in {_linear_wins(results)} rows whose Φ was designed, which the paper does
not show. PCA and the DCT have no atoms but the rows of Φ: `linear` is how they are meant to be
decoded. By picture, `{NAMES["online"]}`:

{markdown_table(["picture", *decoders, "seconds of refine", "of learned"], pictures)}"""


def _linear_wins(results: Results) -> str:
    designed = [found["table2"] for n, found in results["systems"].items() if n not in UNDESIGNED]
    ahead = sum(_mean(t["linear"], "psnr_db") > _mean(t["omp"], "psnr_db") for t in designed)
    return f"{ahead} of {len(designed)}"


def _figure_1(results: Results, folder: Path) -> str:
    systems = results["systems"]
    by_schedule, by_cost = [], []
    for name in ("online", "letter", "restarted", "s-dcs", "bl", "s-dcs-small"):
        curve = systems[name]["curve"]
        points = [(100 * iteration / curve[-1][0], quality) for iteration, _, quality in curve]
        by_schedule.append(_series(name, points))
    for name in ("online", "letter", "restarted", "online-large", "s-dcs", "bl", "ksvd", "mod"):
        if systems[name]["cpu_s"] is None:
            continue
        points = [(seconds, quality) for _, seconds, quality in systems[name]["curve"]]
        by_cost.append(_series(name, points))
    chart = line_chart(
        by_schedule,
        title="PSNR on test patches (OMP, K = 4)",
        x_label="per cent of the system's iterations",
        y_label="dB",
    )
    (folder / "figure-1.svg").write_text(chart, encoding="utf-8")
    chart = line_chart(
        by_cost,
        title="PSNR on test patches against cost",
        x_label="seconds of CPU",
        y_label="dB",
    )
    (folder / "figure-1-cost.svg").write_text(chart, encoding="utf-8")
    rows: list[list[Cell]] = [
        [label, systems[name]["test_psnr_db"], systems[name]["test_psnr_db_linear"]]
        for name, label in NAMES.items()
    ]
    return f"""## Figure 1: while they learn

![PSNR against iterations](paper/figure-1.svg)

![PSNR against seconds](paper/figure-1-cost.svg)

On the test patches when done, in dB, for all systems (those without a curve do not iterate):

{markdown_table(["system", "omp", "linear"], rows)}"""


def _series(name: str, points: Sequence[tuple[float, float]]) -> Series:
    label = NAMES[name].partition(", then")[0].removeprefix("online, ")
    return Series(label, points, COLORS[name])


def _figure_4(results: Results, folder: Path) -> str:
    convergence, schedule = results["convergence"], results["schedule"]
    for name, label, key in (
        ("figure-4-objective", "σ(Ψ, Θ) per patch", "objective"),
        ("figure-4-psnr", "dB", "psnr_db"),
    ):
        chart = line_chart(
            [_series(variant, found[key]) for variant, found in convergence.items()],
            title=f"{'Objective' if key == 'objective' else 'PSNR'} on test patches",
            x_label="dictionary iteration",
            y_label=label,
        )
        (folder / f"{name}.svg").write_text(chart, encoding="utf-8")
    per_outer, outer = schedule["dictionary_iterations"], schedule["outer_iterations"]
    planned, rows = per_outer * outer, []
    for variant, found in convergence.items():
        quality = {int(iteration): value for iteration, value in found["psnr_db"]}
        first = [quality[per_outer], quality[per_outer + 1], quality[2 * per_outer]]
        falls = [quality[n * per_outer] - quality[n * per_outer + 1] for n in range(2, outer)]
        last = [quality[planned], found["psnr_db"][-1][1]]
        rows.append([NAMES[variant], *first, float(np.mean(falls)), *last])
    headers = [f"after {n:,}" for n in (per_outer, per_outer + 1, 2 * per_outer)]
    headers += ["mean fall at a later Φ", f"after {planned:,}", "in the end"]
    return f"""## Figure 4: convergence

![Objective](paper/figure-4-objective.svg)

![PSNR](paper/figure-4-psnr.svg)

The paper's schedule, then {schedule["further_iterations"]:,} further dictionary iterations with Φ
as it is, as many as the authors' program makes by default. The objective is that of the present
Φ, so it steps where Φ changes, every {per_outer:,} iterations; PSNR is that of the Φ in use, which
lags behind Ψ until its next design. In dB:

{markdown_table(["system", *headers], rows)}"""


def _figure_5(results: Results, folder: Path) -> str:
    convergence = results["convergence"]
    window = max(1, results["schedule"]["dictionary_iterations"] // 10)
    chart = line_chart(
        [
            _series(
                variant,
                [(first, math.log10(max(change, 1e-9))) for first, change in found["change"]],
            )
            for variant, found in convergence.items()
        ],
        title="Change of the dictionary in one iteration",
        x_label="dictionary iteration",
        y_label="log₁₀ of the Frobenius norm",
    )
    (folder / "figure-5.svg").write_text(chart, encoding="utf-8")
    return f"""## Figure 5: how far the dictionary moves

![Change of the dictionary](paper/figure-5.svg)

The largest change in windows of {window} iterations. Where A and B start again, each new Φ throws
the dictionary about; where they go on, it hardly notices."""


def _fewer(results: Results) -> str:
    rows = [[r["measurements"], r["sparsity"], r["omp"], r["linear"]] for r in results["fewer"]]
    ahead = sum(r["linear"] > r["omp"] for r in results["fewer"])
    return f"""## Fewer measurements, and more

`{NAMES["online"]}` by the number of measurements M, learned and decoded with K atoms; mean over
the ten pictures, in dB:

{markdown_table(["M", "K", "omp", "linear"], rows)}

With few measurements an atom may be nearly invisible to Φ, and OMP that may take four of them
explains what little it sees by large amounts of what it does not. So K follows M by default, as
max(1, M // 5), which is the paper's 4 for its 20. `linear` is ahead of `omp` in {ahead} of
{len(rows)} rows."""


def _choices(results: Results) -> str:
    rows: list[list[Cell]] = []
    for choice in results["choices"]:
        label = NAMES["bl" if choice["method"] == "bl" else "s-dcs-small"]
        change = ", ".join(f"{key} = {_value(value)}" for key, value in choice["change"].items())
        found = choice["psnr_db"]
        rows.append([label, change or "as above", float(np.mean(found)), min(found), max(found)])
    tried = results["systems"]["robust"]["history"]
    best = max(tried, key=lambda row: row["psnr_db"])
    return f"""## What the sources leave open

Trained on {results["schedule"]["draws"]} draws of 6,000 patches of their own; dB on validation
patches (OMP, K = 4), which are not the test patches:

{markdown_table(["system", "changed", "mean", "lowest", "highest"], rows)}

`robust` tried {len(tried)} values of λ, from {tried[0]["penalty"]:.3g} to
{tried[-1]["penalty"]:.3g}, by gradient descent. On validation patches the first gave
{tried[0]["psnr_db"]:.2f} dB, the last {tried[-1]["psnr_db"]:.2f} dB, and
λ = {best["penalty"]:.3g} the best: {best["psnr_db"]:.2f} dB."""


def _value(value: str | float) -> str:
    return f"1/{1 / value:.0f}" if isinstance(value, float) and value < 0.05 else str(value)


def _matrices(systems: Mapping[str, System], folder: Path) -> str:
    lines = []
    for name in ("letter", "online", "s-dcs", "bl"):
        system = systems[name]
        usual = np.argsort(-np.abs(system.basis @ system.dictionary)[:5].max(axis=0), kind="stable")
        _save(folder / f"atoms-{name}.png", tile_patches(system.dictionary.T[usual], 32), 2)
        _save(folder / f"rows-{name}.png", tile_patches(system.sensing_matrix, 10), 3)
        lines.append(
            f"{NAMES[name]}:\n\n![Rows of Φ](paper/rows-{name}.png)\n\n"
            f"![Atoms of Ψ](paper/atoms-{name}.png)"
        )
    return """## Rows of Φ and atoms of Ψ

Each stretched to its own range, gray is zero; the 20 rows of Φ, then the 256 atoms, smooth ones
first.

""" + "\n\n".join(lines)


def _restored(systems: Mapping[str, System], sample: Uint8Array, folder: Path) -> str:
    crop = sample[96:352, 200:456]  # motorcycles: edges and fine texture
    _save(folder / "restored-original.png", crop, 1)
    shown = [
        ("s-dcs-small", "omp"),
        ("s-dcs", "omp"),
        ("bl", "omp"),
        ("letter", "omp"),
        ("online", "omp"),
        ("online", "linear"),
        ("online", "refine"),
        ("online", "learned"),
    ]
    cells = ["![original](paper/restored-original.png)<br>original"]
    for name, decoder in shown:
        restored = sense_and_restore(crop, systems[name], decoder)
        _save(folder / f"restored-{name}-{decoder}.png", restored, 1)
        cells.append(
            f"![{name} {decoder}](paper/restored-{name}-{decoder}.png)<br>"
            f"{NAMES[name]}, {decoder}: {psnr_db(crop, restored):.2f} dB"
        )
    return f"""## Restored

The paper shows Lena and Mandrill here. Those pictures are not free, so the page shows a part of
Kodak's picture 5; `python benchmarks/paper.py --pictures DIR` writes the paper's two, restored by
every system, to a folder of yours.

{_grid(cells, 4)}"""


def _grid(cells: Sequence[str], columns: int) -> str:
    lines = ["| " * columns + "|", "| --- " * columns + "|"]
    lines += [
        "| " + " | ".join(cells[start : start + columns]) + " |"
        for start in range(0, len(cells), columns)
    ]
    return "\n".join(lines)


def _mean(found: Mapping[str, Mapping[str, float]], measure: str) -> float:
    return float(np.mean([row[measure] for row in found.values()]))


def _save(path: Path, pixels: Uint8Array, zoom: int) -> None:
    enlarged = np.kron(pixels, np.ones((zoom, zoom), np.uint8))
    Image.fromarray(enlarged).save(path, optimize=True)
