"""Time loops against plain NumPy sweeps, bit for bit: methods, kernels, boundaries, orders, workers."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.stencil.oracle import as_edges, swept

METHODS = ("sweep", "al1", "al2", "al3", "al4")


def heat(ndim):
    weights = {at: 0.11 * w for at, w in fl.laplacian(ndim).items()}
    weights[(0,) * ndim] += 1
    return weights


def box(ndim, radius, seed=0):
    rng = np.random.default_rng(seed)
    return {
        tuple(int(i) - radius for i in at): float(rng.integers(-5, 6)) / 8 + 0.0625
        for at in np.ndindex(*[2 * radius + 1] * ndim)
    }


def field(shape, dtype="float32", seed=1):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 50, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def check(kernel, state, steps, boundary="fixed", oracle=None, **options):
    """`out`: in memory, unless it is said; where results go on disk is `test_outputs_and_limits`."""
    if "out" not in options:
        options["out"] = (
            tuple(np.full_like(x, 77) for x in state) if isinstance(state, tuple) else np.full_like(state, 77)
        )
    shape = (state[0] if isinstance(state, tuple) else state).shape
    wanted, traces = swept(
        oracle or kernel, state, steps, as_edges(boundary, len(shape)), options.get("coefficients", ()),
        options.get("sources", ()), options.get("receivers", ()),
    )  # fmt: skip
    made = fl.stencil(kernel, state, steps, boundary=boundary, **options)
    pairs = zip(made.state, wanted, strict=True) if isinstance(state, tuple) else [(made.state, wanted)]
    for one, other in pairs:
        np.testing.assert_array_equal(np.asarray(one), other)
    np.testing.assert_array_equal(made.traces, traces)
    return made


BOUNDARIES = (
    "fixed",
    "periodic",
    "neumann",
    "mirror",
    {"fixed": 2.5},
    [({"fixed": -1.0}, "neumann"), "periodic", ("mirror", {"fixed": 3.0})],
    [("mirror", {"fixed": 0.5}), ({"fixed": 7.0}, "mirror"), ("neumann", {"fixed": -2.0})],
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("boundary", BOUNDARIES, ids=str)
def test_boundaries(method, boundary):
    options = {
        "sweep": {},
        "al1": {"block": (5, 7, 9), "depth": 3},
        "al2": {"block": (5, 17, 9), "depth": 4, "cache_block": (3, 4, 2)},
        "al3": {"block": (9, 12, 9), "depth": 4},
        "al4": {"cache_block": (2, 6, 2), "depth": 5},
    }
    for weights in (heat(3), box(3, 1)):
        check(weights, field((11, 23, 17)), 8, boundary, method=method, **options[method])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("order", [1, 2])
def test_radii_dimensions_and_orders(method, ndim, order):
    shape = {1: (301,), 2: (37, 53), 3: (19, 31, 14)}[ndim]
    state = field(shape) if order == 1 else (field(shape, seed=2), field(shape))
    for accuracy in (4, 8):
        weights = {at: w / 40 for at, w in fl.laplacian(ndim, accuracy).items()}
        for boundary in ("fixed", "mirror", "periodic"):
            check(weights, state, 7, boundary, method=method, depth=None if method == "sweep" else 4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1, 2), (2, 2, 40), (40, 2, 2), (2, 40, 3), (4, 50, 1)])
def test_small_and_ragged(method, shape):
    for boundary in ("fixed", "neumann", "mirror", "periodic"):
        for weights in (heat(len(shape)), {at: w / 9 for at, w in fl.laplacian(len(shape), 6).items()}):
            check(weights, field(shape), 5, boundary, method=method, depth=None if method == "sweep" else 3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("coefficients", [0, 1, 2])
@pytest.mark.parametrize("order", [1, 2])
def test_coefficients_sources_and_receivers(method, coefficients, order):
    shape = (13, 29, 21)
    state = field(shape, "float64") if order == 1 else (field(shape, "float64", 3), field(shape, "float64"))
    given = [0.03 * np.abs(field(shape, "float64", 5)), np.abs(field((29, 1), "float64", 6))][:coefficients]
    rng = np.random.default_rng(0)
    places = [(0, 0, 0), (12, 28, 20), (6, 8, 10), (6, 15, 3), (5, 16, 0)]
    weights = {at: w / 10 for at, w in fl.laplacian(3, 4).items()}
    for boundary in ("fixed", "periodic"):
        check(
            weights, state, 9, boundary, method=method, coefficients=given,
            depth=None if method == "sweep" else 4,
            sources=[(at, rng.standard_normal(9)) for at in places], receivers=places[::-1],
            **({"cache_block": (3, 8, 2)} if method == "al4" else {"block": (4, 9, 21)}),
        )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", [1, 2])
def test_coefficients_of_complex_fields(method, order):
    """Real ones too: products and quotients are of complex numbers, and not of their parts."""
    for dtype, wide in (("complex64", 0.125), ("complex128", 0.25 - 0.5j)):
        state = field((37, 300), dtype)
        state = state if order == 1 else (field((37, 300), dtype, 2), state)
        given = [0.1 * field((37, 300), dtype, 3), np.full((37, 1), wide, dtype)]
        for coefficients in (given[:1], given[1:], given, [np.full(300, 0.25, "f4")]):
            check(
                heat(2), state, 4, "mirror", method=method, coefficients=coefficients,
                **({} if method in ("sweep", "al4") else {"block": (9, 300), "depth": 2}),
            )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128", "int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("method", METHODS)
def test_dtypes(method, dtype):
    weights = heat(2) if np.dtype(dtype).kind in "fc" else {(0, 0): 3, (0, 1): -1, (1, 0): 2, (-1, -1): -1}
    check(weights, field((33, 70), dtype), 6, "mirror", method=method)


@pytest.mark.parametrize("method", METHODS)
def test_functions(method):
    def life(u):
        around = sum(u[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return fl.where((around == 3) | ((around == 2) & (u[0, 0] == 1)), 1, 0)

    def oracle(now, before):
        around = sum(np.roll(now, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((around == 3) | ((around == 2) & (now == 1))).astype(now.dtype)

    world = (field((40, 50), "uint8") % 2).astype("uint8")
    check(life, world, 12, "periodic", oracle, method=method)

    def wave(u, before, c):
        return 2 * u[0, 0, 0] - before + 0.1 * c * (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, 0, -1])

    def turned(now, before, c):
        def at(*offset):
            return np.roll(now, [-o for o in offset], (0, 1, 2))

        return (
            2 * now - before + np.float32(0.1) * c * (at(1, 0, 0) + at(-1, 0, 0) + at(0, 1, 0) + at(0, 0, -1))
        )

    shape = (9, 12, 8)
    state = field(shape, seed=7), field(shape)
    made = check(wave, state, 6, "periodic", turned, coefficients=[field(shape, seed=8)], method=method)
    assert made.state[1].dtype == np.float32


@pytest.mark.parametrize("seed", range(12))
def test_any_scheme(seed):
    """Odd blocks, depths, strips, batches, worker counts: the bits of a sweep."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, [400, 60, 25][ndim - 1], ndim))
    steps, radius = int(rng.integers(1, 13)), int(rng.integers(1, 3))
    boundary = [
        "periodic" if rng.random() < 0.3
        else tuple(rng.choice(np.array(["neumann", "mirror", "fixed", {"fixed": 1.5}], object), 2))
        for _ in shape
    ]  # fmt: skip
    state = field(shape) if rng.random() < 0.5 else (field(shape, seed=3), field(shape))
    weights = box(ndim, radius, seed)
    for method in METHODS:
        options = {}
        if method in ("al2", "al3", "al4"):
            options["cache_block"] = [int(n) for n in rng.integers(1, 12, 3)]
        if method != "al4" and rng.random() < 0.8:
            least = 1 if method != "al3" else 3  # cells of a tile's edges: many, and small
            options["block"] = [int(rng.integers(min(n, least), n + 2)) for n in shape]
        if method != "sweep":
            options["depth"] = int(rng.integers(1, steps + 1))
        with fl.Runtime(workers=int(rng.integers(1, 5))):
            weights = {at: w / 8 for at, w in weights.items()}
            check(weights, state, steps, boundary, method=method, **options)


