"""Random calls agree with NumPy, inside limits that are drawn too; an hour of them: `.ci/nightly`."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.support import differential

CASES, BLOCKS = 200, 4
SEED = int(os.environ.get("FLAGSTONE_TEST_SEED", "1"))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_calls_are_numpys(tmp_path, block):
    each = CASES // BLOCKS
    found = {
        number: differential.one(SEED, number, tmp_path / "case")
        for number in range(block * each, (block + 1) * each)
    }
    wrong = {number: said for number, said in found.items() if said[1]}
    assert not wrong, f"seed {SEED}: {wrong}"
    assert sum(bool(text) for text, _ in found.values()) > each * 0.8  # the others NumPy refuses as well


@pytest.mark.parametrize("fault", ["a value", "the dtype", "the limit"])
def test_a_fault_is_found(fault):
    held = []

    def call(limit):
        if fault == "the limit":
            held.append(np.ones(64 << 17))  # 64 MiB
        return np.ones(3, "f4" if fault == "the dtype" else "f8") + (fault == "a value")

    def check(got):
        np.testing.assert_array_equal(got, np.ones(3))
        assert got.dtype == np.float64

    case = differential.Case("planted", call, check)
    if fault == "the limit":
        assert "bytes beside" in differential.judged(case, 1 << 20)
    else:
        with pytest.raises(AssertionError):
            differential.judged(case, 1 << 40)
