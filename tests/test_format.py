"""docs/format.md, the reference decoder written from it, and the codec, held against each other.

``python tests/test_format.py`` writes the page's example anew, for when the format changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import reference_decoder as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from strategies import (
    EXIF,
    Pixels,
    join_chunks,
    odd_model,
    one_chunk,
    plain_model,
    split_chunks,
    texture,
)

from cscodec import encode, layout, load_model
from cscodec.bitstream import container, steps
from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.bitstream.tiles import decode_tile, encode_tile
from cscodec.errors import BitstreamError, InvalidFieldError
from cscodec.kernels import mixing, slots
from cscodec.model import Model, shipped_models

PAGE = Path(__file__).resolve().parents[1] / "docs" / "format.md"


@lru_cache(maxsize=1)
def round_model() -> Model:
    """Predictions that are round numbers often lie just where one bin ends and the next begins."""
    generator = np.random.default_rng(3)
    tables = dict(odd_model().tables)
    ranges = {
        "inputs": (8, 6),
        "offsets": (256, 6),
        "hidden": (32, 1),
        "outputs": (128, 3),
        "own": (256, 3),
    }
    ranges |= {"above": (256, 10), "mean": (1024, 4)}
    for name, array in tables.items():
        unit, most = ranges.get(name.partition("_")[0], (0, 0))
        if unit:
            drawn = unit * generator.integers(-most, most + 1, array.shape)
            if name.startswith("inputs"):
                drawn[2] *= 2  # fills hidden units
            tables[name] = drawn.astype(array.dtype)
    weights = tables["weights"] // 8
    weights[generator.random(weights.shape) < 0.02] = mixing.WEIGHT_LIMIT
    tables["weights"] = weights
    return Model("round", odd_model().luma, odd_model().chroma, tables)


@lru_cache(maxsize=1)
def full_model() -> Model:
    """Networks whose outputs come as near to 2³¹ as a model's may."""
    generator = np.random.default_rng(4)
    tables = dict(odd_model().tables)
    for layer in (1, 2, 3):
        names = [f"{name}_{layer}" for name in ("inputs", "offsets", "hidden", "outputs", "own")]
        inputs, offsets, hidden, outputs, own = (np.zeros_like(tables[name]) for name in names)
        offsets[:] = 32767
        hidden[:, :-1] = 127
        outputs[:, :-1] = 524416 // (outputs.shape[1] - 1)  # times 4095: 128 less than 2³¹
        for array in (hidden, outputs):
            array *= generator.choice(np.int8([-1, 1]), array[:, :1].shape)
        hidden[0] = abs(hidden[0])  # so that all of luma's outputs are full
        own += np.eye(own.shape[1], k=1, dtype=np.int16)
        tables |= zip(names, (inputs, offsets, hidden, outputs, own), strict=True)
    return Model("full", odd_model().luma, odd_model().chroma, tables)


@lru_cache(maxsize=1)
def narrow_model() -> Model:
    """Networks some of whose sums nothing looks at: the last ones, others, or all."""
    tables = {name: array.copy() for name, array in odd_model().tables.items()}
    for layer in (1, 2, 3):
        hidden, outputs = tables[f"hidden_{layer}"], tables[f"outputs_{layer}"]
        hidden[:2, 40:-1] = hidden[:, 3:7] = 0
        outputs[0, 20:-1] = outputs[:, 5] = 0
    tables["hidden_2"][2, :-1] = tables["outputs_3"][2, :-1] = 0
    return Model("narrow", odd_model().luma, odd_model().chroma, tables)