def test_no_steps_and_kernels_as_arrays():
    x = field((6, 8))
    for method in METHODS:
        np.testing.assert_array_equal(fl.stencil(heat(2), x, 0, method=method).state, x)
        assert fl.stencil(heat(2), x[:0], 3, method=method).state.shape == (0, 8)
    kernel = np.zeros((3, 5))
    kernel[1, 0], kernel[1, 2], kernel[2, 2] = 0.25, 0.5, 0.125
    check({(0, -2): 0.25, (0, 0): 0.5, (1, 0): 0.125}, x, 3)
    np.testing.assert_array_equal(
        fl.stencil(kernel, x, 3).state, fl.stencil({(0, -2): 0.25, (0, 0): 0.5, (1, 0): 0.125}, x, 3).state
    )


def test_laplacians_are_exact_on_polynomials():
    x = np.arange(12.0)
    for order in (2, 4, 6, 8):
        weights = fl.laplacian(1, order, spacing=0.5)
        made = sum(w * (0.5 * (x + at[0])) ** order for at, w in weights.items())
        wanted = order * (order - 1) * (0.5 * x) ** (order - 2)
        np.testing.assert_allclose(made, wanted, rtol=0, atol=64 * np.finfo(float).eps * 8.0**order)
    assert [len(fl.points(n)) for n in (7, 19, 27)] == [7, 19, 27]
    assert sum(fl.points(27).values()) == pytest.approx(1, abs=27 * np.finfo(float).eps)


@pytest.mark.parametrize("boundary", ["fixed", "periodic"])
@pytest.mark.parametrize("block", [(8, 10, 16), (5, 7, 16), (24, 6, 16)])
def test_skewed_tiles_keep_what_they_changed_of_a_chunk(block, boundary, tmp_path):
    """A packed chunk is read whole by the next tile, also where that needs what an earlier one made of it."""
    x = field((24, 20, 16))
    a = fl.from_numpy(x, tmp_path / "x.zarr", chunks=(7, 6, 16), codec="zstd")
    options = {"boundary": boundary, "out": np.empty_like(x)}
    wanted = np.array(fl.stencil(box(3, 1), x, 6, method="al1", **options).state)
    made = fl.stencil(box(3, 1), a, 6, method="al3", depth=3, block=block, cache_block=(3, 8, 1), **options)
    np.testing.assert_array_equal(made.state, wanted)
