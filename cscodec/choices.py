"""What is chosen by name: decoders, what files are tuned for, the size of chroma planes.

And the quality, where none is chosen.
"""

from __future__ import annotations

from typing import Literal, get_args

DEFAULT_QUALITY = 75.0

#: How a plane is recovered from measurements, the default first.
Decoder = Literal["refine", "consistent", "linear", "omp"]
DECODERS: tuple[Decoder, ...] = get_args(Decoder)
#: How a plane is recovered from measurements that nothing has quantised: one more way.
UnquantisedDecoder = Literal[Decoder, "learned"]
UNQUANTISED_DECODERS: tuple[UnquantisedDecoder, ...] = (*DECODERS, "learned")
#: Those that treat every patch alone.
PATCH_DECODERS: tuple[Decoder, ...] = ("omp", "linear", "consistent")

#: What a file is made for: to look at, or for the smallest squared error.
Tune = Literal["visual", "psnr"]
TUNES: tuple[Tune, ...] = get_args(Tune)

#: Chroma planes of half size, or whole; "auto" keeps them whole at fine steps.
Subsampling = Literal["auto", "4:2:0", "4:4:4"]
SUBSAMPLINGS: tuple[Subsampling, ...] = get_args(Subsampling)