MODELS: dict[str, Callable[[], Model]] = {
    "narrow": narrow_model,
    "plain": plain_model,
    "odd": odd_model,
    "round": round_model,
    "full": full_model,
    "photo": lambda: load_model("photo"),
}
NOISE = np.random.default_rng(0).choice([0, 255], (24, 40)).astype(np.uint8)
BLOCKS = np.kron(NOISE[:6, :7], np.ones((8, 8), np.uint8))
PICTURES: dict[str, tuple[Pixels, dict[str, Any]]] = {
    "gray": (texture(40, 45), {"quality": 50}),
    "gray, one pixel": (texture(1, 1), {}),
    "gray and alpha": (texture(17, 9, 2), {"quality": 80}),
    "gray noise, few measurements": (NOISE, {"step": 0.25, "measurements": 30}),
    "gray blocks": (BLOCKS, {"step": 0.25}),
    "colour 4:2:0": (texture(33, 50, 3), {"quality": 60, "subsampling": "4:2:0"}),
    "colour 4:2:0, one patch": (texture(7, 8, 3), {"quality": 95, "subsampling": "4:2:0"}),
    "colour 4:4:4": (texture(33, 50, 3), {"quality": 85, "subsampling": "4:4:4"}),
    "colour, exact": (texture(20, 24, 3), {"step": 0.25, "effort": 0}),
    "colour and alpha, two tiles": (texture(11, 530, 4), {"quality": 30}),
    "gray, two large tiles": (texture(9, 1030), {"quality": 30, "effort": 2}),
}


def section(title: str) -> str:
    """Text of the page's section of this title, with all below it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(title)}$\n(.*)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/format.md has no section {title!r}"
    return re.split(rf"^#{{1,{len(found[1])}}} ", found[2], flags=re.MULTILINE)[0]


def rows(title: str) -> list[list[str]]:
    """Cells of all rows of the section's tables, heads included, rules not."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def assert_same_values(data: bytes, model: Model) -> None:
    """Both decoders find the same measurements in a file."""
    parts = container.unpack(data)
    tables = CoderTables.from_mapping(model.tables)
    found = reference.decode_file(data, reference.plain_tables(model.tables))
    assert len(found) == parts.header.num_tiles
    for tile, planes in enumerate(found):
        expected = decode_tile(
            [layer[tile] for layer in parts.segments],
            parts.header.patch_grids(tile),
            tables,
            measurements=parts.header.measurements,
        )
        for values, plane in zip(expected, planes, strict=True):
            np.testing.assert_array_equal(values, plane)


# -------------------------------------------------------------------------------- decoders


@pytest.mark.parametrize("model", ["plain", "odd", "round", "photo"])
@pytest.mark.parametrize("picture", PICTURES)
def test_the_reference_finds_the_same_values(picture: str, model: str) -> None:
    pixels, options = PICTURES[picture]
    chosen = MODELS[model]()
    assert_same_values(encode(pixels, model=chosen, **options), chosen)


def test_all_layers_of_the_test_files_hold_something() -> None:
    """Else the comparison above would say little."""
    pixels, options = PICTURES["colour, exact"]
    data = encode(pixels, model=plain_model(), **options)
    (planes,) = reference.decode_file(data, reference.plain_tables({}))
    for plane in planes:
        values = np.abs(np.array(plane))
        for first, end in pairwise(layout.BANDS):
            assert values[..., first:end].any()
    assert np.array(planes[0])[..., 1:].max() > 16  # an escape


@pytest.mark.parametrize("model", ["plain", "odd", "round", "full"])
def test_the_decoders_agree_on_the_largest_values(model: str) -> None:
    generator = np.random.default_rng(1)
    extremes = [-layout.MAX_VALUE, 0, 0, 1, layout.MAX_VALUE]
    grids = [(2, 3), (1, 2), (1, 2)]
    wanted = [generator.choice(extremes, (*grid, 64)).astype(np.int32) for grid in grids]
    tables = MODELS[model]().tables
    in_steps = [256 * plane for plane in wanted]
    segments, _ = encode_tile(in_steps, CoderTables.from_mapping(tables))
    fast = decode_tile(segments, grids, CoderTables.from_mapping(tables))
    slow = reference.decode_tile(segments, grids, reference.plain_tables(tables), 63)
    for values, plane, expected in zip(fast, slow, wanted, strict=True):
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(plane, expected)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(0, 150), min_size=4, max_size=4),
    colours=st.sampled_from([1, 3]),
)
@pytest.mark.parametrize("model", ["plain", "odd", "round"])
def test_the_decoders_agree_on_random_segments(
    model: str, seed: int, lengths: list[int], colours: int
) -> None:
    """Random bits reach contexts that pictures do not. Both find the same, or both refuse."""
    generator = np.random.default_rng(seed)
    # Bytes 255 stand for decisions that are 0; nothing at all for decisions that are 1.
    segments = [generator.bytes(length) + bytes([255]) * 300 for length in lengths]
    grids = [(2, 3), (1, 2), (1, 2)][:colours]
    tables = MODELS[model]().tables
    shortest: list[bytes] = []

    with pytest.MonkeyPatch.context() as patch:
        # Random bytes do not end as a segment must: take what reads the same and does.
        patch.setattr(
            reference.RangeDecoder, "finish", lambda coder: shortest.append(coder.shortest())
        )
        plain = reference.plain_tables(tables)
        try:
            found = reference.decode_tile(segments, grids, plain, 63)
        except reference.FormatError:
            found = None
    fast = CoderTables.from_mapping(tables)
    if found is None:
        with pytest.raises(InvalidFieldError, match="larger than 16 bits"):
            decode_tile([*shortest, segments[len(shortest)]], grids, fast)
        return
    for values, plane in zip(decode_tile(shortest, grids, fast), found, strict=True):
        np.testing.assert_array_equal(values, plane)
    assert reference.decode_tile(shortest, grids, plain, 63) == found


