"""The build hook: kernels into wheels.

A wheel built from source has the kernels of this machine's processor. With CSCODEC_PLATFORM in the
environment it has those of every level of that platform, which may be another (``make wheel``).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LINKER = "ziglang==0.17.1"
_PLATFORM = "CSCODEC_PLATFORM"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles kernels before the files of a wheel are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask for a linker where the machine has none, or none for the platform."""
        return [] if shutil.which("cc") and _PLATFORM not in os.environ else [LINKER]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what the wheel holds and where it runs."""
        sys.path.insert(0, self.root)
        from building.libraries import PLATFORMS, build, own_level, own_platform
        from cscodec.kernels.library import LEVELS, digest_path

        platform = os.environ.get(_PLATFORM) or own_platform()
        if platform not in PLATFORMS:
            raise SystemExit(f"{_PLATFORM} is {platform!r}; allowed are {', '.join(PLATFORMS)}")
        every = LEVELS[PLATFORMS[platform].machine]
        levels = every if _PLATFORM in os.environ else (own_level(),)
        libraries = build(platform, levels)
        if version == "editable":
            return  # the checkout's own folder is used
        build_data["pure_python"] = False
        # Not what indexes take for a release, unless it is made to be one.
        own = re.sub(r"[-.]", "_", sysconfig.get_platform())
        build_data["tag"] = f"py3-none-{platform if _PLATFORM in os.environ else own}"
        for library in libraries:
            for path in (library, digest_path(library)):
                build_data["force_include"][str(path)] = path.relative_to(self.root).as_posix()
