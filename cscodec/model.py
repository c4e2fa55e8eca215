"""A learned compressive-sensing model: what it holds, its identity, its file, and where to find it.

A model is frozen. Its ``model_id`` is a hash of the arrays that decide the values of a file, so a
file that names its model by id is only decoded with the same ones, whatever the model file is
called. What restores pixels from the values has a version of its own, and may get better.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from cscodec import locations
from cscodec.arrays import Float32Array
from cscodec.atomic import write_whole
from cscodec.bitstream.tables import CoderTables
from cscodec.errors import InvalidInputError, InvalidModelError, ModelNotFoundError
from cscodec.layout import MAX_ATOMS, MAX_MEASUREMENTS, MODEL_ID_BYTES, PATCH_PIXELS
from cscodec.locations import is_url
from cscodec.parallel import computed_once
from cscodec.shipped import shipped_folder
from cscodec.transform.lapping import HALF_PATCH
from cscodec.transform.measure import analysis_matrix, synthesis_matrix

SUFFIX = ".safetensors"
_MOST_BYTES = 1 << 26  #: of a file; the shipped ones have 2 MB or so
_MOST_LEVELS = 50  # of metadata
_LARGEST_ENTRY = 1e6  # of Φ and Ψ: products of products stay far from what float32 holds


@dataclass(frozen=True, eq=False)
class System:
    """One compressive-sensing system: a sensing matrix and a sparsifying dictionary.

    Attributes
    ----------
    sensing_matrix : ndarray, (M, 64) float32
        Φ. It sees patches without their mean.
    dictionary : ndarray, (64, L) float32
        Ψ, columns of unit norm.
    basis : ndarray, (M, 64) float32
        Orthonormal zero-mean rows that span the same space as the rows of Φ on zero-mean
        patches. Measurements are quantised in it.
    lapping : ndarray, (4, 4) float32, optional
        Orthogonal: how patches of files are lapped over each other before they are measured, see
        :mod:`cscodec.transform.lapping`; without it they are measured as they are.
    """

    sensing_matrix: Float32Array
    dictionary: Float32Array
    basis: Float32Array
    lapping: Float32Array | None = None

    def __post_init__(self) -> None:
        # As they are in a file, so that a model has one id before and after it was written.
        for name in ("sensing_matrix", "dictionary", "basis", "lapping"):
            if (matrix := getattr(self, name)) is not None:
                object.__setattr__(self, name, _frozen(matrix))

    @classmethod
    def from_matrices(cls, sensing_matrix: npt.ArrayLike, dictionary: npt.ArrayLike) -> System:
        """Make a system from Φ and Ψ; the basis follows by Gram-Schmidt on Φ's rows.

        Raises
        ------
        InvalidModelError
            If shapes do not fit, values are not finite, or Φ's rows are linearly dependent.
        """
        phi = np.asarray(sensing_matrix, np.float64)
        psi = np.asarray(dictionary, np.float64)
        _check_matrices(phi, psi)
        zero_mean = phi - phi.mean(axis=1, keepdims=True)  # all that a zero-mean patch sees of Φ
        if constant := [i for i, row in enumerate(zero_mean) if _is_none_of(row, phi[i])]:
            raise InvalidModelError(
                f"row {constant[0]} of the sensing matrix is constant: it sees nothing of a patch "
                "but its mean, which is measured anyway"
            )
        return cls(*map(_frozen, (phi, psi, _orthonormal_rows(zero_mean))))

    def with_basis(self, basis: npt.ArrayLike) -> System:
        """Return the same system with another basis of the same measurements.

        Raises
        ------
        InvalidModelError
            If the rows are not orthonormal or do not span the same space.
        """
        return self._with(basis=_frozen(basis))

    def with_lapping(self, lapping: npt.ArrayLike) -> System:
        """Return the same system with its patches lapped.

        Raises
        ------
        InvalidModelError
            If the matrix is not orthogonal, or not (4, 4).
        """
        return self._with(lapping=_frozen(lapping))

    def _with(self, **changes: Float32Array) -> System:
        system = replace(self, **changes)
        _check_system(system)
        return system

    @property
    def num_measurements(self) -> int:
        """M, without the mean."""
        return len(self.sensing_matrix)

    @computed_once
    def analysis(self) -> Float32Array:
        """What patches are multiplied with to be measured in the basis, (64, 64) float32."""
        return analysis_matrix(self.basis)

    @computed_once
    def synthesis(self) -> Float32Array:
        """What measurements in the basis are multiplied with to give patches, (64, 64) float32."""
        return synthesis_matrix(self.basis)

    @property
    def num_atoms(self) -> int:
        """L."""
        return int(self.dictionary.shape[1])


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model: what `encode` and `decode` need, and the record of how it was made.

    Attributes
    ----------
    name : str
        Short name, as in ``cscodec encode --model NAME``.
    luma : System
        For gray pictures and luma planes.
    chroma : System
        For chroma planes; the luma system where none was trained.
    tables : mapping of str to ndarray
        Integer tables of the entropy coder (states, networks); empty where none were trained,
        and the coder then starts from its neutral state.
    filters : mapping of str to ndarray
        Restoration filters for "luma" and "chroma", (steps, classes, taps) int16; empty where none
        were trained.
    metadata : mapping
        JSON-able record: training command, data, licence, configuration, seed, results.
    restoration_version : int
        Of all that is not part of ``model_id``. Of two models with one id, the higher restores
        better; both read each other's files.
    """

    name: str
    luma: System
    chroma: System
    tables: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    filters: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    restoration_version: int = 1

    def __post_init__(self) -> None:
        for system in (self.luma, self.chroma):
            _check_system(system)

    @property
    def sensing_matrix(self) -> Float32Array:
        """Φ of the luma system, (M, 64)."""
        return self.luma.sensing_matrix

    @property
    def dictionary(self) -> Float32Array:
        """Ψ of the luma system, (64, L)."""
        return self.luma.dictionary

    @computed_once
    def model_id(self) -> bytes:
        """Identity of a file's values: 8 bytes of a SHA-256 over what decides them."""
        digest = hashlib.sha256()
        for key, array in sorted(self._arrays().items()):
            if key.startswith("tables.") or key.endswith((".basis", ".lapping")):
                digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.digest()[:MODEL_ID_BYTES]

    @computed_once
    def unlapped(self) -> Model:
        """The same model for files whose patches are not lapped; its id is another."""
        luma, chroma = (replace(system, lapping=None) for system in (self.luma, self.chroma))
        return replace(self, luma=luma, chroma=chroma)

    @computed_once
    def coder_tables(self) -> CoderTables:
        """What the entropy coder starts from.

        Raises
        ------
        InvalidModelError
            If ``tables`` cannot be that.
        """
        return CoderTables.from_mapping(self.tables)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles are as frozen as the model, and as well checked.
        return Model.from_bytes, (self.to_bytes(),)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for channel, system in (("luma", self.luma), ("chroma", self.chroma)):
            arrays[f"{channel}.sensing_matrix"] = system.sensing_matrix
            arrays[f"{channel}.dictionary"] = system.dictionary
            arrays[f"{channel}.basis"] = system.basis
            if system.lapping is not None:
                arrays[f"{channel}.lapping"] = system.lapping
        for group, members in (("tables", self.tables), ("filters", self.filters)):
            arrays.update({f"{group}.{key}": value for key, value in members.items()})
        return arrays

    def to_bytes(self) -> bytes:
        """Serialise to the safetensors format."""
        header = {
            "name": self.name,
            "restoration_version": self.restoration_version,
            "metadata": dict(self.metadata),
        }
        arrays = {key: np.ascontiguousarray(array) for key, array in self._arrays().items()}
        return save(arrays, metadata={"cscodec": json.dumps(header, sort_keys=True)})

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "model") -> Model:
        """Inverse of :meth:`to_bytes`.

        Raises
        ------
        InvalidModelError
            If the bytes are not a model; the message begins with ``source``.
        """
        try:
            arrays = load(data)
            header_size = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + header_size])["__metadata__"]["cscodec"]
            record = json.loads(header)
            name, metadata = str(record["name"]), dict(record["metadata"])
            version = int(record["restoration_version"])
            if _is_deeper(metadata, _MOST_LEVELS):
                raise InvalidModelError(f"metadata are nested more than {_MOST_LEVELS} levels deep")
            systems = []
            for channel in ("luma", "chroma"):
                keys = ("sensing_matrix", "dictionary", "basis")
                phi, psi, basis = (arrays.pop(f"{channel}.{key}") for key in keys)
                systems.append(System(phi, psi, basis, arrays.pop(f"{channel}.lapping", None)))
            groups: dict[str, dict[str, npt.NDArray[Any]]] = {"tables": {}, "filters": {}}
            for key, value in arrays.items():
                group, _, member = key.partition(".")
                if group not in groups or value.dtype.kind not in "iu":
                    raise InvalidModelError(f"unexpected array {key!r} of type {value.dtype}")
                value.flags.writeable = False
                groups[group][member] = value
            luma, chroma = systems
            model = cls(name, luma, chroma, groups["tables"], groups["filters"], metadata, version)
            _ = model.coder_tables  # refused now rather than at the first picture
        except (
            SafetensorError, InvalidModelError, KeyError, TypeError, ValueError, RecursionError,
            OverflowError,
        ) as error:  # fmt: skip
            raise InvalidModelError(
                f"{source}: not a usable model ({error}); train one with 'cscodec train'"
            ) from error
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path`` (a ``.safetensors`` file)."""
        write_whole(path, self.to_bytes(), replace=True)


def load_model(name_or_path: str | os.PathLike[str]) -> Model:
    """Load a shipped model by name, or any model by path or URL.

    Raises
    ------
    ModelNotFoundError
        If there is no such model; the message lists the shipped ones.
    InvalidModelError
        If the file is not a model.
    InvalidInputError
        If it is neither a name nor a path.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        kind = type(name_or_path).__name__
        raise InvalidInputError(f"model is of type {kind}; give a name, a path or a Model")
    text = os.fsdecode(name_or_path)
    if is_url(text):
        return _fetched(text)
    path = Path(text).absolute()  # by which the model is remembered
    if not (path.suffix == SUFFIX or os.sep in text):
        shipped = shipped_models()
        if text not in shipped:
            known = ", ".join(sorted(shipped)) or "none"
            raise ModelNotFoundError(
                f"no model named {text!r}: shipped models are {known}; "
                f"give the path of a {SUFFIX} file for any other"
            )
        path = shipped[text]
    try:
        if not path.is_file():
            raise ModelNotFoundError(f"{text}: no such model file")
        status = path.stat()
        return _load(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise ModelNotFoundError(f"{text}: cannot be read: {error.strerror or error}") from error


def find_model(model_id: bytes) -> Model:
    """Return the shipped model with this id; of several, the one that restores best.

    Raises
    ------
    ModelNotFoundError
        If no shipped model has it.
    """
    found = [model for model in map(load_model, shipped_models()) if model.model_id == model_id]
    if found:
        return max(found, key=lambda model: model.restoration_version)
    raise ModelNotFoundError(
        f"the picture was made with model {model_id.hex()}, which is not shipped with this "
        "release; give the model file that encoded it (--model PATH)"
    )


def shipped_models() -> dict[str, Path]:
    """Names and files of the models that come with the package, the default first."""
    folder = shipped_folder()
    found = folder.glob(f"*{SUFFIX}") if folder else []
    paths = sorted(found, key=lambda path: (path.stem != "photo", path))
    return {path.stem: path for path in paths}


@lru_cache(maxsize=8)
def _fetched(url: str) -> Model:
    try:
        with locations.opened(url) as file:
            return _read(file, url)
    except InvalidInputError as error:
        raise ModelNotFoundError(str(error)) from error


@lru_cache(maxsize=8)
def _load(path: Path, mtime_ns: int, size: int) -> Model:
    with path.open("rb") as file:
        return _read(file, str(path))


def _read(file: IO[bytes], source: str) -> Model:
    data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InvalidModelError(f"{source} has more than {_MOST_BYTES} bytes: it is no model file")
    return Model.from_bytes(data, source=source)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON-able value has more levels: writing it again would take as many calls."""
    found = [value]
    for _ in range(levels):
        found = [
            inner
            for outer in found
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(found)


def _frozen(array: npt.ArrayLike) -> Float32Array:
    frozen = np.array(array, np.float32, order="C")  # a copy: the caller's stays writable
    frozen.flags.writeable = False
    return frozen


def _check_matrices(phi: npt.NDArray[Any], psi: npt.NDArray[Any]) -> None:
    if phi.ndim != 2 or phi.shape[1] != PATCH_PIXELS or not 1 <= len(phi) <= MAX_MEASUREMENTS:
        raise InvalidModelError(
            f"sensing matrix has shape {phi.shape}; allowed are (1..{MAX_MEASUREMENTS}, 64)"
        )
    if psi.ndim != 2 or psi.shape[0] != PATCH_PIXELS or not 1 <= psi.shape[1] <= MAX_ATOMS:
        raise InvalidModelError(
            f"dictionary has shape {psi.shape}; allowed are (64, 1..{MAX_ATOMS})"
        )
    for matrix in (phi, psi):
        if not (np.isfinite(matrix).all() and np.abs(matrix).max() <= _LARGEST_ENTRY):
            raise InvalidModelError(
                "sensing matrix or dictionary holds NaN, infinity or magnitudes above "
                f"{_LARGEST_ENTRY:g}"
            )


def _check_system(system: System) -> None:
    _check_matrices(system.sensing_matrix, system.dictionary)
    basis = system.basis.astype(np.float64)
    if basis.shape != system.sensing_matrix.shape or not np.isfinite(basis).all():
        raise InvalidModelError(f"basis has shape {basis.shape}, unlike the sensing matrix")
    if np.abs(basis @ basis.T - np.eye(len(basis))).max() > 1e-4:
        raise InvalidModelError("the rows of the basis are not orthonormal")
    phi = system.sensing_matrix.astype(np.float64)
    phi -= phi.mean(axis=1, keepdims=True)
    if np.abs(phi - phi @ basis.T @ basis).max() > 1e-3 * np.abs(phi).max():
        raise InvalidModelError("the basis does not span what the sensing matrix measures")
    if system.lapping is not None:
        _check_lapping(system.lapping)


def _check_lapping(lapping: Float32Array) -> None:
    if lapping.shape != (HALF_PATCH, HALF_PATCH) or not np.isfinite(lapping).all():
        raise InvalidModelError(
            f"lapping has shape {lapping.shape}, or holds NaN or infinity; allowed are finite "
            f"({HALF_PATCH}, {HALF_PATCH})"
        )
    square = lapping.astype(np.float64) @ lapping.T
    if np.abs(square - np.eye(HALF_PATCH)).max() > 1e-4:
        raise InvalidModelError("the lapping is not orthogonal")


def _is_none_of(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> bool:
    return bool(np.linalg.norm(part) <= 1e-9 * np.linalg.norm(whole))


def _orthonormal_rows(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # Twice is enough: a second pass removes what rounding left of the earlier rows.
    rows: npt.NDArray[np.float64] = np.zeros_like(matrix)
    for i, row in enumerate(matrix):
        length = np.linalg.norm(row)
        for _ in range(2):
            row = row - (rows[:i] @ row) @ rows[:i]
        remaining = np.linalg.norm(row)
        if not remaining > 1e-9 * length:
            raise InvalidModelError(f"row {i} of the sensing matrix depends on the rows above it")
        rows[i] = row / remaining
    return rows
