"""Model files: round trip, identity, and refusal of whatever is damaged or does not fit."""

from __future__ import annotations

import copy
import errno
import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from strategies import complete_system, odd_model, plain_model, texture

import cscodec
from cscodec import model as model_module
from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.errors import InvalidModelError, ModelMismatchError, ModelNotFoundError
from cscodec.evaluation.metrics import psnr_db
from cscodec.learning.restorer.sensing_matrices import zigzag_cosines
from cscodec.model import Model, System, find_model, load_model
from cscodec.restore.filters import check_filters

PICTURE = texture(20, 30, 3)
MODELS = [plain_model(), odd_model()]
SYSTEM = ("sensing_matrix", "dictionary", "basis", "lapping")
DECIDING = ("basis", "lapping")


def saved_with(**changes: np.ndarray | None) -> bytes:
    """A model's file with arrays exchanged, added, or (None) left out."""
    data = odd_model().to_bytes()
    arrays = {name: array.copy() for name, array in load(data).items()}
    for name, array in changes.items():
        key = name.replace("__", ".")
        if array is None:
            del arrays[key]
        else:
            arrays[key] = array
    return save(arrays, metadata=metadata_of(data))


def metadata_of(data: bytes) -> dict[str, str]:
    size = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + size])["__metadata__"]
    assert isinstance(metadata, dict)
    return metadata


def arrays_of(model: Model) -> dict[str, np.ndarray]:
    return load(model.to_bytes())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_models_come_back_from_their_files(model: Model, tmp_path: Path) -> None:
    model = replace(model, metadata={"licence": "CC0", "seed": 3, "Φ": [1.5, None]})
    path = tmp_path / "some.safetensors"
    model.save(path)
    again = cscodec.load_model(path)
    assert (again.name, again.metadata) == (model.name, model.metadata)
    assert again.model_id == model.model_id
    assert again.to_bytes() == model.to_bytes()
    for name, array in arrays_of(model).items():
        np.testing.assert_array_equal(arrays_of(again)[name], array)


def changed(model: Model, group: str, name: str) -> Model:
    """The model with the least possible change to one of its arrays."""
    if group in ("luma", "chroma"):
        system = getattr(model, group)
        array = getattr(system, name).copy()
        array[3, 2] = np.nextafter(array[3, 2], np.float32(2))
        return replace(model, **{group: replace(system, **{name: array})})  # type: ignore[arg-type]
    arrays = getattr(model, group)
    array = arrays[name].copy()
    array.flat[-1] ^= 1
    return replace(model, **{group: {**arrays, name: array}})  # type: ignore[arg-type]


def test_the_id_depends_on_all_that_decides_values_and_on_nothing_else() -> None:
    model = odd_model()
    deciding = [(group, key) for group in ("luma", "chroma") for key in DECIDING]
    deciding += [("tables", key) for key in model.tables]
    ids = {changed(model, *place).model_id for place in deciding}
    ids |= {model.model_id, replace(model, tables={}).model_id}
    assert len(ids) == len(deciding) + 2
    assert all(len(model_id) == 8 for model_id in ids)

    restoring = [("filters", key) for key in model.filters]
    restoring += [
        (group, key) for group in ("luma", "chroma") for key in SYSTEM if key not in DECIDING
    ]
    for place in restoring:
        assert changed(model, *place).model_id == model.model_id
    other = replace(model, name="other", metadata={"a": 1}, filters={}, restoration_version=7)
    assert other.model_id == model.model_id


def test_a_newer_model_restores_old_files_better(photo: np.ndarray) -> None:
    """Of two models with one id, each decodes the other's files to the same values."""
    newer = load_model("photo")
    older = replace(newer, filters={}, restoration_version=0)
    assert newer.restoration_version > older.restoration_version
    data = cscodec.encode(photo, quality=50, model=older)
    assert data == cscodec.encode(photo, quality=50, model=newer)
    linear = [cscodec.decode(data, decoder="linear", model=model) for model in (older, newer)]
    np.testing.assert_array_equal(*linear)
    before, after = (psnr_db(photo, cscodec.decode(data, model=m)) for m in (older, newer))
    assert after > before + 0.02


