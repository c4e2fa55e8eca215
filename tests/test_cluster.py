"""Training over shards: the same bytes wherever, by however many, and whoever dies meanwhile."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import cscodec
from cscodec import Model
from cscodec.cli import main
from cscodec.errors import InvalidInputError, SchedulerError
from cscodec.learning.options import RunSettings, TrainingOptions
from cscodec.learning.trainer import Progress, train
from cscodec.scheduler import Cluster, Threads, open_scheduler

ROOT = Path(__file__).resolve().parents[1]
SMALL = TrainingOptions(
    measurements=4,
    atoms=24,
    sparsity=2,
    batch_size=64,
    dictionary_iterations=6,
    outer_iterations=2,
    shards=3,
    seed=3,
)
HERE = RunSettings(name="small", validate_every=6)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, photo: npt.NDArray[np.uint8]) -> Path:
    """Seven pictures of 48 x 48 pixels, one held out, and a broken one among the others."""
    folder = tmp_path_factory.mktemp("training") / "crops"
    folder.mkdir()
    for i in range(7):
        Image.fromarray(photo[200:248, 50 * i : 50 * i + 48]).save(folder / f"{i}.png")
    (folder / "broken.png").write_bytes((folder / "0.png").read_bytes()[:500])
    return folder


@pytest.fixture(scope="module")
def model(pictures: Path) -> Model:
    """Trained in this process."""
    return train([pictures], SMALL, HERE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and two workers, each a process of its own."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def elsewhere(cluster: Any) -> RunSettings:
    return replace(HERE, scheduler=cluster.scheduler_address)


class TestSameBytes:
    def test_threads_change_nothing(self, pictures: Path, model: Model) -> None:
        assert train([pictures], SMALL, HERE, workers=3).to_bytes() == model.to_bytes()

    def test_nor_do_two_workers(self, pictures: Path, model: Model, elsewhere: RunSettings) -> None:
        assert train([pictures], SMALL, elsewhere).to_bytes() == model.to_bytes()

    def test_nor_does_one_of_this_machine(self, pictures: Path, model: Model) -> None:
        settings = replace(HERE, scheduler="local:1")
        assert train([pictures], SMALL, settings).to_bytes() == model.to_bytes()

    def test_nor_does_what_is_one_piece_of_work(
        self, pictures: Path, elsewhere: RunSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of two sums, two workers make one each; three threads take shard by shard."""
        monkeypatch.setattr("cscodec.learning.rounds._FAN_IN", 2)
        options = replace(SMALL, shards=4)
        here, there = (
            train([pictures], options, settings, workers=3) for settings in (HERE, elsewhere)
        )
        assert here.to_bytes() == there.to_bytes()

    def test_shards_do(self, pictures: Path, model: Model) -> None:
        other = train([pictures], replace(SMALL, shards=2), HERE)
        assert not np.array_equal(other.dictionary, model.dictionary)

    def test_everything_runs_elsewhere(self, pictures: Path, elsewhere: RunSettings) -> None:
        options = replace(SMALL, chroma=True, codec_tables=True)
        test = {"test_folder": pictures}
        here = train([pictures], options, replace(HERE, **test))
        there = train([pictures], options, replace(elsewhere, **test))
        assert here.to_bytes() == there.to_bytes()
        assert {"luma", "chroma"} == set(there.metadata["results"]["held_out"])


