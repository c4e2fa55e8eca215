"""``make determinism``: hashes of files and pixels over the vectors, in every setting here.

Each level of kernels, each number of threads and each kind of OpenBLAS's kernels has a process of
its own. All must print what ``snapshots.json`` holds. A setting may be named: ``python
determinism.py x86-64-v2 'threads 7'``.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
_PATHS = [str(FOLDER.parents[1]), str(FOLDER.parent), str(FOLDER)]
_CODE = "import json, make; print(json.dumps(make.snapshots(make.kept, {workers})))"
_CORE_TYPES = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen")
_CORE_TYPES_AVX512 = ("SkylakeX", "Cooperlake")


def settings() -> dict[str, tuple[dict[str, str], int | None]]:
    """Names of settings: an environment, and a number of threads."""
    sys.path[:0] = _PATHS
    from cscodec.kernels.library import machine, usable_levels

    found: dict[str, tuple[dict[str, str], int | None]] = {}
    for level in usable_levels():
        found[f"kernels {level}"] = {"CSCODEC_KERNELS": level}, None
    for workers in range(1, 17):
        found[f"threads {workers}"] = {}, workers
    core_types = _CORE_TYPES if machine() == "x86_64" else ()
    if "x86-64-v4" in usable_levels():
        core_types += _CORE_TYPES_AVX512
    for name in core_types:
        found[f"OpenBLAS {name}"] = {"OPENBLAS_CORETYPE": name}, None
    return found


def snapshots_with(environment: dict[str, str], workers: int | None) -> dict[str, dict[str, str]]:
    """What a process makes of the vectors."""
    paths = os.pathsep.join(_PATHS)
    run = subprocess.run(
        [sys.executable, "-c", _CODE.format(workers=workers)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, dict[str, str]] = json.loads(run.stdout)
    return found


def main(wanted: list[str]) -> int:
    """Print a hash for each setting, and whether it is the stored one."""
    stored = json.loads((FOLDER / "snapshots.json").read_bytes())
    failed = 0
    for name, setting in settings().items():
        if wanted and name not in wanted:
            continue
        found = snapshots_with(*setting)
        digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
        others = [
            f"{vector} {what}"
            for vector, kept in stored.items()
            for what in kept
            if found[vector][what] != kept[what]
        ]
        failed += bool(others)
        verdict = "differs in " + ", ".join(others) if others else "as stored"
        print(f"{name:22}  {digest}  {verdict}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