def test_of_two_shipped_models_with_one_id_the_newer_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in (3, 1, 2):
        name = f"model-{version}"
        replace(odd_model(), name=name, restoration_version=version).save(
            tmp_path / f"{name}.safetensors"
        )
    monkeypatch.setattr(
        model_module,
        "shipped_models",
        lambda: {path.stem: path for path in sorted(tmp_path.glob("*.safetensors"))},
    )
    assert find_model(odd_model().model_id).name == "model-3"


def test_arrays_cannot_be_changed() -> None:
    again = Model.from_bytes(odd_model().to_bytes())
    arrays = [again.luma.basis, again.chroma.dictionary, again.luma.sensing_matrix]
    arrays += [*again.tables.values(), *again.filters.values()]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


class TestDamage:
    def test_files_cut_anywhere_are_refused(self) -> None:
        data = plain_model().to_bytes()
        header = 8 + int.from_bytes(data[:8], "little")
        lengths = [*range(0, header + 8, 7), *range(header, len(data), 5001), len(data) - 1]
        for length in lengths:
            with pytest.raises(InvalidModelError, match="mine: not a usable model"):
                Model.from_bytes(data[:length], source="mine")

    @pytest.mark.parametrize(
        "data", [b"", b"not a model", bytes(1000), b"\xff" * 50, PICTURE.tobytes()]
    )
    def test_other_files_are_refused(self, data: bytes, tmp_path: Path) -> None:
        path = tmp_path / "some.safetensors"
        path.write_bytes(data)
        with pytest.raises(InvalidModelError, match=r"some.safetensors: not a usable model"):
            cscodec.load_model(path)

    def test_files_without_an_end_are_not_read_to_it(self, tmp_path: Path) -> None:
        path = tmp_path / "zeros.safetensors"
        with path.open("wb") as file:
            file.truncate((1 << 26) + 1)  # a hole: it takes no room
        with pytest.raises(
            InvalidModelError, match=r"zeros.safetensors has more than 67108864 bytes"
        ):
            cscodec.load_model(path)

    def test_damaged_headers_are_refused_or_harmless(self) -> None:
        data = plain_model().to_bytes()
        header = 8 + int.from_bytes(data[:8], "little")
        generator = np.random.default_rng(0)
        refused = 0
        for _ in range(400):
            damaged = bytearray(data)
            damaged[generator.integers(header)] ^= 1 << generator.integers(8)
            try:
                Model.from_bytes(bytes(damaged))
            except InvalidModelError:
                refused += 1
        assert refused > 200

    @pytest.mark.parametrize("metadata", [None, {}, {"cscodec": "{"}, {"cscodec": "{}"}])
    @pytest.mark.parametrize("more", [{}, {"cscodec": "[]"}])
    def test_the_record_must_be_there(
        self, metadata: dict[str, str] | None, more: dict[str, str]
    ) -> None:
        with pytest.raises(InvalidModelError):
            Model.from_bytes(save(arrays_of(plain_model()), metadata=metadata or more))

    @pytest.mark.parametrize(
        "name", [f"{c}.{m}" for c in ("luma", "chroma") for m in ("sensing_matrix", "basis")]
    )
    def test_no_matrix_may_be_missing(self, name: str) -> None:
        with pytest.raises(InvalidModelError, match=name.replace(".", r"\.")):
            Model.from_bytes(saved_with(**{name.replace(".", "__"): None}))

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("luma__sensing_matrix", np.ones((64, 64), np.float32)),
            ("luma__sensing_matrix", np.ones((20, 63), np.float32)),
            ("luma__sensing_matrix", np.ones(64, np.float32)),
            ("luma__sensing_matrix", np.full((63, 64), np.nan, np.float32)),
            ("luma__sensing_matrix", complete_system().sensing_matrix[:20]),
            ("chroma__dictionary", np.ones((63, 100), np.float32)),
            ("chroma__dictionary", np.ones((64, 5000), np.float32)),
            ("chroma__dictionary", np.full((64, 9), np.inf, np.float32)),
            ("luma__basis", np.zeros((63, 64), np.float32)),
            ("luma__basis", np.eye(63, 64, dtype=np.float32)),  # spans another space
            ("chroma__basis", 1.001 * complete_system(3).basis),
            ("chroma__basis", complete_system(3).basis[:20]),
            ("chroma__basis", np.full((63, 64), np.nan, np.float32)),
            ("luma__lapping", np.eye(8, dtype=np.float32)),
            ("luma__lapping", np.ones((4, 4), np.float32)),
            ("chroma__lapping", np.full((4, 4), np.nan, np.float32)),
            ("luma__other", np.ones(3, np.float32)),
            ("luma__other", np.ones(3, np.int32)),
            ("tables__slots", np.ones((3, 10), np.float32)),
            ("filters__luma", np.ones((3, 10), np.float64)),
        ],
    )
    def test_matrices_that_do_not_fit_are_refused(self, name: str, array: np.ndarray) -> None:
        with pytest.raises(InvalidModelError):
            Model.from_bytes(saved_with(**{name: array}))

    def test_matrices_that_make_no_system_are_refused(self) -> None:
        phi, psi = complete_system().sensing_matrix, complete_system().dictionary
        for bad in (np.r_[phi[:5], phi[:1]], np.ones((2, 64)), np.zeros((1, 64))):
            with pytest.raises(InvalidModelError, match=r"depends on the rows above|is constant"):
                System.from_matrices(bad, psi)
        with pytest.raises(InvalidModelError, match="sensing matrix has shape"):
            System.from_matrices(phi[:0], psi)
        with pytest.raises(InvalidModelError, match=r"does not span|not orthonormal"):
            complete_system().with_basis(np.roll(np.eye(63, 64), 1, axis=1))


