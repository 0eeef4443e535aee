"""Expressions and reductions over arrays that lie differently: what is read, and the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flagstone as fl


@pytest.fixture
def square(tmp_path):
    """An array of NumPy, and how it lies in files."""
    values = np.random.default_rng(5).standard_normal((1500, 1300), dtype=np.float32)
    np.save(tmp_path / "c.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    return values, fl.open(tmp_path / "c.npy"), fl.open(tmp_path / "f.npy")


def tile_of(expression) -> tuple[int, ...]:
    (text,) = re.findall(r"tiles of ([0-9 x]+)", fl.compute.plan(expression).note)
    return tuple(int(n) for n in text.split(" x "))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "min", "argmax"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_fortran_order_reduces_as_its_transpose_does(square, name, axis):
    # The same bytes in the same tiles, added in the same order: the same bits.
    values, _, f = square
    turned = None if axis is None else 1 - axis
    mine = getattr(f, name)(axis)
    if name == "argmax" and axis is None:
        assert fl.compute(mine) == values.argmax()
        return
    assert np.array_equal(fl.compute(mine), fl.compute(getattr(f.T, name)(turned)))


def test_tiles_of_columns_are_runs_of_the_file(square):
    values, c, f = square
    rows, columns = values.shape
    for along in (0, 1):
        assert tile_of(c.sum(along)) == (min(rows, (4 << 20) // (4 * columns)), columns)
        assert tile_of(f.sum(along)) == (rows, min(columns, (4 << 20) // (4 * rows)))
        assert tile_of(c.T.sum(along)) == tile_of(c.sum(1 - along))[::-1]
        assert tile_of(f.T.sum(along)) == tile_of(f.sum(1 - along))[::-1]
    assert tile_of((f * 2 + np.float32(1)).mean(0)) == tile_of(f.sum(0))  # what is broadcast has no say
    np.testing.assert_allclose(fl.compute(f.sum(0)), values.sum(0, dtype=float), rtol=1e-4, atol=1e-3)


def test_tiles_of_many_dimensions_grow_from_the_closest(tmp_path):
    values = np.random.default_rng(6).standard_normal((30, 20, 64, 50))
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    f = fl.open(tmp_path / "f.npy")
    assert tile_of(f.sum((0, 2))) == (30, 20, 64, (4 << 20) // (8 * 30 * 20 * 64))
    np.testing.assert_allclose(fl.compute(f.sum((0, 2))), values.sum((0, 2)), rtol=1e-12, atol=1e-10)
    np.testing.assert_array_equal(np.asarray(f + 1), values + 1)


def test_one_row_or_column_has_no_order(tmp_path):
    values = np.arange(5000.0)
    for name, shape in (("row", (1, 5000)), ("column", (5000, 1)), ("line", (5000,))):
        np.save(tmp_path / f"{name}.npy", np.asfortranarray(values.reshape(shape)))
        a = fl.open(tmp_path / f"{name}.npy")
        assert fl.compute(a.sum()) == fl.compute(a.T.sum()) == values.sum()
