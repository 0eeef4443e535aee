"""map_blocks and map_tiles: every block once, views turned, errors that name theirs."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import flagstone as fl
from flagstone.errors import ShapeError
from tests.support.processes import beside


@pytest.fixture
def pair(tmp_path):
    values = np.random.default_rng(0).standard_normal((50, 34))
    a = fl.create(tmp_path / "a.zarr", values.shape, "f8", (16, 8))
    a[...] = values
    return values, a


def test_blocks_at_the_edge_and_views(pair, tmp_path):
    values, a = pair
    shapes = []

    def both(x, y):
        shapes.append(x.shape)
        assert not x.flags.writeable
        return x + 2 * y

    for first, second, wanted in ((a, a, values), (a.T, a.T, values.T)):
        shapes.clear()
        result = fl.map_tiles(both, first, second, out=tmp_path / "out.zarr")
        np.testing.assert_array_equal(np.asarray(result), wanted + 2 * wanted)
        assert len(shapes) == 4 * 5
        assert sum(n * m for n, m in shapes) == values.size
    square = fl.create(tmp_path / "s.zarr", (24, 24), "f8", (8, 8))
    square[...] = values[:24, :24]
    turned = fl.map_tiles(lambda x, y: x - y, square, square.T)
    np.testing.assert_array_equal(np.asarray(turned), values[:24, :24] - values[:24, :24].T)


def test_what_a_block_raises_names_it(pair):
    _, a = pair

    def fails(x):
        if x.shape[1] == 2:
            raise ZeroDivisionError("here")
        return x

    with pytest.raises(ZeroDivisionError) as caught:
        fl.map_tiles(fails, a)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [str(caught.value.__cause__)])])
    assert "task 'fails'" in said
    assert "x 2 at" in said
    assert "a.zarr" in said
    with pytest.raises(ShapeError, match="returned 3 for a block of"):
        fl.map_tiles(lambda x: np.zeros(3), a)


def test_scratch_is_charged_for_each_block(pair):
    _, a = pair
    least = fl.map_tiles.plan(lambda x: x, a, scratch=0).least_memory
    assert fl.map_tiles.plan(lambda x: x, a, scratch="8MiB").least_memory >= least + (7 << 20)


def test_what_is_written_is_not_read(pair):
    _, a = pair
    b = fl.open(a.path, mode="r+")
    result = fl.map_tiles(lambda x: -x, b, out=b)
    np.testing.assert_array_equal(np.asarray(result), -pair[0])


def test_blocks_take_the_memory_of_those_before_them(tmp_path):
    """Whatever the limit: thousands of small blocks that wait, or that nobody needs any more, hold little."""
    small = fl.create(tmp_path / "small.zarr", (2048 * 16, 16), "f4", (16, 16))
    small[...] = np.arange(small.shape[0], dtype="f4")[:, None]
    doubled = fl.map_tiles(lambda tile: 2 * tile, small, out=tmp_path / "mapped.zarr", memory="4GiB")
    held = fl.stats().peak_budget
    assert held < 6 << 20  # of 4 KiB for each block's input, result and scratch: 24 MiB
    assert fl.map_tiles.plan(lambda tile: 2 * tile, small, out=tmp_path / "m.zarr", memory="4GiB").seconds > 0
    assert np.array_equal(doubled[...], 2 * small[...])


def test_an_array_that_is_given_twice_is_read_once(tmp_path, rng):
    values = rng.random((256, 256))
    given = fl.create(tmp_path / "a.zarr", values.shape, "f8", (64, 64))
    given[...] = values
    total = fl.map_blocks(lambda a, b: a + b, given, given.T, out=tmp_path / "sum.zarr", memory=beside(900))
    assert np.array_equal(total[...], values + values.T)
    assert fl.stats().bytes_read == values.nbytes


def test_a_worker_keeps_what_is_its_own_between_blocks(tmp_path):
    """Thread-local values of the function: a worker is one thread of the interpreter for the whole run."""
    mine, made = threading.local(), []

    def block(tile):
        if not hasattr(mine, "number"):
            mine.number = len(made)
            made.append(mine.number)
        return tile

    small = fl.create(tmp_path / "small.zarr", (256 * 16, 16), "f4", (16, 16))
    with fl.Runtime(workers=2):
        fl.map_tiles(block, small, out=tmp_path / "mapped.zarr")
    assert 1 <= len(made) <= 2
    assert not hasattr(mine, "number")


def test_a_profiler_runs_after_tasks(tmp_path):
    """A call in a process that profiles, after a map: it went on for ever (CPython 3.11)."""
    code = """
import cProfile
import flagstone as fl
small = fl.create("small.zarr", (64, 16), "f4", (16, 16))
fl.map_tiles(lambda tile: tile, small, out="a.zarr")
with cProfile.Profile() as profile:
    fl.map_tiles(lambda tile: tile, small, out="b.zarr")
print(len(profile.getstats()) > 10)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == "True", done.stderr
