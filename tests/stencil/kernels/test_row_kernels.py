"""Kernels that are functions of rows: the bits of traced ones, branches, what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core
from flagstone._stencil.given.operands import StepField
from flagstone._stencil.kernel.row_code import digest_of
from flagstone._stencil.kernel.rows import set_rows

pytest.importorskip("numba")
rng = np.random.default_rng(8)


def line(to, u):
    for i in range(len(to)):
        to[i] = 0.5 * u[i + 2] + 0.25 * (u[i] + u[i + 4])


def swing(to, u, before, speed, damp):
    for i in range(len(to)):
        around = u[1][i] + u[1][i + 2] + u[0][i + 1] + u[2][i + 1] - 4 * u[1][i + 1]
        to[i] = ((2 * u[1][i + 1] - (1 - damp[i]) * before[i]) + speed[i] * around) / (1 + damp[i])


def corners(to, u):
    for i in range(len(to)):
        total = 0
        for planes in u:
            for row in planes:
                total += 3 * row[i] - row[i + 2]
        to[i] = total


def box(u):
    offsets = [(z, y) for z in (-1, 0, 1) for y in (-1, 0, 1)]
    return sum(3 * u[z, y, -1] - u[z, y, 1] for z, y in offsets)


#: what a function of neighbours says too, and the loop over rows that says the same
CASES = {
    "line": (
        line, (2,), {}, lambda u: 0.5 * u[0] + 0.25 * (u[-2] + u[2]), rng.standard_normal(5001),
        {"boundary": "mirror"},
    ),
    "swing": (
        swing, (1, 1), {"order": 2, "coefficients": 2},
        lambda u, before, speed, damp: (
            (2 * u[0, 0] - (1 - damp) * before)
            + speed * (u[0, -1] + u[0, 1] + u[-1, 0] + u[1, 0] - 4 * u[0, 0])
        ) / (1 + damp),
        (rng.standard_normal((31, 45)), rng.standard_normal((31, 45))),
        {"coefficients": [rng.random((31, 45)), rng.random((31, 1))], "boundary": "periodic"},
    ),
    "corners": (
        corners, (1, 1, 1), {"dtype": "int32"}, box, rng.integers(-9, 9, (7, 9, 33), "i4"),
        {"boundary": ["periodic", "neumann", ("fixed", "mirror")]},
    ),
}  # fmt: skip


def numbers(state):
    return [np.asarray(one) for one in (state if isinstance(state, tuple) else (state,))]


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_rows_has_the_bits_of_the_traced_one(name):
    function, radius, told, same, state, options = CASES[name]
    kernel = fl.row_kernel(function, radius, **told)
    expected = numbers(fl.stencil(same, state, 6, method="sweep", **options).state)
    for method in ("sweep", "al1", "al2", "al3", "al4"):
        found = numbers(fl.stencil(kernel, state, 6, method=method, **options).state)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=method)
    assert f"function {function.__name__} of rows" in fl.stats().what


def test_rows_may_branch_and_call_functions_of_numba():
    import numba

    @numba.njit
    def steepest(a, b):
        return a if abs(a) > abs(b) else b

    @numba.njit
    def eroded(to, u):
        for i in range(len(to)):
            fall = steepest(u[0][i + 1] - u[1][i + 1], u[1][i] - u[1][i + 1])
            while abs(fall) > 0.5:
                fall /= 2
            to[i] = u[1][i + 1] + fall

    x = rng.standard_normal((23, 41))
    found = np.asarray(fl.stencil(fl.row_kernel(eroded, (1, 1)), x, 3, boundary="neumann").state)
    for _ in range(3):
        wide = np.pad(x, 1, "symmetric")
        up, left = wide[:-2, 1:-1] - x, wide[1:-1, :-2] - x
        fall = np.where(np.abs(up) > np.abs(left), up, left)
        while (steep := np.abs(fall) > 0.5).any():
            fall = np.where(steep, fall / 2, fall)
        x = x + fall
    np.testing.assert_array_equal(found, x)


def test_a_field_on_disk_in_a_limit(tmp_path):
    x = rng.standard_normal((300, 500)).astype("f4")
    fl.from_numpy(x, tmp_path / "x.zarr", chunks=(64, 128))

    def smooth(to, u):
        for i in range(len(to)):
            to[i] = np.float32(0.25) * (u[0][i + 1] + u[2][i + 1]) + np.float32(0.5) * u[1][i + 1]

    kernel = fl.row_kernel(smooth, (1, 1), dtype="float32", flops=4)
    plan = fl.stencil.plan(kernel, fl.open(tmp_path / "x.zarr"), 9, out=str(tmp_path / "y.zarr"))
    done = fl.stencil(
        kernel, fl.open(tmp_path / "x.zarr"), 9, out=str(tmp_path / "y.zarr"), memory=plan.least_memory
    )
    quarter = np.float32(0.25)
    for _ in range(9):
        wide = np.pad(x, ((1, 1), (0, 0)))
        x = quarter * (wide[:-2] + wide[2:]) + np.float32(0.5) * x
    np.testing.assert_array_equal(np.asarray(done.state), x)
    assert plan.flops == pytest.approx(4 * x.size * 9)


def test_a_function_of_numba_is_traced_where_it_can_be():
    import numba

    @numba.njit
    def mean(u):
        return (u[-1] + u[1]) / 2

    x = rng.standard_normal(99)
    found = fl.stencil(mean, x, 1, boundary="periodic").state
    np.testing.assert_array_equal(found, (np.roll(x, 1) + np.roll(x, -1)) / 2)


def test_functions_are_told_apart_by_code_and_by_what_they_close_over():
    def made(scale, table):
        def row(to, u):
            for i in range(len(to)):
                to[i] = scale * u[i] + table[0]

        return told(row)

    def told(row):
        core = _core.Stencil([9], "float64", 1)
        return set_rows(core, fl.row_kernel(row, (1,)), StepField("test", 1, np.dtype("f8"), 1, 0, []))

    one = made(2.0, np.ones(3))
    assert one == made(2.0, np.ones(3))
    assert len({one, made(3.0, np.ones(3)), made(2.0, np.zeros(3)), told(line)}) == 4


def test_functions_are_told_apart_by_dtypes_shapes_and_defaults():
    """Tables of equal bytes, and numbers that a function is defined with: Numba compiles what they are."""

    def made(table, factor=1.0, *, shift=0.0):
        def row(to, u, factor=factor, *, shift=shift):
            for i in range(len(to)):
                to[i] = factor * u[i] + shift + table.size

        return digest_of(row)

    zeros, numbers = np.zeros(2), np.arange(4.0)
    tables = [zeros, zeros.astype("f4").repeat(2), numbers, numbers.reshape(2, 2)]
    told = [made(table) for table in tables] + [made(zeros, 2.0), made(zeros, shift=1.0)]
    long = [np.arange(2000.0), np.arange(2000.0)]  # of which NumPy prints the ends
    long[1][1000] += 1
    told += [made(zeros, (table, 3)) for table in long]
    assert len(set(told)) == len(told)
    assert made(zeros) == told[0]


def test_functions_that_call_one_another_have_a_digest():
    def made(factor):
        def even(to, n):
            return odd(to, n - 1) if n else factor

        def odd(to, n):
            return even(to, n - 1) if n else -factor

        table = [factor]
        table.append(table)

        def row(to, u):
            to[0] = even(to, 2) + row(to, table)

        return digest_of(row)

    assert made(2.0) == made(2.0) != made(3.0)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: fl.row_kernel(3, (1,)), TypeError, "a function of rows is needed"),
        (lambda: fl.row_kernel(line, 2), ValueError, "one whole number for each of 1 to 3 axes"),
        (lambda: fl.row_kernel(line, (0, 0)), ValueError, "a step that looks at no neighbour is a map"),
        (lambda: fl.row_kernel(line, (2,), dtype="U3"), ValueError, "numbers are needed"),
        (lambda: fl.row_kernel(line, (1, 1)), TypeError, "Numba cannot compile the function"),
        (
            lambda: fl.stencil(fl.row_kernel(line, (2,)), np.ones(9, "f4"), 1), ValueError,
            "the kernel is for 1 axes, float64, time order 1 and 0 coefficients; the state has 1 axes, f",
        ),
        (
            lambda: fl.stencil([fl.row_kernel(line, (2,))], {"u": np.ones(9)}, 1), ValueError,
            "the kernel is of one field and the state has u; make it with row_kernel, fields= being names",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_numba_it_says_what_to_install():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import flagstone as fl\n"
        "try: fl.row_kernel(lambda to, u: None, (1,))\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install numba" in done.stdout
