"""Training: folders of pictures in, a model out.

The online method (the paper's Algorithm 1) streams patches, validates itself on held-out pictures,
and can be stopped and resumed at any batch; batch methods learn from one random set of patches.
The same pictures, parameters and seed give the same model file, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cscodec.errors import InvalidInputError
from cscodec.learning.checkpoint import (
    Checkpoint,
    check_configuration,
    load_checkpoint,
    save_checkpoint,
)
from cscodec.learning.corpus import (
    MAX_HELD_OUT,
    MAX_TRAINING_PIXELS,
    Channel,
    Corpus,
    PictureFile,
    list_pictures,
    read_pixels,
    split_pictures,
)
from cscodec.learning.interrupt import deferred_interrupt
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import TrainingOptions
from cscodec.learning.record import describe_data, make_model, record_test
from cscodec.learning.start import start_learner
from cscodec.learning.systems import make_system
from cscodec.learning.validation import (
    Quality,
    measure_decoders,
    measure_quality,
    read_planes,
)
from cscodec.model import Model
from cscodec.sensing.patches import extract_patches

VALIDATION_SIDE = 256  #: pixels; centres of held-out pictures, so that a measurement takes moments
_CHANNELS: tuple[Channel, ...] = ("luma", "chroma")

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
    test_folder: str | os.PathLike[str] | None = None,
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
    test_folder : path, optional
        Pictures that the finished model is measured on, whole; the result is recorded in it.
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
        Called after every batch of the online method.
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
    if resume and checkpoint is None:
        raise InvalidInputError("--resume needs --checkpoint")
    if checkpoint is not None and options.method != "online":
        raise InvalidInputError("--checkpoint works with --method online only")
    if test_folder is not None:
        list_pictures([test_folder])  # refused now rather than after all the work
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
        run.learn("luma")
        if options.chroma:
            run.learn("chroma")
        model = run.finish(name, folders, licence)
        if test_folder is not None:
            model = record_test(
                model, test_folder, sparsity=options.sparsity, max_pixels=max_pixels
            )
    return model


@dataclass
class _Run:
    """One training run: what it was asked, and what it has learned so far."""

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
    # From here on: what a checkpoint keeps.
    systems: dict[str, dict[str, npt.NDArray[Any]]] = field(default_factory=dict)
    history: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    skipped_pictures: dict[str, str] = field(default_factory=dict)
    skipped_patches: dict[str, int] = field(default_factory=dict)
    unfinished: Mapping[str, Any] = field(default_factory=dict)  # state of a half-learned channel

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
        planes = self.validation_planes(channel)
        if self.options.method == "online":
            with deferred_interrupt() as interrupted:
                learner = self._learn_online(channel, corpus, planes, interrupted)
            self.skipped_patches[channel] = learner.num_skipped
            self._keep(channel, learner.sensing_matrix, learner.dictionary)
        else:
            from cscodec.learning.batch import learn_from_batch

            patches = np.concatenate([extract_patches(plane) for plane in planes])
            learned = learn_from_batch(self.options, corpus, patches)
            self.history[channel] = learned.history
            self._keep(channel, learned.sensing_matrix, learned.dictionary)
        self.skipped_pictures.update(corpus.skipped)
        self.unfinished = {}
        self.save()

    def _keep(self, channel: Channel, phi: npt.NDArray[Any], psi: npt.NDArray[Any]) -> None:
        self.systems[channel] = {"sensing_matrix": phi, "dictionary": psi}

    def _learn_online(
        self,
        channel: Channel,
        corpus: Corpus,
        planes: list[Uint8Array],
        interrupted: Callable[[], bool],
    ) -> OnlineLearner:
        """Algorithm 1."""
        options = self.options
        total = options.outer_iterations * options.dictionary_iterations
        done = 0
        if self.unfinished:
            learner = OnlineLearner.from_state(self.unfinished["learner"])
            corpus.restore(self.unfinished["corpus"])
            done = int(self.unfinished["iteration"])
        else:
            learner = start_learner(options, corpus)
        history = self.history.setdefault(channel, [])
        for iteration in range(done + 1, total + 1):
            if (iteration - 1) % options.dictionary_iterations == 0:
                learner.update_sensing_matrix(forget=options.statistics == "restart")
            batch = corpus.next_batch(options.batch_size)
            learner.partial_fit(batch, executor=self.executor, workers=self.workers or 1)
            quality = None
            if iteration % self.validate_every == 0 or iteration == total:
                system = make_system(learner.sensing_matrix, learner.dictionary)
                quality = measure_quality(planes, system, sparsity=options.sparsity)
                history.append({"iteration": iteration, **asdict(quality)})
            self.progress(Progress(channel, iteration, total, quality))
            stop = interrupted()
            if stop or iteration % self.checkpoint_every == 0:
                self.unfinished = {
                    "iteration": iteration,
                    "learner": learner.state(),
                    "corpus": corpus.state(),
                }
                self.save()
            if stop:
                raise KeyboardInterrupt
        return learner

    def validation_planes(self, channel: Channel) -> list[Uint8Array]:
        """Centres of held-out pictures."""
        # Held-out pictures may all be broken, small or gray; then training pictures must do.
        for pictures in (self.held_out, self.training[:MAX_HELD_OUT]):
            planes = read_planes(
                pictures,
                channel,
                max_side=VALIDATION_SIDE,
                max_pixels=self.max_pixels,
                skipped=self.skipped_pictures,
            )
            if planes:
                return planes
        raise InvalidInputError(
            f"no picture to validate on has {channel} of 16 x 16 pixels or more; add larger ones"
        )

    def finish(self, name: str, folders: Sequence[str | os.PathLike[str]], licence: str) -> Model:
        """Measure what was learned on held-out pictures and make the model."""
        systems = {channel: make_system(**arrays) for channel, arrays in self.systems.items()}
        held_out = {}
        for channel in _CHANNELS:
            if channel in systems:
                planes = self.validation_planes(channel)
                held_out[str(channel)] = measure_decoders(
                    planes, systems[channel], sparsity=self.options.sparsity
                )
        data = describe_data(
            folders,
            licence,
            self.training,
            self.held_out,
            self.skipped_pictures,
            self.skipped_patches,
        )
        model = make_model(
            name, self.options, systems, data=data, held_out=held_out, history=self.history
        )
        if self.options.wants_codec_tables:
            from cscodec.learning.coding import learn_coding

            model = learn_coding(
                model, self._pictures(), seed=self.options.seed, workers=self.workers
            )
        return model

    def _pictures(self) -> Iterator[Uint8Array]:
        for picture in self.training:
            pixels = read_pixels(picture, self.max_pixels, self.skipped_pictures)
            if pixels is not None:
                yield pixels

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
        """Write the checkpoint, if one is wanted."""
        if self.checkpoint is not None:
            state = {key: getattr(self, key) for key in _SAVED}
            save_checkpoint(self.checkpoint, Checkpoint(self._configuration(), state))

    def resume(self) -> None:
        """Take up the checkpoint, if there is one yet."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        saved = load_checkpoint(self.checkpoint)
        check_configuration(self.checkpoint, saved.configuration, self._configuration())
        for key in _SAVED:
            setattr(self, key, saved.state[key])


_SAVED = ("systems", "history", "skipped_pictures", "skipped_patches", "unfinished")