class TestTables:
    @pytest.mark.parametrize("name", sorted(neutral_tables().as_mapping()))
    def test_wrong_shapes_and_types_are_refused(self, name: str) -> None:
        model = odd_model()
        array = model.tables[name]
        wrong = [array[..., :-1], array[:2], array.astype(np.int64), array[None]]
        for bad in wrong:
            with pytest.raises(InvalidModelError, match=name):
                CoderTables.from_mapping({**model.tables, name: bad})
        broken = replace(model, tables={**model.tables, name: array[..., :-1]})
        with pytest.raises(InvalidModelError, match=name):
            cscodec.encode(PICTURE, model=broken)

    def test_missing_and_unknown_tables_are_refused(self) -> None:
        tables = dict(odd_model().tables)
        with pytest.raises(InvalidModelError, match="surplus"):
            CoderTables.from_mapping({**tables, "surplus": tables["slots"]})
        for name in tables:
            rest = {key: value for key, value in tables.items() if key != name}
            with pytest.raises(InvalidModelError, match=name):
                CoderTables.from_mapping(rest)

    @pytest.mark.parametrize("weight", [(1 << 19) + 1, -(1 << 19) - 1, -(1 << 31), (1 << 31) - 1])
    def test_weights_are_limited(self, weight: int) -> None:
        weights = odd_model().tables["weights"].copy()
        weights[1, 2, 3] = weight
        with pytest.raises(InvalidModelError, match="mixing weight"):
            CoderTables.from_mapping({**odd_model().tables, "weights": weights})

    @pytest.mark.parametrize(
        ("name", "rows", "weight", "last", "most"),
        [
            # Weights of some rows of the last column, and the most that another row may have.
            ("outputs_1", 64, 8194, "outputs_1", 0),
            ("outputs_2", 64, -8194, "outputs_2", 0),
            ("outputs_3", 32, -16388, "own_3", 1),
        ],
    )
    def test_networks_that_could_overflow_are_refused(
        self, name: str, rows: int, weight: int, last: str, most: int
    ) -> None:
        tables = {key: array.copy() for key, array in neutral_tables().as_mapping().items()}
        tables[name][1] = tables[last][1] = 0
        tables[name][1, :rows, -1] = weight
        tables[last][1, -1, -1] = most
        CoderTables.from_mapping({key: array.copy() for key, array in tables.items()})
        tables[last][1, -1, -1] = most + 1
        with pytest.raises(InvalidModelError, match="network of layer"):
            CoderTables.from_mapping(tables)

    @pytest.mark.parametrize(
        ("name", "rows", "weight"),
        [("mean_inputs", 34, 15424), ("mean_hidden", 32, -16388), ("mean_outputs", 32, 16388)],
    )
    def test_networks_of_means_that_could_overflow_are_refused(
        self, name: str, rows: int, weight: int
    ) -> None:
        tables = {key: array.copy() for key, array in neutral_tables().as_mapping().items()}
        tables[name][1] = 0
        tables[name][1, :rows, -1] = weight
        CoderTables.from_mapping({key: array.copy() for key, array in tables.items()})
        tables[name][1, 0, -1] += 1 if weight > 0 else -1
        with pytest.raises(InvalidModelError, match="network of means"):
            CoderTables.from_mapping(tables)

    def test_filters_that_do_not_fit_are_refused(self) -> None:
        luma = odd_model().filters["luma"]
        for filters in ({"luma": luma[1:]}, {"luma": luma.astype(np.int32)}, {"red": luma}):
            with pytest.raises(InvalidModelError, match="restoration filters"):
                check_filters(filters)
            data = cscodec.encode(PICTURE, model=replace(plain_model(), filters=filters))
            with pytest.raises(InvalidModelError, match="restoration filters"):
                cscodec.decode(data, model=replace(plain_model(), filters=filters))


