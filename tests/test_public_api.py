"""The public names, their signatures, and that importing them stays cheap."""

import inspect
import subprocess
import sys

import pytest

import cscodec

NAMES = [
    "BadMagicError",
    "BitstreamError",
    "ChecksumError",
    "CscodecError",
    "Info",
    "InvalidFieldError",
    "InvalidInputError",
    "InvalidModelError",
    "KernelsError",
    "LimitExceededError",
    "Model",
    "ModelError",
    "ModelMismatchError",
    "ModelNotFoundError",
    "SchedulerError",
    "TruncatedError",
    "UnsupportedVersionError",
    "__version__",
    "decode",
    "encode",
    "info",
    "load_model",
    "shipped_models",
]


def test_names_are_pinned_and_exist():
    assert cscodec.__all__ == NAMES
    assert all(getattr(cscodec, name) is not None for name in NAMES)
    assert set(NAMES) <= set(dir(cscodec))


def test_everything_public_is_documented():
    for name in NAMES:
        if name != "__version__":
            assert inspect.getdoc(getattr(cscodec, name)), name


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (
            "encode",
            "image quality step tune measurements model subsampling effort target_bpp target_size "
            "target_psnr icc_profile exif xmp max_pixels workers",
        ),
        (
            "decode",
            "data decoder measurements sparsity model region preview scale out allow_partial "
            "max_pixels max_seconds workers",
        ),
        ("info", "data allow_partial max_pixels"),
        ("load_model", "name_or_path"),
        ("shipped_models", ""),
    ],
)
def test_signatures_are_pinned(function, parameters):
    signature = inspect.signature(getattr(cscodec, function))
    assert list(signature.parameters) == parameters.split()
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for kind in kinds[1:])


def test_errors_form_the_documented_tree():
    assert issubclass(cscodec.InvalidInputError, ValueError)
    bad_bytes = {name for name in NAMES if name.endswith("Error")}
    bad_bytes -= {"CscodecError", "BitstreamError", "InvalidInputError", "KernelsError"}
    bad_bytes -= {"SchedulerError"}
    bad_bytes -= {name for name in bad_bytes if "Model" in name}
    assert all(issubclass(getattr(cscodec, name), cscodec.BitstreamError) for name in bad_bytes)
    assert all(
        issubclass(getattr(cscodec, name), cscodec.CscodecError)
        for name in NAMES
        if name.endswith("Error")
    )


def test_unknown_names_raise():
    with pytest.raises(AttributeError, match="compress"):
        _ = cscodec.compress


def test_import_loads_nothing_heavy():
    code = "import cscodec, sys; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in result.stdout.split()}
    assert not loaded & {"numpy", "numba", "scipy", "skimage", "PIL", "typer"}


def test_version_is_the_projects(pytestconfig):
    text = (pytestconfig.rootpath / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{cscodec.__version__}"\n' in text
