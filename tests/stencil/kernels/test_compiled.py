"""Kernels compiled by llvmlite: the bits of the fused kernel, and what stays with that."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import flagstone as fl

pytest.importorskip("llvmlite")


def wide(u):  # 17 rows, as a star of radius 4 has
    steps = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    around = sum(w * u[tuple(s * k * a for a in axis)] for axis in steps for s in (-1, 1)
                 for k, w in ((1, 0.05), (2, -0.01), (3, 0.003), (4, 0.001)))  # fmt: skip
    return 0.8 * u[0, 0, 0] + around


def swing(u, before, speed, damp):
    around = u[0, -1] + u[0, 1] + u[-1, 0] + u[1, 0] - 4 * u[0, 0]
    return ((2 * u[0, 0] - (1 - damp) * before) + speed * around) / (1 + damp)


def limited(u):
    slope = fl.where(u[1] > u[0], np.sqrt(abs(u[1])), -u[-1]) / (1 + u[0] * u[0])
    return np.maximum(np.minimum(slope, 0.5), -(u[0] ** 2)) + np.floor(u[-1] * 3) / 8


def life(u):
    around = sum(u[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return fl.where((around == 3) | ((around == 2) & (u[0, 0] == 1)), 1, 0)


def wrapping(u):
    return (u[-1] * 3 - u[1]) ^ (u[0] & 12345)


rng = np.random.default_rng(3)
CASES = {
    "wide": (wide, rng.standard_normal((9, 11, 37)).astype("f4"), {"boundary": "periodic"}),
    "swing": (
        swing, (rng.standard_normal((31, 45)), rng.standard_normal((31, 45))),
        {"coefficients": [rng.random((31, 45)), rng.random((31, 1))], "boundary": "mirror"},
    ),
    "limited": (limited, rng.standard_normal(5001), {"boundary": {"fixed": 0.25}}),
    "life": (life, (rng.random((41, 53)) < 0.4).astype("u1"), {"boundary": "periodic"}),
    "wrapping": (wrapping, rng.integers(-(2**31), 2**31, 300, "i4"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_kernel_has_the_bits_of_the_fused_one(name, monkeypatch):
    kernel, state, options = CASES[name]
    made = {}
    with np.errstate(all="ignore"):
        for asked, method in (("0", "al1"), ("1", "sweep"), ("1", "al1"), ("1", "auto")):
            monkeypatch.setenv("FLAGSTONE_COMPILE", asked)
            state_after = fl.stencil(kernel, state, 7, method=method, **options).state
            made[asked, method] = np.asarray(state_after)
            assert ("compiled function" in fl.stats().what) == (asked == "1"), fl.stats().what
    assert np.isfinite(made["0", "al1"]).all()
    for other in made.values():
        np.testing.assert_array_equal(other, made["0", "al1"])


def test_nan_and_infinity_go_the_same_way(monkeypatch):
    x = rng.standard_normal(999)
    x[::7], x[::11], x[::13] = np.nan, np.inf, -np.inf
    made = []
    for asked in "01":
        monkeypatch.setenv("FLAGSTONE_COMPILE", asked)
        made.append(fl.stencil(lambda u: np.maximum(u[1] - u[0], u[-1]), x, 3).state)
    np.testing.assert_array_equal(made[0], made[1])


def test_what_has_no_instruction_stays_with_the_fused_kernel(monkeypatch):
    monkeypatch.setenv("FLAGSTONE_COMPILE", "1")
    plan = fl.stencil.plan(lambda u: np.exp(u[1]) + u[0], np.zeros(9), 2)
    assert "not compiled: verbs" in plan.what
    plan = fl.stencil.plan(lambda u: u[1] + 1j * u[0], np.zeros(9, "c8"), 2)
    assert "not compiled: verbs" in plan.what
    monkeypatch.delenv("FLAGSTONE_COMPILE")  # of itself a small loop is not worth it
    assert "compiled" not in fl.stencil.plan(lambda u: u[1] + u[0], np.zeros(9), 2).what
    assert "compiled function" in fl.stencil.plan(lambda u: u[1] + u[0], fl.zeros(10**6, "f4"), 50).what


def test_the_compiler_stays_out_of_the_process(monkeypatch):
    before = set(sys.modules)
    monkeypatch.setenv("FLAGSTONE_COMPILE", "1")
    fl.stencil(lambda u: u[1] + 3 * u[0], np.zeros(9), 2)
    assert not any(name.startswith("llvmlite.binding") for name in set(sys.modules) - before)