class TestUse:
    """Whatever is valid codes pictures; the wrong model is refused."""

    @pytest.mark.parametrize(
        "model",
        [
            *MODELS,
            replace(odd_model(), name="tables only", filters={}),
            replace(plain_model(), name="filters only", filters=odd_model().filters),
            replace(
                plain_model(),
                name="luma filters only",
                filters={"luma": odd_model().filters["luma"]},
            ),
        ],
        ids=lambda model: model.name.replace(" ", "-"),
    )
    def test_models_with_any_parts_code_pictures(self, model: Model) -> None:
        for picture in (PICTURE, PICTURE[..., 0]):
            data = cscodec.encode(picture, model=model, quality=95, subsampling="4:4:4")
            linear = cscodec.decode(data, model=model, decoder="linear")
            assert np.abs(linear.astype(int) - picture).mean() < 3
            for decoder in ("refine", "consistent", "omp"):
                assert cscodec.decode(data, model=model, decoder=decoder).shape == picture.shape

    @pytest.mark.parametrize("name", sorted(cscodec.shipped_models()))
    def test_shipped_models_code_pictures(self, name: str) -> None:
        data = cscodec.encode(PICTURE, model=name, quality=90)
        restored = cscodec.decode(data)  # found by its id
        assert np.abs(restored.astype(int) - PICTURE).mean() < 12
        assert cscodec.info(data).model_name == name

    def test_another_model_is_refused(self) -> None:
        data = cscodec.encode(PICTURE, model=plain_model())
        with pytest.raises(ModelMismatchError, match=plain_model().model_id.hex()):
            cscodec.decode(data, model=odd_model())
        with pytest.raises(ModelNotFoundError, match="--model PATH"):
            cscodec.decode(data)
        assert cscodec.info(data).model_name is None

    def test_more_measurements_than_the_model_has_are_refused(self) -> None:
        few = Model("few", complete_system(), System.from_matrices(
            complete_system().sensing_matrix[:7], complete_system().dictionary
        ))  # fmt: skip
        data = cscodec.encode(PICTURE, model=few)
        assert cscodec.info(data).measurements == 7
        for measurements in (0, 8, -1):
            with pytest.raises(cscodec.InvalidInputError, match="allows 1 to 7"):
                cscodec.encode(PICTURE, model=few, measurements=measurements)

    def test_unknown_names_and_paths_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFoundError, match=r"shipped models are .*photo"):
            cscodec.load_model("no-such-model")
        with pytest.raises(ModelNotFoundError, match="no such model file"):
            cscodec.load_model(tmp_path / "none.safetensors")
        with pytest.raises(ModelNotFoundError, match="0000000000000000"):
            find_model(bytes(8))

    def test_a_changed_file_is_loaded_again(self, tmp_path: Path) -> None:
        path = tmp_path / "some.safetensors"
        for model in MODELS:
            model.save(path)
            assert cscodec.load_model(path).model_id == model.model_id


