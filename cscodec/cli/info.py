"""``cscodec info``: what .csc files say about themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cscodec.cli import batch, console, files, options
from cscodec.cli.encode import SUFFIX
from cscodec.cli.plan import expand
from cscodec.layout import DEFAULT_MAX_PIXELS


def info(
    inputs: options.Inputs,
    recursive: options.Recursive = False,
    allow_partial: options.AllowPartial = False,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    as_json: options.Json = False,
) -> None:
    """Show size, rate, model, step, layers and metadata of .csc files."""
    import cscodec

    found = expand(inputs, {SUFFIX}, recursive)
    batch.say_left_out(found.left_out)
    records = [{"file": record["input"], **record} for record in batch.say_refused(found.refused)]
    shown = False
    for source, _ in found.files:
        try:
            data = files.read_stream(source, max_pixels)
            header = files.inspected(data, allow_partial=allow_partial, max_pixels=max_pixels)
            record = {"file": source, **header.as_dict()}
            if not as_json:
                console.show(("\n" if shown else "") + describe(record))
                shown = True
        except cscodec.CscodecError as error:
            record = {"file": source, **batch.failure(source, error)}
            console.say(record["error"])
        records.append(record)
    if as_json:
        batch.show_json(records)
    batch.finish(batch.codes(records))


def describe(record: Mapping[str, Any]) -> str:
    """Return names and values as lines in two columns."""
    width = max(map(len, record))
    return "\n".join(
        f"{name.replace('_', ' ').ljust(width)}  {_text(value)}" for name, value in record.items()
    )


def _text(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        texts = [_text(item) for item in value]
        return (", " if any(" " in text for text in texts) else " ").join(texts)
    return str(value)
