"""Where the files are that come with the package: models, and the restorer's weights."""

from __future__ import annotations

from pathlib import Path


def shipped_folder() -> Path | None:
    """Folder of the shipped models: the package's own, or in a checkout the one beside it."""
    package = Path(__file__).parent
    for folder in (package / "_models", package.parent / "models"):
        if folder.is_dir():
            return folder
    return None
