"""Training: folders of pictures in, a model out.

The online method (the paper's Algorithm 1) streams patches, validates itself on held-out pictures,
and can be stopped and resumed at any batch; batch methods learn from one random set of patches.
The same pictures, parameters and seed give the same model file, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.learning.checkpoint import (
    Checkpoint,
    check_configuration,
    load_checkpoint,
    not_a_checkpoint,
    save_checkpoint,
)
from cscodec.learning.corpus import (
    MAX_HELD_OUT,
    Channel,
    Corpus,
    PictureFile,
    chroma_planes,
    list_pictures,
    read_pixels,
    split_pictures,
)
from cscodec.learning.interrupt import deferred_interrupt
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import RunSettings, TrainingOptions
from cscodec.learning.record import describe_data, make_model, record_test
from cscodec.learning.run_state import Matrices, RunState, Unfinished
from cscodec.learning.start import start_learner
from cscodec.learning.systems import make_system
from cscodec.learning.validation import (
    Quality,
    measure_decoders,
    measure_quality,
    read_planes,
)
from cscodec.model import Model
from cscodec.transform.patches import extract_patches

VALIDATION_SIDE = 256  #: pixels; centres of held-out pictures, so that a measurement takes moments
_CHANNELS: tuple[Channel, ...] = ("luma", "chroma")


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
    settings: RunSettings | None = None,
    *,
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
        What is learned, and how; as in the paper by default.
    settings : RunSettings, optional
        Names, validation, checkpoints and limits.
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
    settings = settings or RunSettings()
    options.check()
    settings.check(options)
    if settings.test_folder is not None:
        list_pictures([settings.test_folder])  # refused now rather than after all the work
    training, held_out = split_pictures(list_pictures(folders))
    callback = progress or (lambda _: None)
    run = _Run(options, settings, training, held_out, callback, executor, workers)
    # One BLAS thread, whatever the machine has: sums keep their order, and so their last bits.
    with threadpool_limits(1, "blas"):
        if settings.resume:
            run.resume()
        if options.chroma:
            run.check_colour()
        run.learn("luma")
        if options.chroma:
            run.learn("chroma")
        model = run.finish(folders)
        if settings.test_folder is not None:
            model = record_test(
                model,
                settings.test_folder,
                sparsity=options.chosen_sparsity,
                max_pixels=settings.max_pixels,
            )
    return model


@dataclass
class _Run:
    """One training run: what it was asked, and what it has learned so far."""

    options: TrainingOptions
    settings: RunSettings
    training: list[PictureFile]
    held_out: list[PictureFile]
    progress: Callable[[Progress], None]
    executor: Executor | None
    workers: int | None
    state: RunState = field(default_factory=RunState)

    def learn(self, channel: Channel) -> None:
        """Learn one channel's system, unless the checkpoint already had it."""
        state = self.state
        if channel in state.systems:
            return
        corpus = Corpus(
            self.training,
            channel=channel,
            seed=self.options.seed,
            max_pixels=self.settings.max_pixels,
            workers=self.workers,
        )
        planes = self.validation_planes(channel)
        if self.options.method == "online":
            with deferred_interrupt() as interrupted:
                learner = self._learn_online(channel, corpus, planes, interrupted)
            state.skipped_patches[channel] = learner.num_skipped
            state.systems[channel] = Matrices(learner.sensing_matrix, learner.dictionary)
        else:
            from cscodec.learning.batch import learn_from_batch

            patches = np.concatenate([extract_patches(plane) for plane in planes])
            learned = learn_from_batch(self.options, corpus, patches)
            state.history[channel] = learned.history
            state.systems[channel] = Matrices(learned.sensing_matrix, learned.dictionary)
        state.skipped_pictures.update(corpus.skipped)
        state.unfinished = None
        self.save()

    def _learn_online(
        self,
        channel: Channel,
        corpus: Corpus,
        planes: list[Pixels],
        interrupted: Callable[[], bool],
    ) -> OnlineLearner:
        """Algorithm 1."""
        options, settings = self.options, self.settings
        total = options.outer_iterations * options.dictionary_iterations
        validate_every = settings.validation_interval(options)
        done = 0
        if (begun := self.state.unfinished) is not None:
            learner, done = begun.learner, begun.iteration
            corpus.restore(begun.corpus)
        else:
            learner = start_learner(options, corpus)
        history = self.state.history.setdefault(channel, [])
        for iteration in range(done + 1, total + 1):
            if (iteration - 1) % options.dictionary_iterations == 0:
                learner.update_sensing_matrix(forget=options.statistics == "restart")
            batch = corpus.next_batch(options.batch_size)
            learner.partial_fit(batch, executor=self.executor, workers=self.workers or 1)
            quality = None
            if iteration % validate_every == 0 or iteration == total:
                system = make_system(learner.sensing_matrix, learner.dictionary)
                quality = measure_quality(planes, system, sparsity=options.chosen_sparsity)
                history.append({"iteration": iteration, **asdict(quality)})
            self.progress(Progress(channel, iteration, total, quality))
            stop = interrupted()
            if stop or iteration % settings.checkpoint_every == 0:
                self.state.unfinished = Unfinished(iteration, learner, corpus.state())
                self.save()
            if stop:
                raise KeyboardInterrupt
        return learner

    def check_colour(self) -> None:
        """Refuse pictures without colour before luma is learned from them."""
        skipped: dict[str, str] = {}
        for picture in self.training:
            pixels = read_pixels(picture, self.settings.max_pixels, skipped)
            if pixels is not None and any(
                np.ptp(plane) for plane in chroma_planes(pixels) if plane.size
            ):
                return
        raise InvalidInputError(
            f"none of the {len(self.training)} pictures to train on has colour; "
            "train without --chroma, or add pictures in colour"
        )

    def validation_planes(self, channel: Channel) -> list[Pixels]:
        """Centres of held-out pictures."""
        # Held-out pictures may all be broken, small or gray; then training pictures must do.
        for pictures in (self.held_out, self.training[:MAX_HELD_OUT]):
            planes = read_planes(
                pictures,
                channel,
                max_side=VALIDATION_SIDE,
                max_pixels=self.settings.max_pixels,
                skipped=self.state.skipped_pictures,
            )
            if planes:
                return planes
        raise InvalidInputError(
            f"no picture to validate on has {channel} of 16 x 16 pixels or more; add larger ones"
        )

    def finish(self, folders: Sequence[str | os.PathLike[str]]) -> Model:
        """Measure what was learned on held-out pictures and make the model."""
        state, settings = self.state, self.settings
        systems = {channel: found.system() for channel, found in state.systems.items()}
        held_out = {}
        for channel in _CHANNELS:
            if channel in systems:
                planes = self.validation_planes(channel)
                held_out[str(channel)] = measure_decoders(
                    planes, systems[channel], sparsity=self.options.chosen_sparsity
                )
        data = describe_data(
            folders,
            settings.licence,
            self.training,
            self.held_out,
            state.skipped_pictures,
            state.skipped_patches,
        )
        model = make_model(
            settings.name,
            self.options,
            systems,
            data=data,
            held_out=held_out,
            history=state.history,
        )
        if self.options.wants_codec_tables:
            from cscodec.learning.coding import learn_coding

            model = learn_coding(
                model, self._pictures(), seed=self.options.seed, workers=self.workers
            )
        return model

    def _pictures(self) -> Iterator[Pixels]:
        for picture in self.training:
            pixels = read_pixels(picture, self.settings.max_pixels, self.state.skipped_pictures)
            if pixels is not None:
                yield pixels

    def _configuration(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""
        listing = "\n".join(f"{p.name} {p.path.stat().st_size}" for p in self.training)
        digest = hashlib.sha256(listing.encode()).hexdigest()[:16]
        return {
            **self.options.as_dict(),
            "validate_every": self.settings.validation_interval(self.options),
            "max_pixels": self.settings.max_pixels,
            "pictures": f"{len(self.training)} (listing {digest})",
        }

    def save(self) -> None:
        """Write the checkpoint, if one is wanted."""
        if (path := self.settings.checkpoint) is not None:
            save_checkpoint(path, Checkpoint(self._configuration(), self.state.as_mapping()))

    def resume(self) -> None:
        """Take up the checkpoint, if there is one yet."""
        path = self.settings.checkpoint
        if path is None or not Path(path).exists():
            return
        saved = load_checkpoint(path)
        check_configuration(path, saved.configuration, self._configuration())
        try:
            self.state = RunState.from_mapping(saved.state, self.options)
        except InvalidInputError as error:
            raise not_a_checkpoint(path, error) from error
