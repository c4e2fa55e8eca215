"""Files and folders by URL: a real S3 endpoint over HTTP, and fsspec's memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cscodec import locations
from cscodec.cli import main
from cscodec.errors import InvalidInputError, ModelNotFoundError
from cscodec.learning.options import RunSettings, TrainingOptions
from cscodec.learning.trainer import train
from cscodec.model import load_model

SMALL = TrainingOptions(
    measurements=4,
    atoms=24,
    sparsity=2,
    batch_size=64,
    dictionary_iterations=2,
    outer_iterations=1,
    shards=2,
)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    code = caught.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture(scope="module")
def crops(tmp_path_factory: pytest.TempPathFactory, photo: npt.NDArray[np.uint8]) -> Path:
    folder = tmp_path_factory.mktemp("there") / "crops"
    (folder / "more").mkdir(parents=True)
    for i in range(4):
        name = f"more/{i}.png" if i == 3 else f"{i}.png"
        Image.fromarray(photo[200:248, 50 * i : 50 * i + 48]).save(folder / name)
    (folder / "broken.png").write_bytes((folder / "0.png").read_bytes()[:500])
    (folder / "notes.txt").write_text("of another kind")
    return folder


def upload(crops: Path, url: str) -> None:
    for path in crops.rglob("*.*"):
        name = locations.join(url, path.relative_to(crops).as_posix())
        locations.write_whole(name, path.read_bytes(), replace=True)


@pytest.fixture
def memory(crops: Path) -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    upload(crops, "memory://set/crops")
    yield "memory://set"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(crops: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    s3fs = pytest.importorskip("s3fs")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("pictures")
    upload(crops, "s3://pictures/crops")
    yield "s3://pictures"
    s3fs.S3FileSystem().rm("pictures", recursive=True)


@pytest.fixture(params=["memory", "bucket"])
def there(request: pytest.FixtureRequest) -> str:
    place: str = request.getfixturevalue(request.param)
    return place


def test_a_folder_is_mirrored_there(
    there: str, crops: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("encode", "-r", f"{there}/crops", "-d", f"{there}/out", "--json") == 1
    out, err = capsys.readouterr()
    assert f"{there}/crops/broken.png" in err
    assert "1 file of other kinds: .txt" in err
    assert sum("num_bytes" in record for record in json.loads(out)) == 4
    assert list(locations.list_files(f"{there}/out")) == ["0.csc", "1.csc", "2.csc", "more/3.csc"]
    assert run("encode", str(crops / "1.png"), "-o", str(tmp_path / "1.csc")) == 0
    with locations.opened(f"{there}/out/1.csc") as file:
        assert file.read() == (tmp_path / "1.csc").read_bytes()


def test_files_come_and_go_one_by_one(there: str, tmp_path: Path) -> None:
    assert run("encode", f"{there}/crops/0.png", "-o", f"{there}/0.csc") == 0
    picture = str(tmp_path / "0.png")
    assert run("decode", f"{there}/0.csc", "--decoder", "linear", "-o", picture) == 0
    with Image.open(picture) as restored:
        assert restored.size == (48, 48)
    assert run("decode", f"{there}/0.csc", "--decoder", "linear", "-o", f"{there}/0.tif") == 0
    assert run("info", f"{there}/0.csc") == 0


def test_a_model_its_checkpoint_and_its_report_lie_there(there: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model, checkpoint, report = (f"{there}/{name}" for name in ("m.safetensors", "c", "report"))
    command = ["train", f"{there}/crops", "-m", "4", "--atoms", "24", "--batch-size", "64"]
    command += ["--dictionary-iterations", "2", "--outer-iterations", "1", "-o", model]
    command += ["--checkpoint", checkpoint, "--checkpoint-every", "1"]
    assert run(*command, "--report", report) == 0
    assert run(*command, "--resume") == 3, "there is such a model"
    assert run(*command, "--resume", "-f") == 0
    with locations.opened(f"{report}/index.html") as file:
        assert b"Training report: m" in file.read()
    packed = f"{there}/0.csc"
    assert run("encode", f"{there}/crops/0.png", "--model", model, "-o", packed) == 0
    assert run("decode", packed, "--model", model, "-o", str(tmp_path / "0.png")) == 0
    assert run("decode", packed, "--model", f"{there}/none.safetensors", "-o", "x.png") == 5
    locations.write_whole(checkpoint, b"junk", replace=True)
    assert run(*command, "--resume", "-f") == 1


def test_eval_measures_what_lies_there(
    there: str, crops: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("eval", "-r", f"{there}/crops", "--decoder", "linear", "--json") == 1
    out, err = capsys.readouterr()
    assert f"{there}/crops/broken.png" in err
    rows = json.loads(out)["pictures"]
    names = ["0.png", "1.png", "2.png", "more/3.png"]
    assert [row["input"] for row in rows] == [f"{there}/crops/{name}" for name in names]
    assert run("eval", str(crops / "1.png"), "--decoder", "linear", "--json") == 0
    (here,) = json.loads(capsys.readouterr().out)["pictures"]
    assert rows[1]["num_bytes"] == here["num_bytes"]


def test_existing_outputs_are_refused(there: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["encode", f"{there}/crops/0.png", "-o", f"{there}/0.csc"]
    locations.write_whole(f"{there}/0.csc", b"mine", replace=False)
    assert run(*command) == 3
    assert f"{there}/0.csc: exists already; use -f to replace it" in capsys.readouterr().err
    with locations.opened(f"{there}/0.csc") as file:
        assert file.read() == b"mine"
    assert run(*command, "-f") == 0
    with pytest.raises(FileExistsError):
        locations.write_whole(f"{there}/0.csc", b"theirs", replace=False)


def test_training_folders_make_the_same_model(there: str, crops: Path) -> None:
    settings = RunSettings(name="small", scheduler="local")
    expected = train([crops], SMALL, settings)
    assert train([f"{there}/crops"], SMALL, settings).to_bytes() == expected.to_bytes()
    assert list(expected.metadata["data"]["skipped_pictures"]) == ["crops/broken.png"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("crops/none.png", "cannot be read"),
        ("elsewhere", "cannot be read"),
    ],
)
def test_what_is_not_there_is_one_line(
    there: str, name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("encode", f"{there}/{name}", "-o", f"{there}/x.csc") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{there}/{name}: {reason}" in line
    with pytest.raises(InvalidInputError, match=f"{there}/{name}.*(no pictures|cannot be read)"):
        train([f"{there}/{name}"], SMALL)


def test_a_bucket_without_rights_is_one_line(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def forbid(*arguments: object, **named: object) -> None:
        raise PermissionError("Access Denied")

    s3fs = pytest.importorskip("s3fs")
    monkeypatch.setattr(s3fs.S3FileSystem, "_pipe_file", forbid)
    s3fs.S3FileSystem.clear_instance_cache()
    assert run("encode", f"{bucket}/crops/0.png", "-o", f"{bucket}/x.csc") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{bucket}/x.csc: cannot be written: no right to do so; look at your cred" in line
    assert not locations.exists(f"{bucket}/x.csc")


def test_http_is_for_reading(endpoint: str, bucket: str) -> None:
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem().chmod("pictures/crops/0.png", acl="public-read")
    url = f"{endpoint}/pictures/crops/0.png"
    assert run("encode", url, "-o", f"{bucket}/0.csc") == 0
    with pytest.raises(InvalidInputError, match="cannot be written: http is for reading"):
        locations.write_whole(f"{endpoint}/pictures/new.csc", b"", replace=True)


def test_unknown_schemes_and_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(InvalidInputError, match=r"magic://a: cannot be read .*magic"):
        locations.exists("magic://a")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'cscodec\[remote\]'"):
        locations.exists("s3://bucket/a")


def test_names_hold_elsewhere(tmp_path: Path) -> None:
    assert locations.absolute("a/b.png", str(tmp_path)) == str(tmp_path / "a/b.png")
    assert locations.absolute("s3://a/b.png", str(tmp_path)) == "s3://a/b.png"
    assert not locations.is_url("C:/a.png")


class Bucket:
    """A store whose names and errors no folder could have."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find(self, path: str, detail: bool) -> dict[str, dict[str, int]]:
        return {f"{path}/{name}": {"size": 1} for name in self.names}

    def open(self, path: str, mode: str) -> Bucket:
        return self

    def __enter__(self) -> Bucket:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        raise RuntimeError("the connection\nwas closed")


def put_behind_urls(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    core = pytest.importorskip("fsspec.core")
    monkeypatch.setattr(core, "url_to_fs", lambda url, **_: (bucket, "bucket/pictures"))


def test_names_that_lead_out_of_a_bucket_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined to a folder, /etc/x.png is /etc/x.png."""
    odd = ["/etc/x.png", "a//b.png", "../up.png", "a/../../up.png", "folder/", ".hidden", "a/.b"]
    put_behind_urls(Bucket(*odd, "a.png", "b/c.png", "..."), monkeypatch)
    assert list(locations.list_files("s3://bucket/pictures")) == ["a.png", "b/c.png"]


def test_errors_while_reading_are_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    put_behind_urls(Bucket(), monkeypatch)
    message = r"s3://x/y: cannot be read \(RuntimeError: the connection was closed\)"
    with (
        pytest.raises(InvalidInputError, match=message),
        locations.opened("s3://x/y") as stream,
    ):
        stream.read(5)
    with pytest.raises(ModelNotFoundError, match=message):
        load_model("s3://x/y")
