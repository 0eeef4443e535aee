"""Transposes of sparse matrices on disk: SciPy's, canonical, whole, resumable, within limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.sparse.test_algebra import equals
from tests.support.error_sentences import fails
from tests.support.processes import random_csr


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_transposes_are_scipys(tmp_path, dtype):
    a = random_csr(300, 140, 0.06, 1)
    a.data = np.ceil(a.data * 90)
    a = a.astype(dtype)
    s = fl.from_blocks([a])
    out = tmp_path / "t.zarr"
    made = fl.transpose(s, out=out)
    equals(made, a.T)
    assert not made._transposed  # by rows
    equals(fl.open(out), a.T)
    assert sp.csr_matrix(made.to_scipy()).has_canonical_format
    equals(fl.transpose(made, (1, 0)), a)
    equals(fl.transpose(s.T), a)  # a copy
    equals(fl.transpose(s[3:90, ::2]), a[3:90, ::2].T)
    if np.dtype(dtype).kind == "f":
        equals(fl.transpose(s.log1p()), a.T.log1p())
    equals(fl.transpose(s, out=out), a.T)  # replaced


def test_empty_and_ragged_ones(tmp_path):
    for shape in ((1, 1), (5, 900), (900, 5), (7, 1)):
        equals(fl.transpose(fl.from_blocks([sp.csr_matrix(shape)])), sp.csr_matrix(shape[::-1]))
    one = sp.csr_matrix(np.ones((1, 40)))
    equals(fl.transpose(fl.from_blocks([one])), one.T)


def test_plans_and_limits(tmp_path):
    a = random_csr(60_000, 30_000, 0.0005, 3)
    s = fl.from_blocks([a])
    plan = fl.transpose.plan(s, out=tmp_path / "t.zarr")
    assert "transpose 60000 x 30000 sparse" in str(plan)
    fl.transpose(s, out=tmp_path / "t.zarr", memory=plan.least_memory)
    assert fl.stats().peak_memory <= plan.least_memory
    equals(fl.open(tmp_path / "t.zarr"), a.T)
    equals(fl.transpose(s, memory=plan.least_memory + (1 << 30)), a.T)
    with fails(fl.BudgetError, r"transpose"):
        fl.transpose(s, memory="1MiB")


def test_refusals(tmp_path):
    s = fl.from_blocks([random_csr(30, 20, 0.1, 1)])
    with fails(fl.ShapeError, r"transpose: axes are \(0, 1\) and A is sparse; \(1, 0\) is needed"):
        fl.transpose(s, (0, 1))
    with fails(TypeError, r"transpose: chunks, checksum, codec and order are of dense arrays"):
        fl.transpose(s, chunks=(3, 3))
    with fails(fl.ShapeError, r"transpose: out 't.npy' holds a dense array"):
        fl.transpose(s, out="t.npy")
