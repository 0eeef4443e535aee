"""Time loops that were killed go on from their last epoch, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from flagstone._stencil.given.operands import StepField
from flagstone._stencil.trace import set_function, traced
from tests.stencil.test_stencil import field, heat
from tests.support.killed_calls import left_at

CALL = """
import flagstone as fl, numpy as np
heat = {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(3).items()}
a, b = fl.open("a.zarr"), fl.open("b.zarr")
series = np.linspace(-1, 1, 24).astype("f4")
with fl.Runtime(workers=workers):
    done = fl.stencil(
        heat, (a, b) if order == 2 else a, 24, method=method, depth=depth, memory=limit,
        boundary=["mirror", "periodic", ("fixed", "neumann")],
        coefficients=fl.open("k.zarr"), sources=[((3, 4, 5), series)], receivers=[(3, 4, 6), (0, 0, 0)],
        snapshots={"cut": (5, np.s_[:, 7, ::2]), "end": ([1, 23, 24], np.s_[2])},
        reductions=["sum", "change"],
        out="run.zarr",
    )
result = told() | {"digest": digest("run.zarr"), "traces": done.traces.tolist(),
                   "sum": done.reductions["sum"].tolist()}
"""


@pytest.fixture
def operands(tmp_path):
    for seed, name in enumerate("abk"):
        x = field((24, 40, 96), seed=seed)
        fl.from_numpy(0.05 * np.abs(x) if name == "k" else x, tmp_path / f"{name}.zarr")
    return tmp_path


@pytest.mark.parametrize("order", [1, 2])
def test_killed_at_several_epochs_and_gone_on_otherwise(process, operands, order):
    """Kills, each time with another method, other cells, another limit and number of workers."""
    options = {"method": "al4", "depth": 4, "order": order, "limit": "256MiB", "workers": 1}
    whole = process(CALL, **options)
    (operands / "run.zarr").rename(operands / "whole.zarr")
    process(CALL, 2, **options)
    (left,) = left_at(operands / "run.zarr")
    assert left.resumable
    assert left.done == pytest.approx(8 / 24)
    process(CALL, 1, **options | {"method": "al1", "depth": 3, "workers": 4})
    process(CALL, 1, **options | {"method": "al3", "depth": 2})
    process(CALL, 2, **options | {"method": "sweep", "depth": None, "limit": "400MiB"})
    (left,) = left_at(operands / "run.zarr")
    assert left.done == pytest.approx(15 / 24)
    again = process(CALL, **options | {"method": "auto", "depth": None, "workers": 2})
    assert again["what"].endswith("resumed at 62%")
    for name in ("digest", "traces", "sum"):
        assert again[name] == whole[name], name
    assert not left_at(operands / "run.zarr")
    assert fl.check(operands / "run.zarr").ok


def test_resume_makes_the_call_again(process, operands):
    options = {"method": "al1", "depth": 5, "order": 1, "limit": "256MiB", "workers": 2}
    whole = process(CALL, **options)
    (operands / "run.zarr").rename(operands / "whole.zarr")
    process(CALL, 1, **options)
    code = """
import flagstone as fl
done = fl.resume("run.zarr")
result = told() | {"digest": digest("run.zarr"), "traces": done.traces.tolist()}
"""
    again = process(code)
    assert "resumed at 21%" in again["what"]
    assert (again["digest"], again["traces"]) == (whole["digest"], whole["traces"])


def test_a_function_as_the_kernel_goes_on_where_the_call_is_made_again(process, operands):
    code = """
