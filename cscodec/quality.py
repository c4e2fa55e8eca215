"""Qualities of 0 to 100, and the steps that they stand for.

For files that are looked at, a quality stands for a look. The same step looks worse in a picture of
faint texture, which it wipes away, than in one of strong texture, which hides its errors; so the
step follows the picture.
"""

from __future__ import annotations

import numpy as np

from cscodec.bitstream.steps import MIN_STEP
from cscodec.choices import Tune
from cscodec.errors import InvalidInputError
from cscodec.layout import NUM_MEASUREMENTS
from cscodec.model import Model
from cscodec.texture import Sample
from cscodec.transform.measure import analyse_plane

_STEP_AT_50 = 36.0
_STEP_AT_100 = 0.5
_STEP_AT_0 = 225.0

#: Measurements from here on are texture; patches whose measurements have this norm hide errors.
_FAINT, _STRONG = 3, 96
#: The step at a SSIMULACRA2 of 70 in parts of that at quality 75: docs/decisions/0022.
_PLAIN_FACTOR, _FAINT_FACTOR, _STRONG_FACTOR = 0.75, -0.9, 0.7
_LEAST_FACTOR, _MOST_FACTOR = 0.35, 1.0


def step_for_quality(quality: float) -> float:
    """Return the step Δ for a quality of 0..100; falls strictly.

    From 50 on the step falls linearly, below it grows like the reciprocal of the quality: the
    scale that users of JPEG know.

    Raises
    ------
    InvalidInputError
        If the quality is outside 0..100.
    """
    if not 0 <= quality <= 100:
        raise InvalidInputError(f"quality is {quality:g}; allowed are 0 to 100")
    if quality >= 50:
        return _STEP_AT_50 + (quality - 50) / 50 * (_STEP_AT_100 - _STEP_AT_50)
    offset = 50 * _STEP_AT_50 / _STEP_AT_0  # so that quality 0 has a finite step
    return 50 * _STEP_AT_50 / (quality + offset * (1 - quality / 50))


def step_for_picture(quality: float, sample: Sample, model: Model, tune: Tune) -> float:
    """Return the step Δ at which a picture has a quality.

    Parameters
    ----------
    quality : float
        0..100.
    sample : Sample
        Of the picture.
    tune : {"visual", "psnr"}
        For "psnr", the step is the same for all pictures: that of :func:`step_for_quality`.

    Raises
    ------
    InvalidInputError
        If the quality is outside 0..100.
    """
    step = step_for_quality(quality)
    return step if tune == "psnr" else max(MIN_STEP, step * _texture_factor(sample, model))


def _texture_factor(sample: Sample, model: Model) -> float:
    """What a picture's texture makes of the step.

    Counted in integers, so that the file is the same on every machine.
    """
    faint = strong = patches = 0
    for luma in sample.luma:
        # Not lapped: a row of patches has nothing above and below.
        texture = np.rint(analyse_plane(luma, model.luma.analysis)[..., 1:]).astype(np.int64)
        faint += int(np.count_nonzero(abs(texture) >= _FAINT))
        strong += int(np.count_nonzero((texture**2).sum(axis=-1) >= _STRONG**2))
        patches += texture.shape[1]
    faint_share = faint / (patches * (NUM_MEASUREMENTS - 1))
    factor = _PLAIN_FACTOR + _FAINT_FACTOR * faint_share + _STRONG_FACTOR * (strong / patches)
    return min(max(factor, _LEAST_FACTOR), _MOST_FACTOR)
