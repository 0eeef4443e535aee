"""What time loops refuse: one sentence each, before any work."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.error_sentences import fails

X, W = np.ones((6, 8), "f4"), fl.laplacian(2)
RAGGED = [[1.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("a list of pairs", {"sources": 3}),
        ("a list of pairs", {"sources": "here"}),
        ("a source is 3", {"sources": [3]}),
        ("a source is", {"sources": ((1, 1), [1.0, 2.0], 3)}),
        ("2 numbers are needed", {"sources": [((1, 1), "ab")]}),
        ("2 numbers are needed", {"sources": [((1, 1), RAGGED)]}),
        ("one number; 2 values", {"sources": [((1, 1), 1.0)]}),
        ("complex128 and the field float32", {"sources": [((1, 1), [1j, 2.0])]}),
        ("whole numbers, one for each axis", {"sources": [(("a", 1), [1.0, 2.0])]}),
        ("a list of indices", {"receivers": 3}),
        ("a receiver is at 'a'", {"receivers": ["a"]}),
        ("one extent for each of 2 axes", {"block": 3}),
        ("one extent for each of 2 axes", {"block": "ab"}),
        ("one extent for each of 2 axes", {"block": (1.5, 2)}),
        ("one extent for each of 2 axes", {"block": (0, 2)}),
        ("planes, rows, levels", {"cache_block": 2, "method": "al4"}),
        ("planes, rows, levels", {"cache_block": (1, None, 2), "method": "al4"}),
        ("depth is 'a'", {"depth": "a"}),
        ("depth is 0", {"depth": 0}),
        ("no method", {"method": ["al1"]}),
        ("the boundary of axis 1", {"boundary": ["fixed", ("fixed", "fixed", "fixed")]}),
        ("2 axes is needed", {"boundary": ("fixed", "fixed", "fixed")}),
        ("boundary is 3", {"boundary": 3}),
        ("no boundary None", {"boundary": [None, "fixed"]}),
        ("a fixed boundary is the text", {"boundary": {"fixed": "a"}}),
        ("a fixed boundary is a object", {"boundary": {"fixed": object()}}),
        ("a fixed boundary is 1-dim", {"boundary": {"fixed": [1.0]}}),
        ("a number of float32", {"boundary": {"fixed": 1j}}),
        ("NoneType was given", {"coefficients": [None]}),
        ("str was given", {"coefficients": "k"}),
    ],
)
def test_options(words, options):
    with fails((TypeError, ValueError), "^stencil: ", words):
        fl.stencil(W, X, 2, **options)


@pytest.mark.parametrize(
    ("words", "kernel", "state", "steps"),
    [
        ("steps is 'a'", W, X, "a"),
        ("steps is 18446744073709551616", W, X, 2**64),
        ("steps is a int", W, X, 10**100),
        ("2147483647 at most", W, X, 2**31),
        ("steps is True", W, X, True),
        ("steps is array", W, X, np.array([1, 2])),
        ("the state is the text 'field.zarr'; open it", W, "field.zarr", 1),
        ("the state is a NoneType", W, None, 1),
        ("the state is a ndarray", W, np.array(["a"]), 1),
        ("state is a list", W, [1, 2], 1),
        ("does not take 1 argument", lambda u, c: u[0, 0], X, 1),
        ("the kernel's weights are <U1", np.array([["a"]]), X, 1),
        ("a number for each offset", {(0, 0): 10**400}, X, 1),
        ("makes complex64 of a field of float32", lambda u: 1j * u[0, 1], X, 1),
        ("an array of its own, 6 x 8 float32", lambda u: X * u[0, 1], X, 1),
        ("at most 64 bits a part", W, X.astype(np.longdouble), 1),
    ],
)
def test_operands(words, kernel, state, steps):
    with fails((TypeError, ValueError), "^stencil: ", words):
        fl.stencil(kernel, state, steps)


@pytest.mark.parametrize("value", [300, -1, 0.5, np.nan, np.inf])
def test_a_fixed_value_that_an_integer_field_cannot_hold(value):
    with fails(TypeError, "stencil", "a number of uint8 is needed"):
        fl.stencil({(0, 1): 1}, np.zeros((3, 4), "u1"), 1, boundary={"fixed": value})
    assert fl.stencil({1: 1}, np.zeros(3, "u1"), 1, boundary={"fixed": 255.0}).state[2] == 255


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.sponge(9, 2),
        lambda: fl.sponge("ab", 2),
        lambda: fl.sponge((9, -1), 2),
        lambda: fl.sponge((9,), "a"),
        lambda: fl.sponge((9,), 1.5),
        lambda: fl.sponge((9, 9), (1, 2, 3)),
        lambda: fl.sponge((9,), 2, courant="a"),
        lambda: fl.sponge((9,), 2, courant=np.nan),
        lambda: fl.sponge((9,), 2, reflection="a"),
        lambda: fl.sponge((9,), 2, free=3),
        lambda: fl.sponge((9,), 2, free=[(4, "low")]),
        lambda: fl.sponge((9,), 2, free=[(0, "left")]),
        lambda: fl.laplacian("a"),
        lambda: fl.laplacian([1]),
        lambda: fl.laplacian(2, [2]),
        lambda: fl.laplacian(2, spacing="a"),
        lambda: fl.laplacian(2, spacing=None),
        lambda: fl.laplacian(2, spacing=(1.0, np.inf)),
        lambda: fl.points([7]),
        lambda: fl.points(7, 3),
        lambda: fl.points(7, ("a", 1.0)),
        lambda: fl.wave("v", 3, spacing=1.0),
        lambda: fl.wave(None, 3, spacing=1.0),
        lambda: fl.wave(X, "a", spacing=1.0),
        lambda: fl.wave(X, 3, spacing=1.0, state=X),
        lambda: fl.wave(X, 3, spacing=1.0, dt="a"),
        lambda: fl.wave(X, 3, spacing=1.0, frequency="a"),
        lambda: fl.wave(X, 3, spacing=1.0, sources=3),
        lambda: fl.wave(X, 3, spacing=1.0, sources=[(1, "a")], frequency=0.1),
        lambda: fl.wave(X, 3, spacing=1.0, receivers=3),
        lambda: fl.wave(X, 3, spacing=1.0, sponge_width="a"),
        lambda: fl.wave(X, 3, spacing=1.0, sponge_width=1.5),
        lambda: fl.wave(X, 3, spacing=1.0, order="a"),
    ],
)
def test_waves_weights_and_layers(call):
    with fails(
        (TypeError, ValueError), "^(sponge|laplacian|points|wave|stencil): ", "needed|possible|open it first"
    ):
        call()


def test_what_is_fixed_beyond_the_field_is_clamped():
    x = np.random.default_rng(0).standard_normal((5, 6, 7))
    wanted = fl.stencil(fl.laplacian(3), x, 3, method="sweep").state
    huge = 2**62
    for options in (
        {"method": "al4", "cache_block": (huge, huge, huge)},
        {"method": "al1", "block": (huge, 3, huge)},
        {"method": "al1", "block": (2**64, 2, 5), "depth": 2},
    ):
        np.testing.assert_array_equal(fl.stencil(fl.laplacian(3), x, 3, **options).state, wanted)


FAR = np.zeros((4, 3))
FAR[3, 2] = 1e300


@pytest.mark.parametrize(
    ("words", "weights", "dtype", "options"),
    [
        ("values that uint8 does not hold", {(0, 1): 1}, "u1", {"sources": [((1, 1), [300, 0])]}),
        ("values that int32 does not hold", {(0, 1): 1}, "i4", {"sources": [((1, 1), [0.5, 0])]}),
        ("values that int64 does not hold", {(0, 1): 1}, "i8", {"sources": [((1, 1), [2.0**63, 0])]}),
        ("values that int32 does not hold", {(0, 1): 1}, "i4", {"sources": [((1, 1), [np.nan, 0])]}),
        ("values that float32 does not hold", {(0, 1): 1}, "f4", {"sources": [((1, 1), [1e300, 0])]}),
        ("a number of float32 is needed", {(0, 1): 1}, "f4", {"boundary": {"fixed": 1e300}}),
        ("is float64 and the field int32", {(0, 1): 1}, "i4", {"coefficients": np.full((3, 4), 0.5)}),
        ("is int64 and the field int8", {(0, 1): 1}, "i1", {"coefficients": np.full(4, 300)}),
        ("is int64 and the field uint8", {(0, 1): 1}, "u1", {"coefficients": fl.from_numpy(np.ones(4, int))}),
        ("the kernel returned .*300", lambda u: np.int64(300), "u1", {}),
        ("is float64 and the field float32", {(0, 1): 1}, "f4", {"coefficients": np.float64(-1e300)}),
        (
            "is complex128 and the field complex64",
            {(0, 1): 1},
            "c8",
            {"coefficients": np.array([0, 0, 1e300j, 0])},
        ),
        (r"offset \(0, 1\) is 9.22337e\+18 and the field int64", {(0, 1): 2**63 - 1}, "i8", {}),
        (r"offset \(0, 1\) is 1e\+300 and the field float32", {(0, 1): 1e300}, "f4", {}),
        (r"offset \(0, 0\) is 1e\+300 and the field complex64", {(0, 0): 1e300}, "c8", {}),
        ("is float64 and the field float32", {(0, 1): 1}, "f4", {"coefficients": 1e300}),
        ("is float64 and the field float32", {(0, 1): 1}, "f4", {"coefficients": FAR.T}),
        ("is complex128 and the field complex64", {(0, 1): 1}, "c8", {"coefficients": 1e300j}),
    ],
)
def test_what_a_field_cannot_hold(words, weights, dtype, options):
    """Else it would be cut off, wrapped around or infinite without a word."""
    with fails((TypeError, ValueError), "^stencil: ", words):
        fl.stencil(weights, np.zeros((3, 4), dtype), 2, **options)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "u1"), (np.int64(300), "u1"), (np.array(300), "u1"), (np.float32(0.5), "i4"),
        (np.float64(1e300), "f4"), pytest.param(10**400, "f8", id="400 digits"), (10**30, "i8"),
        (np.str_("a"), "f8"), (np.complex64(1j), "f4"),
    ],
)  # fmt: skip
def test_what_a_kernel_returns_is_held_by_its_field(value, dtype):
    x = np.zeros((3, 4), dtype)
    with fails(TypeError, "^stencil: ", f"a number of {x.dtype.name} is needed"):
        fl.stencil(lambda u, v: {"u": u[0, 1], "v": value}, {"u": x, "v": x}, 1)


def test_numbers_of_a_kernel_may_come_in_another_dtype():
    x = np.zeros((3, 4), "f4")
    for value in (3, np.int64(3), np.array(3.0), True, 10**30):
        made = fl.stencil(lambda u, v, value=value: {"u": u[0, 1], "v": value}, {"u": x, "v": x}, 1)
        np.testing.assert_array_equal(made.state["v"], np.full_like(x, value))


def test_what_a_field_holds_may_come_in_another_dtype():
    x = np.arange(12, dtype="i2").reshape(3, 4)
    wanted = x + 2 * 3 * x + 5
    wanted[1, 1] += 7
    made = fl.stencil({(0, 0): 3}, x, 1, coefficients=(np.full((3, 4), 2), 5.0), sources=[((1, 1), [7.0])])
    np.testing.assert_array_equal(made.state, wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"coefficients": np.ma.masked_less(X, 2)},
        {"sources": [((1, 1), np.ma.masked_less([1.0, 2.0], 2))]},
        {"boundary": [{"fixed": np.ma.masked_less(X[0], 2)}, "fixed"]},
    ],
)
def test_masks_are_not_dropped(options):
    with fails(TypeError, "^stencil: ", "whose mask would be lost"):
        fl.stencil(W, X, 2, **options)