@given(data=st.data())
def test_reference_and_codec_accept_the_same_files(data: st.DataObject) -> None:
    """Files whose chunks are exchanged, dropped, doubled or strange, all with right checksums."""
    whole = encode(
        texture(5, 9, 4), model=plain_model(), icc_profile=b"profile", exif=EXIF, xmp=b"<x/>"
    )
    chunks = split_chunks(whole)
    place = st.integers(0, len(chunks) - 1)
    kinds = st.sampled_from([bytes([byte]) for byte in b"HSAiexabzBZ0@[`{\xe9"])
    for _ in range(data.draw(st.integers(0, 2))):
        k = data.draw(place)
        edit = data.draw(st.sampled_from(["drop", "double", "exchange", "insert", "header"]))
        if edit == "drop":
            del chunks[k : k + 1]
        elif edit == "double":
            chunks[k:k] = chunks[k : k + 1]
        elif edit == "exchange":
            chunks[k : k + 2] = chunks[k : k + 2][::-1]
        elif edit == "insert":
            chunks.insert(k, (data.draw(kinds), b"what"))
        elif chunks and len(chunks[0][1]) == 27:
            byte, value = data.draw(st.integers(0, 26)), data.draw(st.integers(0, 255))
            fields = bytearray(chunks[0][1])
            fields[byte] = value
            chunks[0] = (chunks[0][0], bytes(fields))
    changed = join_chunks(whole[:8], chunks) + data.draw(st.sampled_from([b"", b"", b"", b"\0"]))
    try:
        expected: container.Container | None = container.unpack(changed, max_pixels=2**48)
    except BitstreamError:
        expected = None
    if expected is None:
        with pytest.raises(reference.FormatError):
            reference.read_file(changed)
        return
    header, layers, others = reference.read_file(changed)
    assert layers == expected.segments
    assert others[b"A"] == expected.alpha
    assert others.get(b"i") == expected.icc_profile
    assert others.get(b"e") == expected.exif
    assert others.get(b"x") == expected.xmp
    same = expected.header
    assert header.grids() == [same.patch_grids(tile) for tile in range(same.num_tiles)]
    assert (header.step, header.chroma_step) == (same.step_code, same.chroma_step_code)
    assert (header.tilt, header.chroma_tilt) == (same.tilt_code, same.chroma_tilt_code)
    assert (header.zero_cell, header.model_id) == (same.zero_cell, same.model_id)


def test_neutral_tables_are_the_page_s() -> None:
    tables = reference.plain_tables({})
    for name, array in neutral_tables().as_mapping().items():
        np.testing.assert_array_equal(tables[name], array, err_msg=name)


def test_squash_and_stretch_are_the_page_s() -> None:
    np.testing.assert_array_equal(reference.SQUASH, mixing.SQUASH)
    np.testing.assert_array_equal(reference.STRETCH, mixing.STRETCH)


