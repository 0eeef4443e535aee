"""What nobody can project, or store as a basis: one sentence before anything is read."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import subspace


def basis(path=None):
    return subspace.basis([(3, np.eye(3)), (4, np.eye(4)[:, :2])], out=path)


def blocks(**changed):
    return subspace.Blocks(
        **({"function": lambda i, j: np.eye(3), "rows": [3, 3], "pattern": [[0], [1]]} | changed)
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: subspace.basis([np.eye(3), np.eye(2)]),
            r"block 0 is of type ndarray; a pair \(rows, matrix\)",
        ),
        (lambda: subspace.basis(np.eye(4)), "blocks are of type ndarray; an iterable of pairs"),
        (lambda: subspace.basis([(-1, None)]), "block 0 is .*; a pair"),
        (lambda: subspace.basis([(2, sp.eye_array(2))]), "block 0 is .* a real dense matrix"),
        (
            lambda: subspace.basis([(1, np.eye(1))], dtype="int8"),
            "dtype is 'int8'; choose 'float64' or 'float32'",
        ),
        (lambda: basis().block(-1), "group is -1 and there are 2 groups, counted from 0"),
        (lambda: basis().block(2), "group is 2 and there are 2 groups"),
        (lambda: blocks(pattern=[[0], [7]]), r"pattern\[1\] holds 7; groups from 0 to 1 are needed"),
        (lambda: blocks(pattern=[[0], [-1, 0]]), r"pattern\[1\] holds -1"),
        (lambda: blocks(function=3), "function is 3; a function"),
        (lambda: subspace.project(sp.eye_array(7), basis(), files=257), "files is 257; .* at most 256"),
        (
            lambda: subspace.project(blocks(), basis(), keep_h="h.npy"),
            "keep_h: 'h.npy' must be a Zarr directory",
        ),
        (lambda: subspace.project(sp.eye_array(7), basis(), panel=-1), "project: panel: -1 is no size"),
        (lambda: subspace.project(sp.eye_array(7), basis()).eigvalsh(1.5), "eigvalsh: k is 1.5"),
    ],
)
def test_it_is_named(call, said):
    with pytest.raises(fl.ShapeError, match=said):
        call()


def test_nothing_at_all():
    empty = subspace.basis([])
    assert subspace.project(sp.csr_array((0, 0)), empty).shape == (0, 0)
    one = subspace.basis([(1, np.ones((1, 1)))], files=3)
    made = subspace.project(sp.csr_array([[2.0]]), one, order="columns")
    assert made.to_dense() == [[2.0]]


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("rows", np.array([3.0, 4.0])),
        ("stored", np.array([0, 1 << 40])),
        ("offsets", np.zeros((2, 2), int)),
        ("columns", np.array([3, 2 + 1j])),
        ("columns", np.array([3, 1 << 63], "u8")),
        ("values", np.arange(2048)),
    ],
)
def test_an_index_of_another_kind_is_damaged(tmp_path, part, values):
    basis(tmp_path / "z.zarr")
    _replace(tmp_path / "z.zarr" / part, values)
    with pytest.raises(fl.FormatError, match=f"its '{part}'"):
        subspace.open(tmp_path / "z.zarr")


@pytest.mark.parametrize(
    ("part", "values"),
    [("runs", np.zeros((1, 5), int)), ("runs", np.full((1, 6), 1 << 40)), ("stripes", np.array([0.0, 2.0]))],
)
def test_so_is_one_of_a_projected_matrix(tmp_path, part, values):
    subspace.project(sp.eye_array(7, format="csr"), basis(), out=tmp_path / "h.zarr")
    _replace(tmp_path / "h.zarr" / part, values)
    with pytest.raises(fl.FormatError, match=f"its '{part}'"):
        subspace.open(tmp_path / "h.zarr")


def _replace(place, values):
    """Put another array in the place of a stored one."""
    shutil.rmtree(place)
    fl.from_numpy(values, place.parent.parent / "other.zarr")
    shutil.move(place.parent.parent / "other.zarr" / "array", place)
