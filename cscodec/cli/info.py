"""``cscodec info``: what .csc files say about themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cscodec.cli import batch, console, files, options
from cscodec.cli.encode import SUFFIX
from cscodec.layout import DEFAULT_MAX_PIXELS


def info(
    inputs: options.Inputs,
    recursive: options.Recursive = False,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    as_json: options.Json = False,
) -> None:
    """Show size, rate, model, step, layers and metadata of .csc files."""
    import cscodec

    records: list[Mapping[str, Any]] = []
    failures: list[console.Exit] = []
    for source, _ in files.expand(inputs, [SUFFIX], recursive):
        try:
            header = cscodec.info(files.read_bytes(source), max_pixels=max_pixels)
            record = {"file": source, **header.as_dict()}
            if not as_json:
                console.show(("\n" if records else "") + _describe(record))
        except cscodec.CscodecError as error:
            text = console.reason(error, source)
            console.say(text)
            failures.append(console.exit_code(error))
            record = {"file": source, "error": text, "exit_code": int(failures[-1])}
        records.append(record)
    if as_json:
        batch.show_json(records)
    batch.finish(failures)


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
