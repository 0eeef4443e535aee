"""A routine of a few lines: what Routine and Place do for every call."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from flagstone._expression.expression import as_expression
from flagstone._expression.program import lower
from flagstone._output.place import IN_MEMORY, Place
from flagstone._runtime.call import Call
from flagstone._runtime.routine import How, Routine, routine


class _Doubled(Routine):
    def __init__(self, A, out):
        super().__init__(Call("doubled"))
        self.source = as_expression(A, "doubled") * 2
        self.place = Place(self.call, A.shape, A.dtype, out, A.chunks)
        self.places = [self.place]

    what = "doubled"

    def how(self, job):
        return How("one pass", tiles="whole")

    def job(self, at):
        program, operands, values = lower([self.source], self.call)
        built = _core.Pass(program, [0, 0], list(self.place.shape))
        for array, transposed in operands:
            built.operand(array, transposed)
        built.store(values[0], at(self.place))
        return built.job()


class _Failing(_Doubled):
    def execute(self, stack):
        self.place.open(stack)
        raise ZeroDivisionError


@routine
def doubled(A, *, out=None):
    """Return twice A."""
    return _Doubled(A, out)


def _outs(tmp_path):
    zeros = np.zeros((30, 40))
    return {
        "scratch": None, "zarr": tmp_path / "new.zarr", "npy": tmp_path / "new.npy", "ndarray": zeros,
        "array": fl.create(tmp_path / "old.zarr", (30, 40), float), "wrapped": fl.from_numpy(zeros),
        "memory": IN_MEMORY,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["scratch", "zarr", "npy", "ndarray", "array", "wrapped", "memory"])
def test_results_go_where_out_says(tmp_path, rng, kind):
    a = rng.random((30, 40))
    A, out = fl.from_numpy(a, tmp_path / "a.zarr"), _outs(tmp_path)[kind]
    plan = doubled.plan(A, out=out)
    found = doubled(A, out=out)
    assert np.array_equal(np.asarray(found), 2 * a)
    assert (found is out) == (kind in ("ndarray", "array", "wrapped"))
    done = fl.stats()
    assert (plan.what, plan.method, plan.passes, plan.note) == ("doubled", "one pass", 1, "whole")
    assert (done.what, done.method, done.passes, done.note) == ("doubled", "one pass", 1, "")
    assert plan.bytes_read == done.bytes_read
    assert plan.bytes_written == done.bytes_written or kind == "npy"  # which is planned in whole blocks
    assert plan.scratch_bytes == (a.nbytes if kind == "scratch" else 0)


@pytest.mark.parametrize("kind", ["scratch", "zarr", "npy", "array"])
def test_what_fails_leaves_nothing(tmp_path, rng, kind):
    a = rng.random((30, 40))
    A, out = fl.from_numpy(a, tmp_path / "a.zarr"), _outs(tmp_path)[kind]
    before = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError):
        _Failing(A, out).run()
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    if kind == "array":
        assert not np.asarray(out).any()


def test_a_limit_that_cannot_work_is_refused_before_anything_is_opened(tmp_path, rng):
    A = fl.from_numpy(rng.random((30, 40)), tmp_path / "a.zarr")
    call = _Doubled(A, tmp_path / "new.zarr")
    call.call.check_memory = lambda job, beside=0: call.call.check_least(1 << 60)
    with pytest.raises(fl.BudgetError, match="doubled: needs at least"):
        call.run()
    assert not (tmp_path / "new.zarr").exists()
