"""Training: folders of pictures in, a model out.

The online method (the paper's Algorithm 1) streams patches, validates itself on held-out pictures,
and can be stopped and resumed at any batch; batch methods learn from one random set of patches.
The same pictures, parameters and seed give the same model file, byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cscodec.errors import InvalidInputError, SchedulerError
from cscodec.learning.checkpoint import (
    Checkpoint,
    check_configuration,
    checkpoint_exists,
    load_checkpoint,
    not_a_checkpoint,
    save_checkpoint,
)
from cscodec.learning.corpus import Channel
from cscodec.learning.interrupt import deferred_interrupt
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import RunSettings, TrainingOptions
from cscodec.learning.pictures import PictureSet, Reader, Survey, consult, forget, reader_of
from cscodec.learning.record import describe_data, make_model, record_test
from cscodec.learning.rounds import Feed, Rounds, Stream
from cscodec.learning.run_state import Matrices, RunState, Unfinished
from cscodec.learning.systems import make_system
from cscodec.learning.validation import Quality
from cscodec.model import Model
from cscodec.scheduler import Scheduler, open_scheduler
from cscodec.transform.patches import extract_patches

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
    folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: TrainingOptions | None = None,
    settings: RunSettings | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    workers: int | None = None,
) -> Model:
    """Train a model on the pictures of folders.

    Parameters
    ----------
    folders : path, or sequence of path
        Searched recursively. One picture in 16 is held out for validation.
    options : TrainingOptions, optional
        What is learned, and how; as in the paper by default.
    settings : RunSettings, optional
        Names, validation, checkpoints, limits, and where to work.
    progress : callable, optional
        Called after every batch of the online method.
    workers : int, optional
        Threads of this process; the model does not depend on them, nor on the scheduler.

    Raises
    ------
    InvalidInputError
        If parameters, folders or the checkpoint cannot be used; before any training.
    SchedulerError
        If the scheduler cannot be used, or is lost; the checkpoint was written.
    KeyboardInterrupt
        After Ctrl-C in the main thread: the batch was finished and the checkpoint written.
    """
    folders = [folders] if isinstance(folders, str | os.PathLike) else folders
    options = options or TrainingOptions()
    settings = settings or RunSettings()
    options.check()
    settings.check(options)
    # One BLAS thread, whatever the machine has: sums keep their order, and so their last bits.
    with (
        threadpool_limits(1, "blas"),
        open_scheduler(settings.scheduler, workers) as scheduler,
    ):
        pictures = PictureSet(settings.places(folders), settings.max_pixels)
        run = _Run(options, settings, scheduler, pictures, progress or (lambda _: None), workers)
        try:
            return run.learn_all(folders)
        finally:
            with suppress(SchedulerError):
                scheduler.call_everywhere(forget, pictures.run)


@dataclass
class _Run:
    """One training run: what it was asked, and what it has learned so far."""

    options: TrainingOptions
    settings: RunSettings
    scheduler: Scheduler
    pictures: PictureSet
    progress: Callable[[Progress], None]
    workers: int | None
    state: RunState = field(default_factory=RunState)

    def learn_all(self, folders: Sequence[str | os.PathLike[str]]) -> Model:
        """Learn all channels, going on from the checkpoint if asked to, and make the model."""
        settings = self.settings
        survey: Survey = self.ask(Reader.survey, settings.test_folder)
        self.pictures = replace(self.pictures, listing=survey.listing)
        if settings.resume:
            self.resume(survey)
        if self.options.chroma:
            self.ask(Reader.check_colour)
        for channel in _CHANNELS[: 1 + self.options.chroma]:
            self.learn(channel, survey)
        model = self.finish(folders, survey)
        if settings.test_folder is None:
            return model
        promise = self.scheduler.submit(
            record_test,
            model,
            *settings.places([settings.test_folder]),
            self.options.chosen_sparsity,
            settings.max_pixels,
            name="test",
        )
        tested: Model = self.scheduler.result(promise)
        return tested

    def ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Have a question answered where the pictures are."""
        promise = self.scheduler.submit(
            consult, self.pictures, question, *arguments, name=question.__name__
        )
        answer, skipped = self.scheduler.result(promise)
        self.state.skipped_pictures.update(skipped)
        return answer

    def learn(self, channel: Channel, survey: Survey) -> None:
        """Learn one channel's system, unless the checkpoint already had it."""
        state, options = self.state, self.options
        if channel in state.systems:
            return
        if options.method == "online":
            with deferred_interrupt() as interrupted:
                learner = self._learn_online(channel, survey, interrupted)
            state.skipped_patches[channel] = learner.num_skipped
            state.systems[channel] = Matrices(learner.sensing_matrix, learner.dictionary)
        else:
            from cscodec.learning.batch import learn_from_batch

            reader = reader_of(self.pictures)
            corpus = reader.corpus(channel, options.seed, self.workers)
            patches = np.concatenate([extract_patches(plane) for plane in reader.planes(channel)])
            learned = learn_from_batch(options, corpus, patches)
            state.skipped_pictures.update(reader.skipped | corpus.skipped)
            state.history[channel] = learned.history
            state.systems[channel] = Matrices(learned.sensing_matrix, learned.dictionary)
        state.unfinished = None
        self.save(survey)

    def _learn_online(
        self, channel: Channel, survey: Survey, interrupted: Callable[[], bool]
    ) -> OnlineLearner:
        """Algorithm 1."""
        options, settings, state = self.options, self.settings, self.state
        total = options.outer_iterations * options.dictionary_iterations
        feed = self._feed(channel, survey)
        done = 0
        if (begun := state.unfinished) is not None:
            learner, done = begun.learner, begun.iteration
            feed.restore(begun.positions)
        else:
            learner = feed.begin()
        for iteration in range(done + 1, total + 1):
            positions = feed.positions
            before = learner.state() if settings.is_elsewhere else {}
            try:
                quality = self._learn_batch(channel, iteration, learner, feed)
            except SchedulerError:
                self._keep(iteration - 1, OnlineLearner.from_state(before), positions, survey)
                raise
            self.progress(Progress(channel, iteration, total, quality))
            stop = interrupted()
            if stop or iteration % settings.checkpoint_every == 0:
                self._keep(iteration, learner, feed.positions, survey)
            if stop:
                raise KeyboardInterrupt
        for position in feed.positions:
            state.skipped_pictures.update(position["skipped"])
        return learner

    def _learn_batch(
        self, channel: Channel, iteration: int, learner: OnlineLearner, feed: Feed
    ) -> Quality | None:
        """One dictionary iteration, with a new sensing matrix before it or a validation after it
        if it is time for them."""
        options = self.options
        if (iteration - 1) % options.dictionary_iterations == 0:
            learner.update_sensing_matrix(forget=options.statistics == "restart")
        feed.learn(learner, is_last=iteration % options.dictionary_iterations == 0)
        last = options.outer_iterations * options.dictionary_iterations
        if iteration % self.settings.validation_interval(options) != 0 and iteration != last:
            return None
        system = make_system(learner.sensing_matrix, learner.dictionary)
        quality: Quality = self.ask(Reader.validate, channel, system, options.chosen_sparsity)
        row = {"iteration": iteration, **asdict(quality)}
        self.state.history.setdefault(channel, []).append(row)
        return quality

    def _feed(self, channel: Channel, survey: Survey) -> Feed:
        if self.options.shards > 1:
            return Rounds(self.scheduler, self.pictures, survey.num_training, channel, self.options)
        corpus = reader_of(self.pictures).corpus(channel, self.options.seed, self.workers)
        return Stream(corpus, self.options, self.workers)

    def _keep(
        self,
        iteration: int,
        learner: OnlineLearner,
        positions: Sequence[Mapping[str, Any]],
        survey: Survey,
    ) -> None:
        if iteration > 0:
            self.state.unfinished = Unfinished(iteration, learner, positions)
            self.save(survey)

    def finish(self, folders: Sequence[str | os.PathLike[str]], survey: Survey) -> Model:
        """Measure what was learned on held-out pictures and make the model."""
        state, options, settings = self.state, self.options, self.settings
        systems = {channel: found.system() for channel, found in state.systems.items()}
        held_out = {
            str(channel): self.ask(
                Reader.measure, channel, systems[channel], options.chosen_sparsity
            )
            for channel in _CHANNELS
            if channel in systems
        }
        data = describe_data(
            folders,
            settings.licence,
            (survey.num_training, survey.num_held_out),
            state.skipped_pictures,
            state.skipped_patches,
        )
        model = make_model(
            settings.name, options, systems, data=data, held_out=held_out, history=state.history
        )
        if options.wants_codec_tables:
            complete: Model = self.ask(Reader.complete, model, options.seed, self.workers)
            return complete
        return model

    def _configuration(self, survey: Survey) -> dict[str, Any]:
        """What a checkpoint must agree on."""
        return {
            **self.options.as_dict(),
            "validate_every": self.settings.validation_interval(self.options),
            "max_pixels": self.settings.max_pixels,
            "pictures": f"{survey.num_training} (listing {survey.listing})",
        }

    def save(self, survey: Survey) -> None:
        """Write the checkpoint, if one is wanted."""
        if (path := self.settings.checkpoint) is not None:
            configuration = self._configuration(survey)
            save_checkpoint(path, Checkpoint(configuration, self.state.as_mapping()))

    def resume(self, survey: Survey) -> None:
        """Take up the checkpoint, if there is one yet."""
        path = self.settings.checkpoint
        if path is None or not checkpoint_exists(path):
            return
        saved = load_checkpoint(path)
        check_configuration(path, saved.configuration, self._configuration(survey))
        try:
            self.state = RunState.from_mapping(saved.state, self.options)
        except InvalidInputError as error:
            raise not_a_checkpoint(path, error) from error
