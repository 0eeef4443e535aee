"""Edges that are fixed to an array of the face, or to a function of the step."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.stencil.oracle import as_edges, swept
from tests.stencil.test_stencil import METHODS, box, field

SHAPE = (7, 18, 11)
OPTIONS = {
    "sweep": {},
    "al1": {"block": (4, 7, 11), "depth": 3},
    "al2": {"block": (5, 18, 11), "depth": 4, "cache_block": (3, 5, 2)},
    "al3": {"block": (4, 9, 11), "depth": 4},
    "al4": {"cache_block": (2, 8, 2), "depth": 4},
}


def at_step(side, t):
    changes = isinstance(side, dict) and callable(side["fixed"])
    return {"fixed": side["fixed"](t)} if changes else side


def stepped(weights, state, steps, boundary):
    """Plain sweeps, step by step: functions of the step are numbers in each."""
    for t in range(steps):
        now = [tuple(at_step(side, t) for side in axis) for axis in boundary]
        state, _ = swept(weights, state, 1, as_edges(now, 3))
    return state


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", [1, 2])
def test_faces_and_functions(method, order):
    faces = [field(tuple(n for d, n in enumerate(SHAPE) if d != axis), seed=20 + axis) for axis in range(3)]
    state = field(SHAPE) if order == 1 else (field(SHAPE, seed=3), field(SHAPE))
    boundaries = [
        [
            ({"fixed": faces[0]}, {"fixed": -faces[0]}),
            ({"fixed": faces[1]}, "mirror"),
            ("neumann", {"fixed": faces[2]}),
        ],
        [({"fixed": faces[0]}, "mirror"), ("periodic", "periodic"), ({"fixed": 2.0}, {"fixed": faces[2]})],
        [
            ({"fixed": lambda t: 0.5 * t}, {"fixed": faces[0]}), ({"fixed": lambda t: -t}, "mirror"),
            ("neumann", {"fixed": abs}),
        ],
    ]  # fmt: skip
    weights = {at: w / 30 for at, w in box(3, 1).items()}
    for boundary in boundaries:
        out = tuple(np.full_like(x, 77) for x in state) if order == 2 else np.full_like(state, 77)
        with fl.Runtime(workers=3):
            done = fl.stencil(weights, state, 9, boundary=boundary, method=method, out=out, **OPTIONS[method])
        wanted = stepped(weights, state, 9, boundary)
        pairs = zip(done.state, wanted, strict=True) if order == 2 else [(done.state, wanted)]
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)


def test_what_edges_refuse():
    x = field((6, 8))
    for fixed, sentence in [
        (np.zeros(7), "one number, or an array of 8, is needed"),
        (np.zeros((6, 8)), "2-dimensional"),
        (lambda t: [t, t], "returned an array"),
        (lambda t: "a", "a fixed boundary"),
        (np.full(8, 1j), "a number of float32"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            fl.stencil({(0, 0): 1}, x, 3, boundary=[{"fixed": fixed}, "fixed"])
    with pytest.raises(TypeError, match="a number of uint8"):
        fl.stencil({(0, 0): 1}, x.astype("u1"), 3, boundary=[{"fixed": np.full(8, 256)}, "fixed"])


def test_changing_edges_of_skewed_tiles():
    """What earlier tiles left is of several steps: each level finds the edge that its own step has."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        block = [int(rng.integers(2, n + 1)) for n in SHAPE]
        boundary = [({"fixed": lambda t: 1.0 + t}, {"fixed": lambda t: -t}) for _ in SHAPE]
        weights = {at: w / 30 for at, w in box(3, int(rng.integers(1, 3))).items()}
        x = field(SHAPE, seed=seed)
        done = fl.stencil(
            weights,
            x,
            9,
            boundary=boundary,
            method="al3",
            block=block,
            depth=int(rng.integers(2, 7)),
            cache_block=[int(n) for n in rng.integers(1, 5, 3)],
        )
        np.testing.assert_array_equal(done.state, stepped(weights, x, 9, boundary))
