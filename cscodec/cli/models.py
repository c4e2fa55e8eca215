"""``cscodec models``: the models that come with the package, or any model file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cscodec.choices import DECODERS
from cscodec.cli import batch, console, options
from cscodec.cli.info import describe

if TYPE_CHECKING:
    from cscodec.evaluation.report import Cell
    from cscodec.model import Model


def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Show everything about these (names or files)."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the shipped models; with names or files, show how they were made and what they reach."""
    from cscodec.evaluation.report import text_table
    from cscodec.model import load_model, shipped_models

    loaded = [load_model(name) for name in names or shipped_models()]
    if as_json:
        batch.show_json([_record(model) for model in loaded])
    elif names:
        texts = [describe(dict(_flat(_record(model)))) for model in loaded]
        console.show("\n\n".join(texts))
    elif loaded:
        headers = ["model", "id", "measurements", "atoms", "chroma", *DECODERS]
        console.show(text_table(headers, [_row(model) for model in loaded]))
        console.say("columns refine to omp: dB, luma of held-out pictures, not quantised")
        console.say("'cscodec models NAME' shows the command, data, licence and results of one")
    else:
        console.say("no models are shipped with this installation; train one: cscodec train")


def _flat(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings, each with the names that lead to it."""
    for name, value in record.items():
        path = f"{above} {name}".lstrip()
        if isinstance(value, Mapping):
            yield from _flat(value, path)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield path, f"{len(value)} records, which --json shows"
        else:
            yield path, value


def _row(model: Model) -> list[Cell]:
    luma, chroma = model.luma.dictionary, model.chroma.dictionary
    shared = luma.shape == chroma.shape and bool((luma == chroma).all())
    results = model.metadata.get("results", {}).get("held_out", {}).get("luma", {})
    return [
        model.name,
        model.model_id.hex(),
        model.luma.num_measurements,
        model.luma.num_atoms,
        "as luma" if shared else f"{model.chroma.num_atoms} atoms",
        *(_text_of(results.get(decoder, {}).get("psnr_db")) for decoder in DECODERS),
    ]


def _text_of(psnr_db: float | None) -> Cell:
    from cscodec.evaluation.metrics import readable_db

    return None if psnr_db is None else readable_db(psnr_db)


def _record(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "model_id": model.model_id.hex(),
        "restoration_version": model.restoration_version,
        "num_measurements": model.luma.num_measurements,
        "num_atoms": model.luma.num_atoms,
        "num_chroma_atoms": model.chroma.num_atoms,
        "metadata": dict(model.metadata),
        "tables": {name: list(table.shape) for name, table in sorted(model.tables.items())},
    }