# In a worker: dies while it codes a share, the first time.
_KILL_ONCE = """
import os, signal
from cscodec.learning import rounds
whole = rounds.code_share
def code_share(pictures, shard, position, *rest):
    if shard.number == 1 and position["offset"] > 60 and not os.path.exists({flag!r}):
        open({flag!r}, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(pictures, shard, position, *rest)
rounds.code_share = code_share
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_worker_killed_in_a_round_leaves_no_trace(
    pictures: Path, model: Model, elsewhere: RunSettings, cluster: Any, tmp_path: Path
) -> None:
    flag = str(tmp_path / "killed")
    with cluster.get_client() as client:
        client.run(exec, _KILL_ONCE.format(flag=flag), {})
        before = set(client.nthreads())
        trained = train([pictures], SMALL, elsewhere)
        client.wait_for_workers(2)
        assert set(client.nthreads()) != before
    assert os.path.exists(flag)
    assert trained.to_bytes() == model.to_bytes()


def test_interrupted_and_resumed_elsewhere_is_uninterrupted(
    pictures: Path, model: Model, elsewhere: RunSettings, tmp_path: Path
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.iteration == 7:
            signal.raise_signal(signal.SIGINT)

    checkpoint = {"checkpoint": tmp_path / "run.checkpoint"}
    with pytest.raises(KeyboardInterrupt):
        train([pictures], SMALL, replace(elsewhere, **checkpoint), progress=interrupt)
    resumed = train([pictures], SMALL, replace(HERE, **checkpoint, resume=True))
    assert resumed.to_bytes() == model.to_bytes()


def test_a_lost_scheduler_costs_no_batch(
    pictures: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("cscodec.scheduler._PATIENCE_S", 2)
    checkpoint = {"checkpoint": tmp_path / "run.checkpoint"}
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:

        def lose(progress: Progress) -> None:
            if progress.iteration == 6:  # the next batch begins with a new sensing matrix
                cluster.close()

        settings = replace(HERE, scheduler=cluster.scheduler_address, **checkpoint)
        with pytest.raises(SchedulerError, match="the scheduler is lost"):
            train([pictures], SMALL, settings, progress=lose)
    done: list[Progress] = []
    settings = replace(HERE, **checkpoint, resume=True)
    resumed = train([pictures], SMALL, settings, progress=done.append)
    assert done[0].iteration == 7
    assert resumed.to_bytes() == model.to_bytes()


def test_unreadable_pictures_are_listed_as_ever(model: Model) -> None:
    assert list(model.metadata["data"]["skipped_pictures"]) == ["crops/broken.png"]


def test_a_shard_without_a_readable_picture_gives_nothing(pictures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "crops"
    folder.mkdir()
    for number, picture in enumerate(sorted(pictures.glob("?.png"))):
        data = picture.read_bytes()
        (folder / picture.name).write_bytes(data[:400] if number % 3 == 1 else data)
    found = train([folder], SMALL, HERE)
    assert set(found.metadata["data"]["skipped_pictures"]) == {"crops/1.png", "crops/4.png"}


class TestRefusals:
    @pytest.fixture(autouse=True)
    def nothing_is_left(self) -> Iterator[None]:
        """Dask's client, if collected on the thread that a later one starts, hinders that start."""
        yield
        gc.collect()

    @staticmethod
    def unused_port() -> int:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
            return port

    def test_out_of_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cscodec.scheduler._PATIENCE_S", 0.5)
        address = f"tcp://127.0.0.1:{self.unused_port()}"
        with (
            pytest.raises(SchedulerError, match=f"{address}: cannot be reached .*dask scheduler"),
            open_scheduler(address),
        ):
            pass

    @pytest.mark.parametrize("address", ["", "local:0", "local:many", "magic://there", "there"])
    def test_no_address(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cscodec.scheduler._PATIENCE_S", 0.5)
        if address != "local:0":  # not even tried: a client never connected takes 20 s to end
            monkeypatch.setattr("distributed.Client", None)
        with pytest.raises(SchedulerError, match="cannot be reached"), open_scheduler(address):
            pass

    def test_no_workers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        distributed = pytest.importorskip("distributed")
        monkeypatch.setattr("cscodec.scheduler._PATIENCE_S", 0.5)
        with (
            distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
            pytest.raises(SchedulerError, match="has no workers; start some with 'dask worker"),
            open_scheduler(cluster.scheduler_address),
        ):
            pass

    def test_another_release(self, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        here = cscodec.__version__
        monkeypatch.setattr(cscodec, "__version__", "99.0")
        with (
            pytest.raises(SchedulerError, match=rf"worker tcp.* has cscodec {here}, this is 99\.0"),
            open_scheduler(cluster.scheduler_address),
        ):
            pass

    def test_other_pictures(self, pictures: Path, tmp_path: Path, elsewhere: RunSettings) -> None:
        folder = tmp_path / "crops"
        folder.mkdir()
        for picture in pictures.iterdir():
            (folder / picture.name).write_bytes(picture.read_bytes())

        def change(progress: Progress) -> None:  # and make workers look again
            (folder / "0.png").unlink(missing_ok=True)
            with open_scheduler(elsewhere.scheduler) as scheduler:
                scheduler.call_everywhere(_forget_all)

        with pytest.raises(InvalidInputError, match="sees other pictures than the run was begun"):
            train([folder], SMALL, elsewhere, progress=change)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (replace(SMALL, shards=1), "--scheduler needs .*--shards 2 or more"),
            (replace(SMALL, shards=0), r"--shards is 0; allowed is 1\.\.16384"),
            (TrainingOptions(method="pca"), "--scheduler needs --method online"),
            (TrainingOptions(method="pca", shards=2), "--shards has no meaning for --method pca"),
        ],
    )
    def test_options(self, options: TrainingOptions, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            train(["never looked at"], options, RunSettings(scheduler="local:2"))

    def test_dask_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with (
            pytest.raises(InvalidInputError, match=r"pip install 'cscodec\[dask\]'"),
            open_scheduler("local:2"),
        ):
            pass


def _forget_all() -> None:
    from cscodec.learning import pictures

    pictures._readers.clear()


def test_threads_wait_for_older_work_only() -> None:
    with open_scheduler("local", workers=1) as scheduler:
        assert isinstance(scheduler, Threads)
        one = scheduler.submit(int, "1", name="one")
        both = scheduler.submit(sum, [one, scheduler.submit(int, "2", name="two")], name="sum")
        assert scheduler.result(both) == 3
        with scheduler.executor("digits") as executor:
            assert list(executor.map(int, "123456789")) == list(range(1, 10))


def _where(number: int, others: list[int]) -> tuple[int, str]:
    import distributed

    return number + sum(others), distributed.get_worker().address


def test_parts_stay_where_they_are_and_keep_their_order() -> None:
    """Each part has a worker of its own, in every round; arguments may hold promises."""
    pytest.importorskip("distributed")
    with open_scheduler("local:2") as scheduler:
        ten = scheduler.submit(int, "10", name="ten")
        places = []
        for _ in range(3):
            parts = {3: (3, [ten, ten]), 1: (1, [ten])}
            promises = scheduler.submit_parts(_where, parts, name="where")
            (first, place), (second, other) = map(scheduler.result, promises)
            assert (first, second) == (23, 11)
            places.append((place, other))
    assert len(set(places)) == 1
    assert len(set(places[0])) == 2


def test_a_client_that_was_closed_is_a_lost_scheduler() -> None:
    """Whatever Dask raises then: it depends on the call."""
    pytest.importorskip("distributed")
    with open_scheduler("local:1") as scheduler:
        assert isinstance(scheduler, Cluster)
        promise = scheduler.submit(int, "1", name="one")
        with pytest.raises(ValueError, match="invalid literal"):
            scheduler.result(scheduler.submit(int, "x", name="x"))
        scheduler._client.close()
        for call in (
            lambda: scheduler.submit(int, "1", name="one"),
            lambda: scheduler.submit_parts(int, {0: ("1",)}, name="one"),
            lambda: scheduler.call_everywhere(_forget_all),
            lambda: scheduler.result(promise),
        ):
            with pytest.raises(SchedulerError, match="the scheduler is lost"):
                call()


def test_the_command_line_trains_elsewhere(pictures: Path, tmp_path: Path, cluster: Any) -> None:
    command = [sys.executable, "-m", "cscodec", "train", str(pictures), "-m", "4", "--atoms", "24"]
    command += ["--sparsity", "2", "--batch-size", "64", "--dictionary-iterations", "6"]
    command += ["--outer-iterations", "2", "--shards", "3", "-o", str(tmp_path / "m.safetensors")]
    command += ["--scheduler", cluster.scheduler_address]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    assert "skipped crops/broken.png" in run.stderr
    assert cluster.scheduler_address not in str(cscodec.load_model(tmp_path / "m.safetensors"))


def test_a_report_shows_pictures_that_only_workers_see(
    pictures: Path, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")

    def see_nothing(folders: Any) -> Any:
        raise InvalidInputError(f"{folders}: not here")

    monkeypatch.setattr("cscodec.learning.pictures.list_pictures", see_nothing)
    command = ["train", str(pictures), "-m", "4", "--atoms", "24", "--batch-size", "64"]
    command += ["--dictionary-iterations", "2", "--outer-iterations", "1", "--shards", "3"]
    command += ["-o", str(tmp_path / "m.safetensors"), "--report", str(tmp_path / "report")]
    with pytest.raises(SystemExit) as caught:
        main([*command, "--scheduler", cluster.scheduler_address])
    assert caught.value.code == 0
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert "omp: " in page, "restored crops"


class TestFolders:
    @staticmethod
    def run(folder: Path, *command: str) -> tuple[int, Any, str]:
        words = [sys.executable, "-m", "cscodec", *command, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=folder, env=environment, check=False
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    def test_files_are_those_made_here(self, pictures: Path, tmp_path: Path, cluster: Any) -> None:
        (tmp_path / "in").symlink_to(pictures)
        there = ["--scheduler", cluster.scheduler_address]
        code, records, err = self.run(tmp_path, "encode", "-r", "in", "-d", "out", *there)
        assert code == 1
        assert "in/broken.png" in err
        assert [Path(record["input"]).name for record in records if "error" in record] == [
            "broken.png"
        ]
        assert {record["output"] for record in records if "output" in record} == {
            f"out/{i}.csc" for i in range(7)
        }
        expected = cscodec.encode(np.asarray(Image.open(pictures / "0.png")))
        assert (tmp_path / "out/0.csc").read_bytes() == expected
        code, records, _ = self.run(
            tmp_path, "decode", "-r", "out", "-d", "back", "--decoder", "linear", *there
        )
        assert code == 0
        assert {Path(record["output"]).suffix for record in records} == {".png"}
        again = ["encode", "-r", "in", "-d", "out", *there]
        code, records, _ = self.run(tmp_path, *again)
        assert {record.get("exit_code") for record in records} == {1, 3}, "outputs that exist"
        code, records, _ = self.run(tmp_path, *again, "--skip-existing")
        assert sum(record.get("skipped", False) for record in records) == 7

    def test_eval_measures_the_same(self, pictures: Path, tmp_path: Path) -> None:
        (tmp_path / "in").symlink_to(pictures)
        command = ["eval", "-r", "in", "-q", "50", "--decoder", "linear", "--decoder", "omp"]
        here, there = (
            self.run(tmp_path, *command, *more) for more in ([], ["--scheduler", "local:2"])
        )
        for _, report, _ in (here, there):
            for row in [*report["pictures"], *report["means"]]:
                assert row.pop("encode_s") > 0
                assert row.pop("decode_s") > 0
        assert there == here
        code, report, err = there
        assert code == 1
        assert [line for line in err.splitlines() if "in/broken.png" in line] == err.splitlines()
        inputs = [row["input"] for row in report["pictures"]]
        assert inputs == [f"in/{i}.png" for i in range(7) for _ in range(2)]

    def test_eval_elsewhere_has_no_standard_input(self) -> None:
        words = [sys.executable, "-m", "cscodec", "eval", "-", "--scheduler", "local:2"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 2
        assert "workers have no standard input" in done.stderr
