"""The wave equation: order of convergence, a standing wave, energy, what the layer gives back."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl


def test_a_standing_wave_of_high_wave_number_is_exact_for_the_scheme():
    """u = Π sin(π j x/(n+1)) cos(ωt): 2 - 2 cos ω = Σ c² (2 - 2 cos(π j/(n+1))), of the scheme of order 2."""
    n, modes, c2, steps = (30, 41, 26), (17, 23, 19), 0.2, 40
    shape = np.ones(n)
    for d, (extent, j) in enumerate(zip(n, modes, strict=True)):
        line = np.sin(np.pi * j * np.arange(1, extent + 1) / (extent + 1))
        shape = shape * line.reshape([-1 if e == d else 1 for e in range(3)])
    omega = np.arccos(1 - sum(c2 * (1 - np.cos(np.pi * j / (m + 1))) for m, j in zip(n, modes, strict=True)))
    for method in ("al4", "al1", "sweep"):
        made = fl.stencil(
            fl.laplacian(3),
            (shape * np.cos(-omega), shape),
            steps,
            coefficients=np.full((1,), c2),
            method=method,
        )
        error = np.abs(np.asarray(made.state[1]) - shape * np.cos(omega * steps)).max()
        assert error < 40 * steps**2 * np.finfo(float).eps


@pytest.mark.parametrize("order", [2, 4, 8])
def test_order_of_convergence(order):
    """A periodic wave after a fixed time: the error in space falls by 2^order when the grid is halved."""
    errors = []
    for n in (32, 64):
        x = np.arange(n) / n
        c2 = 1e-10 * n**2  # the same, tiny, step of time: its error does not show
        state = (np.sin(6 * np.pi * (x + 1e-5)), np.sin(6 * np.pi * x))
        made = fl.stencil(
            fl.laplacian(1, order), state, 200, coefficients=np.full(1, c2), boundary="periodic"
        )
        errors.append(np.abs(np.asarray(made.state[1]) - np.sin(6 * np.pi * (x - 2e-3))).max())
    assert errors[0] / errors[1] > 0.7 * 2**order


def test_energy_is_constant_without_a_layer_and_goes_with_one():
    velocity = np.full((90, 90), 1500.0)
    options = {"spacing": 5.0, "sources": [(45, 45)], "frequency": 40.0}
    kept = fl.wave(velocity, 400, sponge_width=0, **options)
    gone = fl.wave(velocity, 400, sponge_width=25, **options)
    size = [np.linalg.norm(np.asarray(made.state[1])) for made in (kept, gone)]
    assert size[1] < 0.05 * size[0]


def test_the_layer_gives_little_back():
    """Against a domain so large that nothing comes back: 4 % of the amplitude at two wavelengths of layer."""
    h, c, f = 5.0, 1500.0, 30.0  # wavelength: 10 points
    options = {"spacing": h, "frequency": f, "dt": 1e-3}
    small = fl.wave(np.full(200, c), 400, sources=[(100,)], receivers=[(130,)], sponge_width=20, **options)
    large = fl.wave(np.full(1200, c), 400, sources=[(600,)], receivers=[(630,)], sponge_width=0, **options)
    back = np.abs(small.traces - large.traces).max()
    assert 0 < back < 0.04 * np.abs(large.traces).max()


def test_a_source_is_heard_when_the_wave_has_come():
    made = fl.wave(
        np.full((100, 120), 2000.0, "f4"), 300, spacing=10.0, sources=[(50, 20)], frequency=20.0,
        receivers=[(50, 20 + 60)],
    )  # fmt: skip
    when = np.abs(made.traces[:, 0]).argmax() * made.dt
    assert made.traces.dtype == np.float32
    assert abs(when - (600 / 2000 + 1.2 / 20)) < 0.5 / 20


def test_what_is_refused():
    v = np.full((20, 30), 2000.0)
    with pytest.raises(ValueError, match=r"wave: dt is 1.0 and the longest step that is stable is 0.00"):
        fl.wave(v, 3, spacing=10.0, dt=1.0)
    with pytest.raises(ValueError, match="largest velocity is nan"):
        fl.wave(v * np.nan, 3, spacing=10.0)
    with pytest.raises(TypeError, match="give frequency="):
        fl.wave(v, 3, spacing=10.0, sources=[(1, 1)])
    with pytest.raises(ValueError, match="one positive number"):
        fl.wave(v, 3, spacing=-1.0)
    with pytest.raises(ValueError, match="width is -1"):
        fl.sponge((4, 5), -1)


def test_the_size_of_a_velocity_decides_its_step():
    """A step squares it: the fastest point may be a negative one."""
    v = np.where(np.arange(40) < 20, -5000.0, 10.0) * np.ones((30, 1))
    options = {"spacing": 10.0, "sources": [[(3, 4), np.ones(30)]]}
    made = fl.wave(v, 30, **options)
    assert made.dt == fl.wave(np.abs(v), 30, **options).dt
    np.testing.assert_array_equal(made.state[1], fl.wave(np.abs(v), 30, **options).state[1])


def test_a_plan_counts_both_passes(tmp_path):
    v = fl.from_numpy(np.full((60, 120, 160), 2000.0, "f4"), tmp_path / "v.zarr")
    options = {"spacing": 10.0, "sources": [(5, 60, 80)], "frequency": 20.0, "receivers": [(5, 60, 90)]}
    noise = np.random.default_rng(0).standard_normal(v.shape).astype("f4")  # chunks of zeros are not stored
    options["state"] = (noise, noise)
    fl.wave(v, 2, **options)
    plan = fl.wave.plan(v, 6, out=tmp_path / "w.zarr", **options)
    done = fl.wave(v, 6, out=tmp_path / "w.zarr", **options)
    told = fl.stats()
    assert plan.what == told.what
    assert plan.what.startswith("wave 60 x 120 x 160 float32, 6 steps")
    assert plan.bytes_read >= 2 * v.nbytes
    assert abs(plan.bytes_read - told.bytes_read) <= 0.01 * plan.bytes_read
    assert abs(plan.bytes_written - told.bytes_written) <= 0.01 * plan.bytes_written
    assert plan.flops == told.flops
    assert plan.choice.supersteps == told.stencil.supersteps
    assert done.traces.shape == (6, 1)


def test_nothing_is_read_before_everything_was_looked_at():
    def refused(shape):
        raise AssertionError("read")

    v = fl.from_function(lambda box: refused(box), (20, 30), dtype="f4")
    for options, words in (
        ({"receivers": [(99, 0)]}, "a receiver is at"),
        ({"sources": [(99, 0)], "frequency": 1.0}, "a source is at"),
        ({"sponge_width": -1}, "width is -1"),
        ({"method": "al7"}, "no method"),
        ({"dt": -1.0}, "dt is -1.0; a positive number"),
    ):
        with pytest.raises(ValueError, match=words):
            fl.wave(v, 3, spacing=1.0, **options)