@pytest.mark.parametrize("value", [np.nan, np.inf, 2e6, -1e30])
@pytest.mark.parametrize("which", ["sensing_matrix", "dictionary"])
def test_numbers_that_overflow_later_are_refused(which: str, value: float) -> None:
    arrays = load(plain_model().to_bytes())
    changed = arrays[f"luma.{which}"].copy()
    changed[3, 5] = value
    header = {"cscodec": json.dumps({"name": "odd", "metadata": {}, "restoration_version": 1})}
    data = save({**arrays, f"luma.{which}": changed}, metadata=header)
    with pytest.raises(InvalidModelError, match="NaN, infinity or magnitudes above 1e\\+06"):
        Model.from_bytes(data)


def test_deeply_nested_metadata_are_refused() -> None:
    header = {"cscodec": "[" * 200_000 + "]" * 200_000}
    with pytest.raises(InvalidModelError, match="not a usable model"):
        Model.from_bytes(save(load(plain_model().to_bytes()), metadata=header))


def test_equal_names_in_other_folders_are_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    basis = odd_model().luma.basis
    ids = {}
    for folder, data in (("a", saved_with()), ("b", saved_with(luma__basis=-basis))):
        path = tmp_path / folder / "mine.safetensors"
        path.parent.mkdir()
        path.write_bytes(data)  # of one size, as models of one shape are
        os.utime(path, (1, 1))
        ids[folder] = Model.from_bytes(data).model_id
    assert ids["a"] != ids["b"]
    for folder in ("a", "b", "a"):
        monkeypatch.chdir(tmp_path / folder)
        assert load_model("mine.safetensors").model_id == ids[folder]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(plain_model().to_bytes())

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("open", "stat"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, refuse)
            with pytest.raises(
                ModelNotFoundError, match=r"mine.*cannot be read: Permission denied"
            ):
                load_model(path)


def test_copies_are_as_frozen_as_the_model_and_callers_arrays_are_not() -> None:
    model = load_model("photo")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.model_id == model.model_id
        assert again.to_bytes() == model.to_bytes()
        arrays = [again.luma.basis, again.luma.lapping, again.coder_tables.slots]
        assert not any(array.flags.writeable for array in [*arrays, *again.tables.values()])
    basis = model.luma.basis.copy()
    tables = {name: table.copy() for name, table in model.tables.items()}
    model.luma.with_basis(basis)
    CoderTables.from_mapping(tables)
    assert all(array.flags.writeable for array in (basis, *tables.values()))


def test_a_system_of_any_numbers_is_the_one_that_is_written(tmp_path: Path) -> None:
    basis = zigzag_cosines()[:20]
    basis /= np.linalg.norm(basis, axis=1, keepdims=True)
    system = System(basis, basis.T, basis)
    model = Model("mine", system, system)
    data = cscodec.encode(PICTURE, model=model)
    model.save(tmp_path / "mine.safetensors")
    expected = cscodec.decode(data, model=model)
    np.testing.assert_array_equal(
        cscodec.decode(data, model=tmp_path / "mine.safetensors"), expected
    )
    with pytest.raises(InvalidModelError, match="not orthonormal"):
        Model("odd", system, System(basis, basis.T, np.ones((20, 64))))


def test_rows_that_see_nothing_but_the_mean_are_named() -> None:
    phi = np.random.default_rng(0).normal(size=(4, 64))
    phi[2] = 0.125
    with pytest.raises(InvalidModelError, match="row 2 of the sensing matrix is constant"):
        System.from_matrices(phi, np.eye(64))


def test_metadata_that_are_nested_too_deep_are_refused() -> None:
    nested: dict[str, Any] = {}
    for _ in range(60):
        nested = {"deeper": [nested]}
    data = replace(plain_model(), metadata=nested).to_bytes()
    with pytest.raises(InvalidModelError, match="nested more than 50 levels"):
        Model.from_bytes(data)
