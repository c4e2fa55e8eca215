"""What a training run may be asked for: the parameters, their ranges, their flags.

The defaults are the paper's, but for what a new sensing matrix does to the statistics:
docs/paper.md says why. Parameters that cannot work are refused here, before any picture is read.
Importing this module is cheap, so the command line takes its defaults from it.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cscodec.errors import InvalidInputError
from cscodec.layout import MAX_ATOMS, MAX_MEASUREMENTS
from cscodec.locations import absolute, is_url

METHODS = ("online", "s-dcs", "bl", "robust", "random", "ksvd", "mod", "pca")
STATISTICS = ("restart", "keep")
UPDATES = ("exact", "printed")

#: The methods that weigh errors by γ, and each one's own choice.
GAMMAS = {"online": 1 / 32, "s-dcs": 1 / 32, "bl": 1 / 256}
#: Parameters that only the online method has, and those that only batch methods have.
ONLINE_ONLY = (
    "rho",
    "batch_size",
    "dictionary_iterations",
    "outer_iterations",
    "statistics",
    "update",
    "shards",
)
BATCH_ONLY = ("iterations", "patches", "parameters")

MAX_SHARDS = 1 << 14
_MOST_OF_A_SHARD = 1 << 20  # patches of a batch
#: What is usual where shards are coded apart: as many patches as in the paper, in fewer batches.
SHARDED = {"shards": 16, "batch_size": 8192, "dictionary_iterations": 16}

# Of an outer iteration: multiples of the golden ratio's share fall evenly anywhere in it.
_VALIDATION_SHARE = 0.382

MAX_TRAINING_PIXELS = 50_000_000  #: larger pictures are skipped


@dataclass(frozen=True)
class TrainingOptions:
    """Everything that, with the pictures, determines the trained model.

    Attributes
    ----------
    method : str
        One of `METHODS`; ``online`` is the paper's Algorithm 1.
    measurements, atoms : int
        M (1..63, beside the patch mean) and L (M..4096) in the paper.
    sparsity : int, optional
        K (1..M) in the paper; by default that of `default_sparsity`.
    gamma : float, optional
        Weight γ > 0 of the representation error beside the projected one; by default the method's
        own, of `GAMMAS`.
    rho : float
        Power ρ >= 0 of the forgetting factor (1 - 1/t)^ρ.
    batch_size : int
        Patches η per dictionary iteration.
    dictionary_iterations, outer_iterations : int
        Dictionary updates per sensing matrix, and updates of the sensing matrix.
    statistics : {"restart", "keep"}
        What a new sensing matrix does to A and B: the paper starts them again, by default they are
        kept.
    update : {"exact", "printed"}
        How an atom is updated: by the minimiser, or by the formula that the paper prints.
    shards : int
        Parts that the pictures are dealt into, each of which codes its share of every batch; with
        1, batches are drawn from all pictures together.
    iterations, patches : int, optional
        Rounds of a batch method, and the size of its training set; its own default if None.
    parameters : mapping of str to number or str
        Further parameters of a batch method, by their names in its function.
    chroma : bool
        Also train a system for Cb and Cr planes; otherwise the luma system serves them.
    codec_tables : bool, optional
        Also train the tables of the entropy coder; by default if all 63 measurements are kept,
        as in a model for the codec.
    seed : int
        Of every random choice.
    """

    method: str = "online"
    measurements: int = 20
    atoms: int = 256
    sparsity: int | None = None
    gamma: float | None = None
    rho: float = 15.0
    batch_size: int = 128
    dictionary_iterations: int = 1000
    outer_iterations: int = 10
    statistics: str = "keep"
    update: str = "exact"
    shards: int = 1
    iterations: int | None = None
    patches: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    chroma: bool = False
    codec_tables: bool | None = None
    seed: int = 0

    def check(self) -> None:
        """Refuse parameters that cannot work.

        Raises
        ------
        InvalidInputError
            With the flag, the value found and the allowed range.
        """
        choices = {"method": METHODS, "statistics": STATISTICS, "update": UPDATES}
        for name, allowed in choices.items():
            if (found := getattr(self, name)) not in allowed:
                raise InvalidInputError(
                    f"{flag(name)} is {found!r}; allowed are {', '.join(allowed)}"
                )
        top = max(1, min(self.measurements, MAX_MEASUREMENTS))
        ranges: dict[str, tuple[float, float]] = {
            "measurements": (1, MAX_MEASUREMENTS),
            "atoms": (top, MAX_ATOMS),
            "sparsity": (1, top),
            "batch_size": (1, _MOST_OF_A_SHARD * max(1, self.shards)),
            "dictionary_iterations": (1, math.inf),
            "outer_iterations": (1, math.inf),
            "rho": (0, 1e6),
            "shards": (1, MAX_SHARDS),
            "iterations": (1, math.inf),
            "patches": (self.atoms, math.inf),
            "seed": (0, 2**63 - 1),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                span = f"{low:g} or more" if high == math.inf else f"{low:g}..{high:g}"
                raise InvalidInputError(f"{flag(name)} is {value:g}; allowed is {span}")
        if self.gamma is not None and not 0 < self.gamma < math.inf:
            raise InvalidInputError(f"--gamma is {self.gamma:g}; allowed is any number above 0")
        for name in self._foreign():
            if getattr(self, name) != _DEFAULTS[name]:
                raise InvalidInputError(f"{flag(name)} has no meaning for --method {self.method}")

    def as_dict(self) -> dict[str, Any]:
        """JSON-able parameters of the method, without those that it does not have."""
        parameters = {
            **asdict(self),
            "sparsity": self.chosen_sparsity,
            "gamma": GAMMAS.get(self.method) if self.gamma is None else self.gamma,
            "codec_tables": self.wants_codec_tables,
        }
        return {key: value for key, value in parameters.items() if key not in self._foreign()}

    def description(self) -> str:
        """Say in a few words what a model trained so is."""
        text = f"{self.method}, {self.measurements} measurements, {self.atoms} atoms"
        return text + (", luma and chroma" if self.chroma else "")

    def _foreign(self) -> tuple[str, ...]:
        """Parameters that the method does not have."""
        foreign = BATCH_ONLY if self.method == "online" else ONLINE_ONLY
        return foreign if self.method in GAMMAS else (*foreign, "gamma")

    @property
    def chosen_sparsity(self) -> int:
        """K: what was asked for, or what suits M."""
        return default_sparsity(self.measurements) if self.sparsity is None else self.sparsity

    @property
    def wants_codec_tables(self) -> bool:
        """Whether entropy coder tables are to be trained."""
        if self.codec_tables is None:
            return self.measurements == MAX_MEASUREMENTS
        return self.codec_tables

    def command(self, folders: Sequence[str], output: str, **settings: str | int | None) -> str:
        """Return the command line that asks for this.

        Defaults but the seed are left out; ``settings`` that are not empty are flags besides.
        """
        words = ["cscodec", "train", *folders, "-o", output]
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if isinstance(value, bool):
                words += [flag(name if value else f"no_{name}")] if value != default else []
            elif name == "parameters":
                for key, number in value.items():
                    words += ["--parameter", f"{key}={format_value(number)}"]
            elif value != default or name == "seed":
                words += [flag(name), format_value(value)]
        for name, setting in settings.items():
            if setting not in ("", None):
                words += [flag(name), str(setting)]
        return shlex.join(words)


@dataclass(frozen=True)
class RunSettings:
    """How a training run is named, watched, stopped and limited.

    Attributes
    ----------
    name, licence : str
        Of the model, and of the pictures; recorded in it.
    test_folder : path, optional
        Pictures that the finished model is measured on, whole; the result is recorded in it.
    validate_every : int, optional
        Dictionary iterations between two validations, which are recorded too. By default 0.382 of
        an outer iteration: validations fall anywhere in it, and so see what each of them does.
    checkpoint : path, optional
        Where the run leaves its state (online method only).
    checkpoint_every : int
        Dictionary iterations between two checkpoints.
    resume : bool
        Go on from ``checkpoint`` if it exists; the model is then bit for bit that of a run that
        was never interrupted.
    max_pixels : int
        Larger pictures are skipped.
    scheduler : str, optional
        Where pictures are read and coded: the address of a Dask scheduler, ``local:N`` for N
        processes of this machine, or threads of this process (``local``, the default).
    """

    name: str = "model"
    licence: str = ""
    test_folder: str | os.PathLike[str] | None = None
    validate_every: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 500
    resume: bool = False
    max_pixels: int = MAX_TRAINING_PIXELS
    scheduler: str | None = None

    def check(self, options: TrainingOptions) -> None:
        """Refuse what cannot be had with these options.

        Raises
        ------
        InvalidInputError
            With the flag.
        """
        for name in ("validate_every", "checkpoint_every"):
            if (every := getattr(self, name)) is not None and every < 1:
                raise InvalidInputError(f"{flag(name)} is {every}; allowed is 1 or more")
        if self.resume and self.checkpoint is None:
            raise InvalidInputError("--resume needs --checkpoint")
        if self.checkpoint is not None and not is_url(self.checkpoint):
            folder = os.path.dirname(os.fspath(self.checkpoint)) or os.curdir
            if not os.path.isdir(folder):
                raise InvalidInputError(
                    f"{os.fspath(self.checkpoint)}: cannot be written: there is no folder {folder}"
                )
        if self.checkpoint is not None and options.method != "online":
            raise InvalidInputError("--checkpoint works with --method online only")
        if self.is_elsewhere and options.shards == 1:
            raise InvalidInputError(
                "--scheduler needs --method online and --shards 2 or more: what it hands out"
            )

    @property
    def is_elsewhere(self) -> bool:
        """Whether other processes read the pictures."""
        return self.scheduler not in (None, "local")

    def places(self, folders: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
        """Return folders by names that hold wherever they are read."""
        names = [os.fspath(folder) for folder in folders]
        return tuple(absolute(name) if self.is_elsewhere else name for name in names)

    def validation_interval(self, options: TrainingOptions) -> int:
        """Dictionary iterations between two validations."""
        if self.validate_every is None:
            return max(1, round(_VALIDATION_SHARE * options.dictionary_iterations))
        return self.validate_every


def default_sparsity(num_measurements: int) -> int:
    """Return a K that suits M measurements: a fifth of them, as in the paper, and at least 1.

    With few measurements some atoms are hardly seen by Φ, and a pursuit that may take more of them
    explains the little that it sees by large amounts of what it does not.
    """
    return max(1, num_measurements // 5)


def flag(name: str) -> str:
    """Return the command line's flag of a parameter."""
    return "--" + name.replace("_", "-")


def format_value(value: object) -> str:
    """Write a parameter so that it reads back as the same value."""
    return repr(value) if isinstance(value, float) else str(value)


_DEFAULTS = asdict(TrainingOptions())
