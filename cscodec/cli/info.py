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
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    as_json: options.Json = False,
) -> None:
    """Show size, rate, model, step, layers and metadata of .csc files."""
    import cscodec

    found = expand(inputs, {SUFFIX}, recursive)
    batch.say_left_out(found.left_out)
    records = batch.say_refused(found.refused)
    shown = False
    for source, _ in found.files:
        try:
            header = cscodec.info(files.read_stream(source, max_pixels), max_pixels=max_pixels)
            record: batch.Record = {"file": source, **header.as_dict()}
            if not as_json:
                console.show(("\n" if shown else "") + _describe(record))
                shown = True
        except cscodec.CscodecError as error:
            text = console.reason(error, source)
            console.say(text)
            record = {"file": source, "error": text, "exit_code": int(console.exit_code(error))}
        records.append(record)
    if as_json:
        batch.show_json(records)
    batch.finish(batch.codes(records))


def _describe(record: Mapping[str, Any]) -> str:
    width = max(map(len, record))
    return "\n".join(
        f"{name.replace('_', ' ').ljust(width)}  {_text(value)}" for name, value in record.items()
    )


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return " ".join(map(_text, value))
    return str(value)
