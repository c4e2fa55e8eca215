"""The manual page, from what the commands say of themselves: ``cscodec --man``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cscodec import __version__
from cscodec.cli.console import MEANINGS


def manual_page(root: Any) -> str:
    """Return the manual page, section 1, in roff's man macros.

    Parameters
    ----------
    root : click.Group
        The commands, as Typer makes them.
    """
    with root.make_context("cscodec", [], resilient_parsing=True) as context:
        summary = _text(root.help or "")
        lines = [
            f'.TH CSCODEC 1 "" "cscodec {__version__}" "User Commands"',
            ".SH NAME",
            rf"cscodec \- {summary[:1].lower()}{summary[1:].rstrip('.')}",
            ".SH SYNOPSIS",
            ".B cscodec",
            r"\fICOMMAND\fR [\fIOPTIONS\fR]...",
            ".SH OPTIONS",
            *_parameters(root, context),
            ".SH COMMANDS",
        ]
        for name in root.list_commands(context):
            lines += _command(name, root.get_command(context, name), context)
    lines += [".SH EXIT STATUS"]
    for code, meaning in MEANINGS.items():
        lines += [".TP", f".B {code.value}", _text(meaning)]
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any, parent: Any) -> Iterator[str]:
    with command.make_context(name, [], parent=parent, resilient_parsing=True) as context:
        yield f".SS cscodec {_text(name)} {_text(' '.join(command.collect_usage_pieces(context)))}"
        for paragraph in (command.help or "").split("\n\n"):
            yield from (".PP", _text(paragraph))
        yield from _parameters(command, context)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            names, words = record
            yield from (".TP", rf"\fB{_text(names)}\fR", _text(words))


def _text(words: str) -> str:
    """Return words as one line that roff takes as it is."""
    line = re.sub(r"\s+", " ", words.strip()).replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + line if line.startswith((".", "'")) else line
