"""Kernels that cut planes into patches and put them together again."""

from __future__ import annotations

from cscodec._jit import Float32Matrix, kernel


@kernel
def cut(plane: Float32Matrix, patches: Float32Matrix) -> None:
    """Write the 8x8 patches of a plane, in raster order, to the rows of ``patches``."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    patches[r * columns + c, 8 * y + x] = plane[8 * r + y, 8 * c + x]


@kernel
def put(patches: Float32Matrix, plane: Float32Matrix) -> None:
    """Inverse of :func:`cut`."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    plane[8 * r + y, 8 * c + x] = patches[r * columns + c, 8 * y + x]


@kernel
def add(patches: Float32Matrix, plane: Float32Matrix) -> None:
    """Add patches to those of a plane."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    plane[8 * r + y, 8 * c + x] += patches[r * columns + c, 8 * y + x]
