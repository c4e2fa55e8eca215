"""``python -m cscodec.learning.restorer PHOTOS -o FILE``: trains decoder ``learned``.

One command makes all: sensing matrices to learn with, the network, and its weights in bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cscodec.errors import CscodecError, InvalidInputError

_REPORTED = (5, 15, 20)  # measurements that reports are about
_REPORTED_SIDE = 512


def main() -> None:
    """Read the command line, train, write the weights."""
    parser = argparse.ArgumentParser(
        prog="python -m cscodec.learning.restorer", description="Train decoder 'learned'."
    )
    parser.add_argument("folders", nargs="+", metavar="PHOTOS", help="folders of photographs")
    parser.add_argument("-o", "--output", required=True, type=Path, help="a .safetensors file")
    parser.add_argument("--seed", type=int, default=0, help="of every random choice")
    parser.add_argument("--steps", type=int, help="batches; fewer for a trial (default 41000)")
    parser.add_argument("--report-every", type=int, default=2000, metavar="STEPS")
    parser.add_argument("--test-folder", help="pictures to report on, beside those held out")
    parser.add_argument("--test-model", default="paper-m20", help="whose Φ reports are about")
    parser.add_argument("--device", help="cuda or cpu; by default cuda where it is")
    arguments = parser.parse_args()
    try:
        if arguments.report_every < 1 or (arguments.steps is not None and arguments.steps < 1):
            raise InvalidInputError("--steps and --report-every are 1 or more")
        _train(arguments)
    except (CscodecError, OSError) as error:
        raise SystemExit(f"error: {error}") from None


def _train(arguments: argparse.Namespace) -> None:
    try:
        import torch
    except ImportError as error:
        raise InvalidInputError(
            f"training the restorer needs PyTorch ({error}): pip install 'cscodec[restorer]'"
        ) from error
    from safetensors.numpy import save

    from cscodec.learning.corpus import list_pictures, split_pictures
    from cscodec.learning.options import MAX_TRAINING_PIXELS
    from cscodec.learning.restorer import batches, photographs, training
    from cscodec.learning.restorer.packing import pack_weights
    from cscodec.learning.restorer.sensing_matrices import training_matrices
    from cscodec.learning.restorer.trials import Trial
    from cscodec.learning.validation import read_planes
    from cscodec.model import load_model

    torch.backends.cudnn.deterministic = True
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    options = training.TrainingOptions(seed=arguments.seed)
    options = training.TrainingOptions(seed=arguments.seed, steps=arguments.steps or options.steps)
    learned_from, held_out = split_pictures(list_pictures(arguments.folders))
    sets = {"held out": held_out}
    if arguments.test_folder is not None:
        sets[Path(arguments.test_folder).name] = list_pictures([arguments.test_folder])
    skipped: dict[str, str] = {}
    phi = load_model(arguments.test_model).luma.sensing_matrix
    sizes = {"max_side": _REPORTED_SIDE, "max_pixels": MAX_TRAINING_PIXELS}
    trials = [
        Trial(f"{name} m={m}", planes, phi[:m], device)
        for name, pictures in sets.items()
        for planes in [read_planes(pictures, "luma", **sizes, skipped=skipped)]
        for m in _REPORTED
    ]
    planes = photographs.read_photographs(learned_from, options.side, skipped)
    for name, reason in sorted(skipped.items()):
        print(f"skipped {name}: {reason}", file=sys.stderr)
    print("learning sensing matrices", file=sys.stderr, flush=True)
    run = training.Training(
        options,
        photographs.Photographs(planes, device),
        batches.Projections(training_matrices(learned_from, arguments.seed), device),
    )

    def keep(run: training.Training) -> None:
        state = run.average.state_dict()
        arrays = pack_weights({name: value.cpu().numpy() for name, value in state.items()})
        arguments.output.write_bytes(save(arrays))

    training.train(run, trials, report_every=arguments.report_every, keep=keep)


if __name__ == "__main__":
    main()
