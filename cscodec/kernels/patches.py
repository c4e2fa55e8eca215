"""Kernels that cut planes into patches and put them together again."""

from __future__ import annotations

from typing import Annotated

from cscodec.kernels.declaration import Array, float32, kernel


@kernel
def cut_patches(
    plane: Annotated[Array, float32["8 * rows", "8 * columns"]],
    patches: Annotated[Array, float32["rows * columns", 64].out],
) -> None:
    """Write the 8x8 patches of a plane, in raster order, to the rows of ``patches``."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    patches[r * columns + c, 8 * y + x] = plane[8 * r + y, 8 * c + x]


@kernel
def put_patches(
    plane: Annotated[Array, float32["8 * rows", "8 * columns"].out],
    patches: Annotated[Array, float32["rows * columns", 64]],
) -> None:
    """Inverse of :func:`cut_patches`."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    plane[8 * r + y, 8 * c + x] = patches[r * columns + c, 8 * y + x]


@kernel
def add_patches(
    plane: Annotated[Array, float32["8 * rows", "8 * columns"].out],
    patches: Annotated[Array, float32["rows * columns", 64]],
) -> None:
    """Add patches to those of a plane."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    plane[8 * r + y, 8 * c + x] += patches[r * columns + c, 8 * y + x]
