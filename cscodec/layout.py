"""The numbers of the format: patches, how their measurements are grouped, and limits.

Measurement 0 is the mean; the others are ordered by falling singular value of the dictionary.
They are coded in layers, so that a file cut short still shows a whole picture, and within a layer
in bands, each with a flag that says whether anything in it is not zero.
"""

from __future__ import annotations

PATCH_SIZE = 8  #: pixels on each side of a patch
PATCH_PIXELS = PATCH_SIZE * PATCH_SIZE  #: N in the paper
NUM_MEASUREMENTS = PATCH_PIXELS  #: most numbers of a patch, its mean included
MAX_MEASUREMENTS = NUM_MEASUREMENTS - 1  #: the patch mean is measurement zero and not counted
MAX_ATOMS = 4096  #: most columns that a dictionary may have
MODEL_ID_BYTES = 8
CODER_ID = 1  #: of the context-mixing coder, in the header of files
MAX_DIMENSION = (1 << 24) - 1  #: most pixels on each side of a picture
DEFAULT_MAX_PIXELS = 200_000_000  #: readers refuse larger pictures, unless they are told otherwise
#: First measurement of every layer, and the end of the last.
LAYERS = (0, 1, 6, 21, 64)
NUM_LAYERS = len(LAYERS) - 1
#: First measurement of every band of the layers after the mean, and the end of the last.
BANDS = (1, 6, 13, 21, 31, 43, 64)
NUM_BANDS = len(BANDS) - 1
#: Measurements below this have a predicted sign; later ones have random signs.
SIGNED = 21
#: Patches around the one at hand: row and column offsets. The first four are coded before it.
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, 1), (1, 0), (1, -1), (1, 1))
NUM_CAUSAL = 4
#: Likewise, patches that are coded before, whose means say what to expect of that of this one.
AROUND_MEAN = (
    *((0, -1), (-1, -1), (-1, 0), (-1, 1), (0, -2), (-2, 0)),
    *((-2, 1), (-2, -1), (-1, -2), (-1, 2), (-2, 2), (-2, -2)),
)
#: Where predictions come from: the neighbours, the patch itself, the luma of a chroma patch, and
#: the first chroma plane for the second.
OWN = 8
LUMA = 9
CHROMA = 10
NUM_SOURCES = 11
NUM_PLANES = 3
#: Fixed-point units of predicted magnitudes, and of the logarithms that they are predicted from.
MAGNITUDE_ONE = 1 << 14
LOG_ONE = 1 << 4
VALUE_CLIP = 32  #: larger values predict no more than this
MEAN_CLIP = 64  #: nor do larger differences of means
#: Rows of a network's inputs: by sign, source and measurement.
NUM_INPUTS = 2 * NUM_SOURCES * NUM_MEASUREMENTS
#: Rectified sums that networks of layers 1 to 3 have room for, the first and the second.
WIDTHS = ((128, 64), (192, 64), (64, 32))
#: What the networks of the means of Y, Cb and Cr look at, and their rectified sums.
MEAN_INPUTS = tuple(
    len(AROUND_MEAN) + 4 + (len(NEIGHBOURS) + 1) * others for others in range(NUM_PLANES)
)
MEAN_WIDTHS = (32, 32)
MEAN_MIDDLE = 1024  #: what stands for 0 among what they look at
NUM_LEVELS = 8  #: magnitudes that networks know how likely it is to be above
MAX_HIDDEN = 4095  #: of these sums
CONSTANT_INPUT, CONSTANT_HIDDEN = 2, 256  #: factors of what is always added
MAX_VALUE = 32767  #: largest magnitude of a quantised measurement


def num_layers(measurements: int) -> int:
    """Number of layers that a file with this many measurements beside the mean has."""
    return sum(first < measurements + 1 for first in LAYERS[:-1])
