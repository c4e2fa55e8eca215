"""Qualities of 0 to 100, and the steps that they stand for.

For files that are looked at, a quality stands for a look. The same step looks worse in a picture of
faint texture, which it wipes away, than in one of strong texture, which hides its errors; so the
step follows the picture.
"""

from __future__ import annotations

from cscodec.bitstream.steps import MIN_STEP
from cscodec.choices import Tune
from cscodec.errors import InvalidInputError
from cscodec.texture import Texture

_STEP_AT_50 = 36.0
_STEP_AT_100 = 0.5
_STEP_AT_0 = 225.0

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


def step_for_picture(quality: float, texture: Texture, tune: Tune) -> float:
    """Return the step Δ at which a picture has a quality.

    Parameters
    ----------
    quality : float
        0..100.
    texture : Texture
        The picture's.
    tune : {"visual", "psnr"}
        For "psnr", the step is the same for all pictures: that of :func:`step_for_quality`.

    Raises
    ------
    InvalidInputError
        If the quality is outside 0..100.
    """
    step = step_for_quality(quality)
    if tune == "psnr":
        return step
    faint, strong = texture.faint_share, texture.strong_share
    factor = _PLAIN_FACTOR + _FAINT_FACTOR * faint + _STRONG_FACTOR * strong
    return max(MIN_STEP, step * min(max(factor, _LEAST_FACTOR), _MOST_FACTOR))
