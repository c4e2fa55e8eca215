"""Training of the restorer: photographs and sensing matrices in, weights out.

The loss of a crop is the logarithm of its mean squared error, which is what PSNR counts; a floor
keeps crops that nobody could tell apart any more from mattering. Averaged weights are kept beside
those that are trained. The number of steps is fixed beforehand, so a run can be repeated.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from cscodec.learning.restorer.batches import Batch, Projections, draw_batches
from cscodec.learning.restorer.network import Restorer
from cscodec.learning.restorer.photographs import Photographs
from cscodec.learning.restorer.trials import Trial, mean_psnr_db

_BATCHES_AT_ONCE = 8
_STEPS_BEFORE_RECORDING = 8  # on a GPU: libraries choose and set up their kernels in these


@dataclass(frozen=True)
class TrainingOptions:
    """What determines the weights, beside the pictures and the sensing matrices.

    Attributes
    ----------
    steps : int
        Batches.
    batch_size, side : int
        Crops of a batch, and their height and width, a multiple of 8.
    learning_rate : float
        The highest; it rises from and falls to zero.
    warm_up : float
        Share of the steps that it rises in.
    error_floor : float
        Mean squared error that is added to that of every crop.
    averaging : float
        Weight of what was before in the averaged weights.
    clip : float
        Highest norm of the gradient.
    seed : int
    """

    steps: int = 41000
    batch_size: int = 40
    side: int = 160
    learning_rate: float = 2e-3
    warm_up: float = 0.03
    error_floor: float = 10.0
    averaging: float = 0.999
    clip: float = 1.0
    seed: int = 0

    def rate(self, step: int) -> float:
        """Return the share of the highest learning rate for a step, 0 being the first."""
        rising = max(1.0, self.warm_up * self.steps)
        if step < rising:
            return (step + 1) / rising
        done = (step - rising) / max(1.0, self.steps - rising)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


class Training:
    """A run: the network that learns, and the average of what it was.

    Parameters
    ----------
    options : TrainingOptions
    photographs, projections
        Where batches come from; the network is trained on their device.
    """

    def __init__(
        self,
        options: TrainingOptions,
        photographs: Photographs,
        projections: Projections,
    ) -> None:
        self.options = options
        self.photographs, self.projections = photographs, projections
        self.device = photographs.pixels.device
        torch.manual_seed(options.seed)
        network = Restorer().to(self.device)
        network.to(memory_format=torch.channels_last)
        self.network = network
        self.average = copy.deepcopy(network).requires_grad_(False)
        self.random = np.random.default_rng(options.seed)
        on_gpu = self.device.type == "cuda"
        self.rate = torch.zeros((), device=self.device) if on_gpu else 0.0
        self.optimizer = torch.optim.Adam(
            network.parameters(), lr=self.rate, betas=(0.9, 0.99), fused=on_gpu, capturable=on_gpu
        )
        self.step = 0
        self._averaged: list[Tensor] = list(self.average.parameters())
        self._learned: list[Tensor] = list(network.parameters())
        self._batches: list[Batch] = []
        self._recorded: RecordedStep | None = None

    def advance(self) -> Tensor:
        """Do one step; return its loss, still on the device."""
        self._set_rate(self.options.learning_rate * self.options.rate(self.step))
        batch = self._next_batch()
        if self.device.type == "cuda" and self.step >= _STEPS_BEFORE_RECORDING:
            if self._recorded is None:
                self._recorded = RecordedStep(self.learn, batch)
            value = self._recorded(batch)
        elif self.device.type == "cuda":
            # Not in the main stream, which nothing that is recorded may refer to.
            main, side = torch.cuda.current_stream(), torch.cuda.Stream()
            side.wait_stream(main)
            with torch.cuda.stream(side):
                value = self.learn(batch)
            main.wait_stream(side)
        else:
            value = self.learn(batch)
        # At first the average forgets faster, so as not to remember the start for long.
        decay = min(self.options.averaging, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(self._averaged, self._learned, 1 - decay)
        self.step += 1
        return value

    def learn(self, batch: Batch) -> Tensor:
        """Change the weights by what a batch says; return its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        value = loss(self.network, batch, self.options.error_floor)
        value.backward()
        torch.nn.utils.clip_grad_norm_(self._learned, self.options.clip)
        self.optimizer.step()
        return value.detach()

    def _set_rate(self, rate: float) -> None:
        if isinstance(self.rate, Tensor):
            self.rate.fill_(rate)
        else:
            for group in self.optimizer.param_groups:
                group["lr"] = rate

    def _next_batch(self) -> Batch:
        if not self._batches:
            self._batches = draw_batches(
                self.photographs,
                self.projections,
                _BATCHES_AT_ONCE,
                self.options.batch_size,
                self.options.side,
                self.random,
            )
        return self._batches.pop()


class RecordedStep:
    """A step on a GPU, recorded once: to launch its kernels one by one takes longer than they do.

    Parameters
    ----------
    learn : callable
        What to record: batch to loss. It is not done by recording it.
    batch : Batch
        Any, for its shapes.
    """

    def __init__(self, learn: Callable[[Batch], Tensor], batch: Batch) -> None:
        tensors = [getattr(batch, field.name).clone() for field in fields(Batch)]
        self._batch = Batch(*tensors)
        self._graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(self._graph):
            self._loss = learn(self._batch)

    def __call__(self, batch: Batch) -> Tensor:
        """Do the step with a batch; the loss returned lasts until the next one."""
        for field in fields(Batch):
            getattr(self._batch, field.name).copy_(getattr(batch, field.name))
        self._graph.replay()
        return self._loss


def loss(network: Restorer, batch: Batch, error_floor: float) -> Tensor:
    """Return the mean over crops of log(mean squared error + floor), in grey levels squared."""
    on_gpu = batch.target.device.type == "cuda"
    with torch.autocast("cuda", torch.bfloat16, enabled=on_gpu, cache_enabled=False):
        restored = network(batch.linear, batch.projection, batch.share)
    errors = (restored - batch.target).square().mean(dim=(1, 2, 3))
    mean: Tensor = (errors + error_floor).log().mean()
    return mean


def train(
    training: Training,
    trials: list[Trial],
    *,
    report_every: int,
    keep: Callable[[Training], None] | None = None,
) -> None:
    """Do all the steps; report on the way, and hand the run to ``keep`` after each report."""
    started = time.perf_counter()
    total = torch.zeros((), device=training.device)
    while training.step < training.options.steps:
        total += training.advance()
        if training.step % report_every == 0 or training.step == training.options.steps:
            mean_loss = total.item() / report_every
            total.zero_()
            elapsed = time.perf_counter() - started
            figures = "  ".join(
                f"{trial.name} {mean_psnr_db(training.average, trial):.3f}" for trial in trials
            )
            print(
                f"{training.step} steps, {elapsed:.0f} s, loss {mean_loss:.4f}  {figures}",
                flush=True,
            )
            if keep is not None:
                keep(training)