import flagstone as fl
a = fl.open("a.zarr")
kernel = lambda u: 0.5 * u[0, 0, 0] + 0.25 * (u[0, 0, 1] + u[0, -1, 0])
done = fl.stencil(kernel, a, 12, depth=3, out="f.zarr")
result = told() | {"digest": digest("f.zarr")}
"""
    whole = process(code)
    (operands / "f.zarr").rename(operands / "whole.zarr")
    process(code, 2)
    with pytest.raises(
        fl.FlagstoneError if hasattr(fl, "FlagstoneError") else fl.Error, match="Python function"
    ):
        fl.resume(operands / "f.zarr")
    again = process(code)
    assert (again["digest"], "resumed at 50%" in again["what"]) == (whole["digest"], True)


def test_kernels_that_differ_in_a_late_digit_are_two():
    """Else a killed loop would go on with the other one: NumPy prints eight digits, or what is asked."""

    def told(factor):
        of = StepField("test", 1, np.dtype("f8"), 1, 0, [])
        return set_function(
            _core.Stencil([9], "float64", 1), traced(lambda u: factor * u[0] + u[1], of), of.dtype, 0
        )

    one = told(1e-4)
    assert one != told(1.000000001e-4)
    with np.printoptions(precision=3):
        assert told(0.1234) != told(0.1231)
        assert one == told(1e-4)


def test_checkpoints_bound_a_superstep():
    """By the planner's rates; a loop this short is planned by constants, not by a probe of its kernel."""
    given = heat(3), fl.planned((64, 128, 256), "f4"), 64
    options = {"method": "al4", "memory": _core.resident_bytes() + (64 << 20), "out": "long.zarr"}
    with fl.Runtime(checkpoint=1e6, workers=2):
        free = fl.stencil.plan(*given, **options).stencil.depth
    with fl.Runtime(checkpoint=1e-6, workers=2):
        assert fl.stencil.plan(*given, **options).stencil.depth == 1 < free
        deeper = fl.stencil.plan(*given, depth=4, **options).stencil
        assert (deeper.depth, deeper.held_planes) == (4, 0)
        assert deeper.scratch_bytes == 3 * 64 * 128 * 256 * 4  # read, written, what a checkpoint speaks of
        skewed = fl.stencil.plan(*given, **options | {"method": "al3"})
        assert skewed.stencil.depth == 1
        assert "on two arrays a field, a third at checkpoints" in skewed.note
        assert skewed.stencil.scratch_bytes >= 2 * 64 * 128 * 256 * 4
    with pytest.raises(ValueError, match="a number of seconds"):
        fl.Runtime(checkpoint="x")


FIELDS = """
import flagstone as fl, numpy as np

def push(p, q):
    return {"q": q[0, 0, 0] - 0.3 * (p[0, 0, 1] - p[0, 0, 0])}

def squeeze(p, q):
    return {"p": p[0, 0, 0] - 0.2 * (q[0, 0, 0] - q[0, 1, -1]) + 0.05 * q[1, 0, 0]}

series = np.linspace(-1, 1, 12).astype("f4")
done = fl.stencil(
    [push, squeeze], {"p": fl.open("a.zarr"), "q": fl.open("b.zarr")}, 12, method=method, depth=depth,
    boundary=["mirror", "neumann", "periodic"], sources=[(("q", 3, 4, 5), series)],
    receivers=[("q", 3, 4, 6)],
    reductions=["sum", ("q", "change")], memory="256MiB", out="run.zarr",
)
result = told() | {"digest": digest("run.zarr"), "traces": done.traces.tolist(),
                   "change": done.reductions["q", "change"].tolist()}
"""


def test_fields_go_on_by_another_method(process, operands):
    whole = process(FIELDS, method="al4", depth=4)
    (operands / "run.zarr").rename(operands / "whole.zarr")
    process(FIELDS, 1, method="al4", depth=3)
    process(FIELDS, 1, method="al3", depth=3)
    again = process(FIELDS, method="al2", depth=3)
    assert again["what"].endswith("resumed at 50%")
    for name in ("digest", "traces", "change"):
        assert again[name] == whole[name], name


@pytest.mark.parametrize("order", [1, 2])
def test_skewed_tiles_go_on_from_a_copy(process, operands, order):
    """al3 changes its arrays in place: what is saved is a third one, of whole steps, twice in turn."""
    options = {"method": "al3", "depth": 4, "order": order, "limit": "256MiB", "workers": 2}
    whole = process(CALL, **options)
    (operands / "run.zarr").rename(operands / "whole.zarr")
    process(CALL, 3, **options)
    (left,) = left_at(operands / "run.zarr")
    assert left.done == pytest.approx(12 / 24)
    process(CALL, 1, **options | {"depth": 3, "workers": 4})
    again = process(CALL, **options | {"depth": 5})
    assert again["what"].endswith("resumed at 62%")
    for name in ("digest", "traces", "sum"):
        assert again[name] == whole[name], name
    assert not left_at(operands / "run.zarr")
