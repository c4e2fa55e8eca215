"""Training: folders of pictures in, a model out.

The online method (the paper's Algorithm 1) streams patches, validates itself on held-out pictures,
and can be stopped and resumed at any batch; batch methods learn from one random set of patches.
Either way the model carries the record of its making, without clocks or paths, so that the same
pictures, parameters and seed give the same file.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cscodec.errors import InvalidInputError
from cscodec.images import read_picture
from cscodec.learning.checkpoint import (
    Checkpoint,
    check_configuration,
    load_checkpoint,
    save_checkpoint,
)
from cscodec.learning.corpus import (
    MAX_TRAINING_PIXELS,
    Channel,
    Corpus,
    PictureFile,
    list_pictures,
    split_pictures,
)
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import TrainingOptions
from cscodec.learning.validation import (
    DECODERS,
    PROTOCOL,
    Quality,
    measure_quality,
    read_planes,
)
from cscodec.model import Model, System
from cscodec.sensing.patches import extract_patches, remove_mean

VALIDATION_SIDE = 256  #: pixels; centres of held-out pictures, so that a measurement takes moments
_MAX_START_BATCHES = 1000

Uint8Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a batch.

    Attributes
    ----------
    channel : {"luma", "chroma"}
    iteration, num_iterations : int
        Dictionary iterations done, over all outer iterations, and to do in all.
    quality : Quality or None
        On held-out pictures by the paper's decoder, if it was just measured.
    """

    channel: Channel
    iteration: int
    num_iterations: int
    quality: Quality | None = None


def train(
    folders: Sequence[str | os.PathLike[str]],
    options: TrainingOptions | None = None,
    *,
    name: str = "model",
    licence: str = "",
    validate_every: int = 500,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 500,
    resume: bool = False,
    max_pixels: int = MAX_TRAINING_PIXELS,
    progress: Callable[[Progress], None] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
) -> Model:
    """Train a model on the pictures of folders.

    Parameters
    ----------
    folders : sequence of path
        Searched recursively. One picture in 16 is held out for validation.
    options : TrainingOptions, optional
        The paper's by default.
    name, licence : str
        Of the model, and of the pictures; recorded in it.
    validate_every, checkpoint_every : int
        Dictionary iterations between two validations, and between two checkpoints.
    checkpoint : path, optional
        Where the run leaves its state (online method only).
    resume : bool
        Go on from ``checkpoint`` if it exists; the model is then bit for bit that of a run that
        was never interrupted.
    max_pixels : int
        Larger pictures are skipped.
    progress : callable, optional
        Called after every batch.
    executor, workers
        Where and with how many threads to work; the model does not depend on either.

    Raises
    ------
    InvalidInputError
        If parameters, folders or the checkpoint cannot be used; before any training.
    KeyboardInterrupt
        After Ctrl-C in the main thread: the batch was finished and the checkpoint written.
    """
    options = options or TrainingOptions()
    options.check()
    for label, every in (("validate", validate_every), ("checkpoint", checkpoint_every)):
        if every < 1:
            raise InvalidInputError(f"--{label}-every is {every}; allowed is 1 or more")
    if checkpoint is not None and options.method != "online":
        raise InvalidInputError("--checkpoint works with --method online only")
    training, held_out = split_pictures(list_pictures(folders))
    run = _Run(
        options,
        training,
        held_out,
        validate_every=validate_every,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        checkpoint_every=checkpoint_every,
        max_pixels=max_pixels,
        progress=progress or (lambda _: None),
        executor=executor,
        workers=workers,
    )
    # One BLAS thread, whatever the machine has: sums keep their order, and so their last bits.
    with threadpool_limits(1, "blas"):
        if resume:
            run.resume()
        channels: tuple[Channel, ...] = ("luma", "chroma") if options.chroma else ("luma",)
        for channel in channels:
            run.learn(channel)
        return run.finish(name, [Path(folder).resolve().name for folder in folders], licence)


