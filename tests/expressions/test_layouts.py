"""Expressions and reductions over arrays that lie differently: what is read, and the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core


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


@pytest.fixture
def mixed(tmp_path):
    """One array of 16 MiB in four layouts."""
    values = np.random.default_rng(7).standard_normal((2048, 2048), dtype=np.float32)
    np.save(tmp_path / "c.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    opened = {"c": fl.open(tmp_path / "c.npy"), "f": fl.open(tmp_path / "f.npy")}
    for name, chunks, codec in (("rows", (64, 2048), "raw"), ("columns", (2048, 64), "zstd:1")):
        opened[name] = fl.create(tmp_path / f"{name}.zarr", values.shape, "f4", chunks, codec=codec)
        opened[name][...] = values
    return values, opened


def least_of(*expressions, out=None) -> int:
    """Asked just before a call: what earlier ones left resident counts, where it does not go meanwhile."""
    _core.trim()
    return fl.compute.plan(*expressions, out=out).least_memory


def test_what_fits_is_read_once(mixed, tmp_path):
    values, arrays = mixed
    rows, out = arrays["rows"], tmp_path / "out.zarr"
    expression = rows + rows.T
    plan = fl.compute.plan(expression, out=out)
    result = fl.compute(expression, out=out)
    stats = fl.stats()
    assert "stay" in plan.note
    assert "'rows.zarr' transposed would be read" in plan.note
    for told in (plan, stats):
        assert told.bytes_read <= 1.1 * values.nbytes
        assert told.bytes_written <= 1.1 * values.nbytes
    np.testing.assert_array_equal(np.asarray(result), values + values.T)


def test_what_does_not_fit_goes_through_scratch(mixed, tmp_path):
    values, arrays = mixed
    rows, out = arrays["rows"], tmp_path / "out.zarr"
    expression = rows + rows.T
    least = least_of(expression, out=out)
    plan = fl.compute.plan(expression, out=out, memory=least)
    result = fl.compute(expression, out=out, memory=least)
    stats = fl.stats()
    assert "scratch" in plan.method
    assert "it goes through scratch in pieces of" in plan.note
    assert plan.scratch_bytes >= values.nbytes
    for told in (plan, stats):
        assert told.passes == 2
        assert told.bytes_read + told.bytes_written <= 3.2 * 2 * values.nbytes
    np.testing.assert_array_equal(np.asarray(result), values + values.T)


@pytest.mark.parametrize("names", ["c f", "rows columns", "c f rows columns", "f columns"])
def test_the_limit_moves_bytes_and_changes_no_bit(mixed, tmp_path, names):
    values, arrays = mixed
    given = [arrays[name] for name in names.split()]
    total = given[0] * np.float32(1.5)
    for other in given[1:]:
        total = total + other
    wanted = values * np.float32(1.5)
    for _ in given[1:]:
        wanted = wanted + values
    folded, notes = set(), set()
    out = [tmp_path / "out.zarr", None, None]
    for more in (0, 4 << 20, 12 << 20, 200 << 20):
        together = total, total.sum(0), total.var()
        result, sums, spread = fl.compute(*together, out=out, memory=least_of(*together, out=out) + more)
        np.testing.assert_array_equal(np.asarray(result), wanted)
        folded.add((sums.tobytes(), spread.tobytes()))
        memory = least_of(total.sum(1)) + more
        notes.add(fl.compute.plan(total.sum(1), memory=memory).note)
        folded.add(("alone", fl.compute(total.sum(1), memory=memory).tobytes()))
    assert len(folded) == 2
    assert names == "f columns" or any("would be read" in note for note in notes)


def test_slices_of_mixed_layouts(mixed):
    values, arrays = mixed
    total = arrays["f"] + arrays["rows"].T * np.float32(2)
    wanted = values + values.T * np.float32(2)
    np.testing.assert_array_equal(total[100:1900, 37:2001], wanted[100:1900, 37:2001])
    np.testing.assert_array_equal(np.asarray(total), wanted)
    np.testing.assert_array_equal(fl.compute(total.max(1)), wanted.max(1))