def test_model_ids_are_as_the_page_says() -> None:
    for path in shipped_models().values():
        digest = hashlib.sha256()
        for name, array in sorted(load_file(path).items()):
            if not (name.startswith("tables.") or name.endswith((".basis", ".lapping"))):
                continue
            shape = f"({array.shape[0]},)" if array.ndim == 1 else str(array.shape)
            kind = {"float32": "<f4", "int32": "<i4", "int16": "<i2", "uint16": "<u2"}
            kind |= {"int8": "|i1", "uint8": "|u1"}
            digest.update(f"{name} {kind[array.dtype.name]} {shape}\n".encode("ascii"))
            digest.update(array.tobytes("C"))
        assert digest.digest()[:8] == load_model(path).model_id


# -------------------------------------------------------------------------------- the page


def test_the_page_s_tables() -> None:
    totals = {"SLOTS": reference.NUM_SLOTS, "SETS": sum(reference.SETS.values())}
    found = {
        row[0].strip("`").removeprefix("tables."): (
            row[1],
            tuple(totals.get(size) or int(size) for size in row[2].split(", ")),
        )
        for row in rows("The model")
        if row[0].startswith("`")
    }
    arrays = neutral_tables().as_mapping()
    assert found == {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    assert {name: (3, *shape) for name, shape in reference.NETWORKS.items()} == {
        name: array.shape for name, array in arrays.items() if name in reference.NETWORKS
    }


def test_the_page_s_groups_of_slots() -> None:
    groups = {
        row[0]: tuple(int(size) for size in re.findall(r":(\d+)(?:,|$)", row[1]))
        for row in rows("Contexts")
        if re.fullmatch("[A-Z]+_[A-Z_]+", row[0])
    }
    assert list(groups.items()) == list(reference.SLOTS.items())
    for group, first in reference.FIRST_SLOT.items():
        assert getattr(slots, group) == (first, reference.SLOTS[group]), group
    assert reference.NUM_SLOTS == slots.NUM_SLOTS


def test_the_page_s_groups_of_sets() -> None:
    (row,) = (row for row in rows("Contexts") if row[0] == "sets")
    expected = [[name, str(size)] for name, size in reference.SETS.items()]
    assert [cell.split() for cell in row[1:]] == expected
    for group, first in reference.FIRST_SET.items():
        assert getattr(slots, f"SET_{group}") == first, group
    assert sum(reference.SETS.values()) == slots.NUM_SETS


def test_the_page_s_decisions_name_groups_that_exist() -> None:
    decisions = [row for row in rows("Contexts") if len(row) == 5][1:]
    used = set()
    for _, groups, first, second, _ in decisions:
        found = re.fullmatch(r"([A-Z_]+_)([A-Z])(?:, | to )([A-Z])", groups)
        assert found, groups
        used |= {found[1] + chr(letter) for letter in range(ord(found[2]), ord(found[3]) + 1)}
        assert {first.split()[0], second.split()[0]} <= reference.SETS.keys()
    assert used == reference.SLOTS.keys()


def test_the_page_s_header() -> None:
    fields = [row for row in rows("Header") if row[0].isdigit()]
    letters = {"1": "B", "2": "H", "4": "I", "8": "8s"}
    assert ">" + "".join(letters[row[0]] for row in fields) == container.HEADER.format
    assert f"{container.HEADER.size} bytes are all there is" in section("Header")
    allowed = {re.split("[:,]| of| per", row[1])[0]: row[2] for row in fields}
    least, most = round(steps.MIN_STEP * 64), round(steps.MAX_STEP * 64)
    assert steps.STEP_UNIT == 64
    assert allowed["width"] == allowed["height"] == f"1 to {layout.MAX_DIMENSION}"
    assert allowed["measurements"] == f"1 to {layout.NUM_MEASUREMENTS - 1}"
    assert allowed["step"] == f"{least} to {most}"
    assert allowed["entropy coder"] == str(layout.CODER_ID)
    assert str(layout.DEFAULT_MAX_PIXELS) in section("Header")


def test_the_page_s_signature_version_and_chunks() -> None:
    assert f"`{container.SIGNATURE.hex(' ')}`" in section("The file")
    assert f"**Version {container.FORMAT_VERSION}.**" in PAGE.read_text(encoding="utf-8")
    assert f"| 1 | format version, {container.FORMAT_VERSION} |" in section("The file")
    kinds = [row[0].strip("`").encode() for row in rows("Chunks") if row[0].startswith("`")]
    assert kinds == [
        container.HEADER_CHUNK,
        container.SEGMENT_CHUNK,
        container.ALPHA_CHUNK,
        container.ICC_CHUNK,
        container.EXIF_CHUNK,
        container.XMP_CHUNK,
    ]


def test_the_page_s_layers_and_bands() -> None:
    ranges = [row for row in rows("Layers") if row[0] == "measurements"]
    for row, bounds in zip(ranges, (layout.LAYERS, layout.BANDS), strict=True):
        expected = [
            f"{first} to {end - 1}" if end - first > 1 else str(first)
            for first, end in pairwise(bounds)
        ]
        assert row[1:] == expected
    assert (reference.LAYERS, reference.BANDS) == (layout.LAYERS, layout.BANDS)
    assert reference.NEIGHBOURS == layout.NEIGHBOURS
    assert (container.TILE_SIZE, container.LARGE_TILE_SIZE) == (512, 1024)
    assert (reference.TILE, reference.LARGE_TILE) == (512, 1024)
    picture = section("The picture")
    assert "n = ⌈L/512⌉ along a side of L pixels, or ⌈L/1024⌉ with the header's flag 32" in picture
    assert "of 16⌈L/(16n)⌉\n  pixels" in picture


def test_the_page_s_knots() -> None:
    (knots,) = re.findall(r"^    (22 36 60 [\d ]+)$", section("Decisions"), re.MULTILINE)
    assert tuple(map(int, knots.split())) == reference.HALF_SQUASH


# ----------------------------------------------------------------------------- the example


def example_picture() -> Pixels:
    y, x = np.mgrid[:8, :8]
    return np.asarray(40 + 12 * x + 5 * y + 60 * (x + y >= 8), np.uint8)


def example() -> str:
    """The page's example: every byte of a small file, and the values that it stands for."""
    data = encode(example_picture(), step=16, model="paper-m20")
    lines: list[str] = []

    def line(part: bytes, meaning: str) -> None:
        pieces = [part[k : k + 8].hex(" ") for k in range(0, len(part), 8)]
        lines.append(f"{pieces[0]:<24}{meaning}")
        lines.extend(pieces[1:])

    line(data[:7], "signature")
    line(data[7:8], "version")
    chunks = split_chunks(data)
    for number, (kind, payload) in enumerate(chunks):
        chunk = one_chunk(kind, payload)
        line(chunk[:2], f"chunk {kind.decode()}, length {len(payload)}")
        if kind == b"H":
            line(payload[:8], "width, height")
            line(payload[8:12], "channels, flags, coder, measurements")
            line(payload[12:19], "steps, tilts, zero cell")
            line(payload[19:], "model id")
        elif payload:
            line(payload, f"layer {number - 1}")
        line(chunk[-4:], "checksum")
    assert "".join(text[:24].strip() for text in lines).replace(" ", "") == data.hex()
    ((((patch,),),),) = reference.decode_file(data, reference.plain_tables({}))
    values = [f"{i}: {value}" for i, value in enumerate(patch) if value]
    return "\n".join([*lines, "", "values that are not zero: " + ", ".join(values)]) + "\n"


def test_the_page_s_example() -> None:
    (block,) = re.findall(r"```text\n(.*?)```", section("Example"), re.DOTALL)
    assert block == example(), "the example has changed; `python tests/test_format.py` writes it"


def test_the_page_s_example_decodes_to_the_values_it_names() -> None:
    (block,) = re.findall(r"```text\n(.*?)```", section("Example"), re.DOTALL)
    bytes_of_lines, values = block.split("\n\nvalues that are not zero: ")
    data = bytes.fromhex("".join(line[:24] for line in bytes_of_lines.splitlines()))
    expected: npt.NDArray[np.int16] = np.zeros(64, np.int16)
    for value in values.split(", "):
        place, number = value.split(": ")
        expected[int(place)] = int(number)
    header = container.unpack(data).header
    layers = [layer[0] for layer in container.unpack(data).segments]
    (plane,) = decode_tile(layers, [(1, 1)], neutral_tables(), measurements=header.measurements)
    np.testing.assert_array_equal(plane[0, 0], expected)


if __name__ == "__main__":
    parts = re.split(r"(```text\n).*?(```)", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    PAGE.write_text("".join([*parts[:2], example(), *parts[2:]]), encoding="utf-8")