@dataclass
class _Run:
    """One training run: what it was asked, what it has learned so far."""

    options: TrainingOptions
    training: list[PictureFile]
    held_out: list[PictureFile]
    validate_every: int
    checkpoint: Path | None
    checkpoint_every: int
    max_pixels: int
    progress: Callable[[Progress], None]
    executor: Executor | None
    workers: int | None
    systems: dict[Channel, dict[str, npt.NDArray[Any]]] = field(default_factory=dict)
    history: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    patches_skipped: dict[str, int] = field(default_factory=dict)
    pending: Mapping[str, Any] = field(default_factory=dict)  # of a channel half learned

    def learn(self, channel: Channel) -> None:
        """Learn one channel's system, unless the checkpoint already had it."""
        if channel in self.systems:
            return
        corpus = Corpus(
            self.training,
            channel=channel,
            seed=self.options.seed,
            max_pixels=self.max_pixels,
            workers=self.workers,
        )
        if self.options.method == "online":
            with _deferred_interrupt() as interrupted:
                self._learn_online(channel, corpus, interrupted)
        else:
            self._learn_batch(channel, corpus)

    def _learn_online(
        self, channel: Channel, corpus: Corpus, interrupted: Callable[[], bool]
    ) -> None:
        """Algorithm 1."""
        options = self.options
        total = options.outer_iterations * options.dictionary_iterations
        planes = self._planes(channel)
        if self.pending:
            learner = OnlineLearner.from_state(self.pending["learner"])
            corpus.restore(self.pending["corpus"])
            done = int(self.pending["iteration"])
        else:
            learner = self._started_learner(corpus)
            done = 0
        history = self.history.setdefault(channel, [])
        for iteration in range(done + 1, total + 1):
            if (iteration - 1) % options.dictionary_iterations == 0:
                learner.update_sensing_matrix()
            batch = corpus.next_batch(options.batch_size)
            learner.partial_fit(batch, executor=self.executor, workers=self.workers or 1)
            quality = None
            if iteration % self.validate_every == 0 or iteration == total:
                system = System.from_matrices(learner.sensing_matrix, learner.dictionary)
                quality = measure_quality(planes, system, sparsity=options.sparsity)
                history.append({"iteration": iteration, **asdict(quality)})
            self.progress(Progress(channel, iteration, total, quality))
            stop = interrupted()
            if self.checkpoint and (stop or iteration % self.checkpoint_every == 0):
                self.pending = {
                    "channel": channel,
                    "iteration": iteration,
                    "learner": learner.state(),
                    "corpus": corpus.state(),
                }
                self.save()
            if stop:
                raise KeyboardInterrupt
        self.pending = {}
        self._keep(channel, corpus, learner.sensing_matrix, learner.dictionary)
        self.patches_skipped[channel] = learner.num_skipped
        if self.checkpoint:
            self.save()

    def _started_learner(self, corpus: Corpus) -> OnlineLearner:
        options = self.options
        learner = OnlineLearner(
            num_measurements=options.measurements,
            num_atoms=options.atoms,
            sparsity=options.sparsity,
            gamma=options.gamma,
            rho=options.rho,
            seed=options.seed,
        )
        for _ in range(_MAX_START_BATCHES):
            learner.partial_fit(corpus.next_batch(options.batch_size))
            if learner.is_started:
                return learner
            if corpus.window_size < options.atoms:
                raise InvalidInputError(
                    f"the pictures hold {corpus.window_size} patches, fewer than "
                    f"--atoms {options.atoms}; add pictures or lower --atoms"
                )
        raise InvalidInputError(
            f"{learner.num_skipped} patches were constant or repeated and fewer than --atoms "
            f"{options.atoms} can be used; train on pictures with some texture"
        )

    def _learn_batch(self, channel: Channel, corpus: Corpus) -> None:
        """Any other method, on one random set of patches."""
        from cscodec.learning.rivals import METHODS, NUM_PATCHES

        options = self.options
        method = METHODS[options.method]
        known = inspect.signature(method).parameters
        if unknown := sorted(set(options.parameters) - set(known)):
            own = ", ".join(sorted(set(known) - {*_COMMON_ARGUMENTS, *_GIVEN_ARGUMENTS}))
            raise InvalidInputError(
                f"--method {options.method} has no parameter {unknown[0]!r}; "
                f"its own are: {own or 'none'}"
            )
        arguments = {key: getattr(options, value) for key, value in _COMMON_ARGUMENTS.items()}
        if options.iterations is None:
            del arguments["iterations"]
        arguments = {key: value for key, value in arguments.items() if key in known}
        arguments.update(options.parameters)
        if "validation_patches" in known:
            planes = self._planes(channel)
            stacked = np.concatenate([extract_patches(plane) for plane in planes])
            arguments["validation_patches"], _ = remove_mean(stacked)
        wanted = options.patches or NUM_PATCHES[options.method]
        patches = corpus.next_batch(min(wanted, max(1, corpus.window_size)))
        learned = method(patches, **arguments)
        self.history[channel] = learned.history
        self._keep(channel, corpus, learned.sensing_matrix, learned.dictionary)

    def _keep(
        self,
        channel: Channel,
        corpus: Corpus,
        phi: npt.NDArray[np.floating],
        psi: npt.NDArray[np.floating],
    ) -> None:
        self.skipped.update(corpus.skipped)
        self.systems[channel] = {"sensing_matrix": phi, "dictionary": psi}

    def _system(self, channel: Channel) -> System:
        return System.from_matrices(**self.systems[channel])

    def _planes(self, channel: Channel) -> list[Uint8Array]:
        planes = read_planes(
            self.held_out, channel, max_side=VALIDATION_SIDE, max_pixels=self.max_pixels
        )
        # Held-out pictures may all be broken, small or gray; then training pictures must do.
        return planes or read_planes(
            self.training[: len(self.held_out)],
            channel,
            max_side=VALIDATION_SIDE,
            max_pixels=self.max_pixels,
        )

    def finish(self, name: str, folders: list[str], licence: str) -> Model:
        """Measure what was learned on held-out pictures and make the model."""
        luma = self._system("luma")
        chroma = self._system("chroma") if "chroma" in self.systems else luma
        held_out = {}
        for channel in self.systems:
            planes = self._planes(channel)
            held_out[channel] = {
                decoder: asdict(
                    measure_quality(
                        planes, self._system(channel), decoder, sparsity=self.options.sparsity
                    )
                )
                for decoder in DECODERS
            }
        metadata = {
            "description": self.options.description(),
            "command": self.options.command(folders, f"{name}.safetensors"),
            "configuration": self.options.as_dict(),
            "data": {
                "folders": folders,
                "licence": licence,
                "num_pictures": len(self.training),
                "num_held_out": len(self.held_out),
                "skipped_pictures": self.skipped,
                "skipped_patches": self.patches_skipped,
            },
            "results": {"protocol": PROTOCOL, "held_out": held_out, "history": self.history},
        }
        model = Model(name, luma, chroma, metadata=metadata)
        if not self.options.wants_codec_tables:
            return model
        from cscodec.learning.priors import train_tables

        return replace(model, tables=train_tables(model, self._pictures()))

    def _pictures(self) -> Iterator[Uint8Array]:
        """The training pictures, one after the other, without those that cannot be read."""
        for picture in self.training:
            if picture.name not in self.skipped:
                yield read_picture(picture.path, max_pixels=self.max_pixels).pixels

    def _configuration(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""
        listing = "\n".join(f"{p.name} {p.path.stat().st_size}" for p in self.training)
        digest = hashlib.sha256(listing.encode()).hexdigest()[:16]
        return {
            **self.options.as_dict(),
            "validate_every": self.validate_every,
            "max_pixels": self.max_pixels,
            "pictures": f"{len(self.training)} (listing {digest})",
        }

    def save(self) -> None:
        """Write the checkpoint."""
        assert self.checkpoint is not None
        state = {key: getattr(self, key) for key in _SAVED}
        save_checkpoint(self.checkpoint, Checkpoint(self._configuration(), state))

    def resume(self) -> None:
        """Take up the checkpoint, if there is one yet."""
        if self.checkpoint is None:
            raise InvalidInputError("--resume needs --checkpoint")
        if not self.checkpoint.exists():
            return
        saved = load_checkpoint(self.checkpoint)
        check_configuration(self.checkpoint, saved.configuration, self._configuration())
        for key in _SAVED:
            setattr(self, key, saved.state[key])


_SAVED = ("systems", "history", "skipped", "patches_skipped", "pending")

#: Arguments of batch methods, and the options that they are.
_COMMON_ARGUMENTS = {
    "num_measurements": "measurements",
    "num_atoms": "atoms",
    "sparsity": "sparsity",
    "gamma": "gamma",
    "iterations": "iterations",
    "seed": "seed",
}
_GIVEN_ARGUMENTS = ("patches", "validation_patches", "observer")


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C only sets a flag (the second acts at once); yields its reader.

    Signals can be handled in the main thread alone; elsewhere the flag never rises.
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set
        return

    def raise_flag(number: int, frame: object) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, raise_flag)
    try:
        yield flag.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
