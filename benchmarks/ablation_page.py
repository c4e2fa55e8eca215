"""docs/ablation.md from the record of ablation.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cscodec.evaluation import report
from cscodec.model import load_model

COLUMNS = (
    ("table2", "psnr_y_db", "gray, PSNR"),
    ("table2", "ssim", "gray, SSIM"),
    ("kodak12", "psnr_y_db", "colour, PSNR of Y'"),
    ("kodak12", "psnr_rgb_db", "colour, PSNR over RGB"),
)


def page(record: Mapping[str, Any]) -> str:
    """Return docs/ablation.md."""
    rows: list[list[report.Cell]] = []
    for row in record["variants"]:
        cells: list[report.Cell] = [row["part"], row["instead"]]
        for name, quality, _ in COLUMNS:
            rate = row["bd_rate_percent"].get(name, {}).get(quality, {}).get("mean")
            text = "" if rate is None else f"{rate:+.1f}"
            cells.append(text + ("*" if text and row["against"] == "relearned" else ""))
        rows.append(cells)
    table = report.markdown_table(["without", "instead", *(label for _, _, label in COLUMNS)], rows)
    machine = record["machine"]
    return PAGE_TEXT.format(
        table=table,
        table2=len(record["pictures"]["table2"]),
        kodak12=", ".join(name.removeprefix("kodim") for name in record["pictures"]["kodak12"]),
        steps=", ".join(f"{step:g}" for step in record["steps"]),
        low=record["rate_range_bpp"][0],
        high=record["rate_range_bpp"][1],
        model=record["model"],
        model_id=record["model_id"] + _age(record),
        crops=record["num_training_crops"],
        layers=100 * record["largest_layer_cost"],
        machine=f"{machine['cpu']}, {machine['cpus']} CPUs",
    )


def _age(record: Mapping[str, Any]) -> str:
    """Say so if another model is shipped than the one that was measured."""
    shipped = load_model(record["model"]).model_id.hex()
    return "" if shipped == record["model_id"] else f", an earlier one; shipped is {shipped}"


PAGE_TEXT = """# What each part buys

Written by `python benchmarks/ablation.py`; do not edit. All numbers, by picture, are in
[ablation.json](../benchmarks/results/ablation.json).

Each row is a codec that lacks one part and has something simpler in its place. Numbers are
BD-rates against the whole codec in per cent: how many more bytes it takes without that part to
reach the same quality, between {low} and {high} bits per pixel.

Pictures: the {table2} gray ones of table2, and numbers {kodak12} of Kodak's. Model: `{model}`
({model_id}). Tune: visual, the default. Steps: {steps}, between those that filters are learned at.

{table}

\\* These codecs have tables, and where the basis is another also filters, learned anew from
{crops} gray training pictures. They are held against the whole codec with tables and filters from
the same ones (the row "training pictures").

**Restoration.** The files are the same in all four rows, only the decoder differs. The paper's
few atoms per patch are for measurements that are missing; here none is, and what K atoms cannot
express is moved to the edges of the cells, where originals seldom are.

**Search.** It trades SSIM for PSNR: values that are dear for what they bring are texture more
often than not ([decision 0003](decisions/0003-search-weight.md)).

**Entropy coder.** What a model contributes are its predictions of magnitudes and signs, and of
means. The learned state of slots and weights is soon made up for by adapting. Mixing pays because
its weights learn: fixed and equal ones do worse than the first context, measurement and expected
magnitude, alone.

**Lapping.** What patches share with their neighbours is taken out before they are measured
([decision 0023](decisions/0023-patches-lapped-over-each-other.md)).

**Basis.** All bases hold the same 63 numbers; what differs is how many of these are large
([decision 0001](decisions/0001-quantise-in-a-sparse-basis.md)). Learning one from photographs leads
to something as good as cosines and no better.

**Layers.** A negative number is what they cost, at most {layers:.2f} % in any of these files:
checksums, lengths and ends of segments. It is exact, as states and contexts pass from layer to
layer. They also bring something, all eight neighbours to predict from: see "four neighbours coded
before". What coding patch by patch would change besides was not measured.

**Chroma at half size.** Pays in luma, and costs over RGB, where chroma counts as much.

Not measured, as it takes more than a changed line: adaptation within a picture, and a search that
only widens the cell of zero. Rows do not add up.

Machine: {machine}.
"""
