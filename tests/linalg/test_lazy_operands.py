"""Lazy operands: what is computed where it is loaded gives what the stored operand gives, to the bit."""

from __future__ import annotations

import gc
import operator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.killed_calls import left_at
from tests.support.processes import beside
from tests.support.strategies import stored_as, values

ROOM = (100, 160, 2048)  # MiB beside what is resident


def bits(a) -> bytes:
    return np.asarray(a).tobytes()


def at_every_beside(call) -> bytes:
    """The bits of a result, which neither the limit nor the number of workers changes."""
    found = set()
    for room, workers in zip(ROOM, (1, 3, 2), strict=True):
        with fl.Runtime(workers=workers):
            found.add(bits(call(beside(room))))
    (one,) = found
    return one


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A ragged matrix in chunks, a flat one beside it, and what of both is stored."""
    folder = tmp_path_factory.mktemp("lazy")
    a = values((1500, 700), "float32", 1)
    A = stored_as(a, folder / "a.zarr", (256, 192))
    B = fl.from_numpy(values((700, 300), "float32", 2), folder / "b.npy")
    return a, A, B


OPERANDS = {
    "log1p": lambda A: np.log1p(abs(A)),
    "centred": lambda A: A - A.mean(0),
    "two arrays": lambda A: A * 2 - np.flip(A, 0),
    "transposed": lambda A: (A.T + 1).T,
    "of a transpose": lambda A: abs(A.T).T * A,
    "joined": lambda A: fl.concat([A, np.float32(2) * A]),
    "constant": lambda A: fl.ones((500, 700), "float32"),
}


@pytest.mark.parametrize("kind", OPERANDS)
def test_products_have_the_bits_of_stored_operands(kind, stored, tmp_path):
    _, A, B = stored
    lazy = OPERANDS[kind](A)
    if kind == "constant":  # read in any box, as a flat file is
        kept = fl.compute(lazy, out=tmp_path / "kept.npy")
    else:
        kept = fl.rechunk(lazy, A.chunks, out=tmp_path / "kept.zarr")
    assert at_every_beside(lambda memory: fl.matmul(lazy, B, memory=memory)) == bits(fl.matmul(kept, B))
    assert bits(fl.matmul(lazy.T, lazy)) == bits(fl.matmul(kept.T, kept))
    v = values((700,), "float32", 3)
    assert bits(lazy @ v) == bits(kept @ v)


@pytest.mark.parametrize("method", ["gram", "krylov"])
def test_components_of_what_is_not_stored(method, stored, tmp_path):
    _, A, _ = stored
    lazy = (A - A.mean(0)) / A.std(0)
    kept = fl.compute(lazy, out=tmp_path / "kept.zarr")
    wanted = fl.pca(kept, 5, method=method)
    found = at_every_beside(lambda memory: fl.pca(lazy, 5, method=method, memory=memory).scores)
    assert found == bits(wanted.scores)


def test_rows_that_are_not_stored_in_the_coordinates_of_components(stored, tmp_path):
    _, A, _ = stored
    result = fl.pca(A, 3)
    lazy = abs(A) + 1
    kept = fl.compute(lazy, out=tmp_path / "kept.zarr")
    assert bits(result.transform(lazy)) == bits(result.transform(kept))
    both = result.transform(fl.concat([A, lazy]), out=tmp_path / "scores.zarr")
    assert isinstance(both, fl.Array)
    assert np.array_equal(both[len(A) :], result.transform(kept)[...])


def test_what_is_looked_at_goes_with_the_last_handle(stored):
    """A result in scratch is deleted when nobody holds it, not when garbage is collected."""
    _, A, B = stored
    gc.disable()
    try:
        kept = fl.compute(A + 1)  # in scratch
        path, lazy = Path(kept.path), fl.concat([kept * 2, kept])
        e = kept + 1
        fl.matmul(e, B)
        fl.matmul(lazy, B)
        del kept, lazy
        assert path.exists()
        del e
        assert not path.exists()
    finally:
        gc.enable()


@given(data=st.data())
@examples(6)
def test_any_expression_in_any_routine(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    shape = data.draw(st.tuples(st.integers(0, 60), st.integers(0, 60)))
    dtype = data.draw(st.sampled_from(["float32", "float64", "complex64"]))
    parts = []
    for i in range(2):
        chunks = tuple(data.draw(st.integers(1, max(1, n + 2))) for n in shape)
        x = values(shape, dtype, i)
        kind = data.draw(st.sampled_from(["zarr", "npy", "fortran", "memory"]))
        X = x
        if kind == "zarr":
            X = stored_as(x, folder / f"{i}.zarr", chunks)
        elif kind in ("npy", "fortran"):
            np.save(folder / f"{i}.npy", np.asfortranarray(x) if kind == "fortran" else x)
            X = fl.open(folder / f"{i}.npy")
        parts.append((x, X))
    (x, X), (y, Y) = parts
    row = values(shape[1:], dtype, 5)
    lazy, plain = fl.add(X, row) * Y, (x + row) * y
    computed = np.asarray(lazy)
    np.testing.assert_allclose(computed, plain, rtol=1e-5, atol=1e-6)
    plain = computed
    assert bits(fl.rechunk(lazy, tuple(max(1, n // 2) for n in shape))) == plain.tobytes()
    assert bits(fl.transpose(lazy)) == plain.T.tobytes()
    assert bits(fl.transpose(lazy.T)) == plain.tobytes()
    assert bits(fl.map_blocks(np.negative, lazy, block=(7, 9))) == (-plain).tobytes()
    if all(shape):
        assert fl.fold(np.size, operator.add, fl.concat([lazy, Y])) == 2 * x.size
    product = np.asarray(fl.matmul(lazy, fl.multiply(Y, 2).T))
    bound = 60 * np.finfo(dtype).eps * (abs(plain) @ abs(2 * y.T)) + 1e-30
    assert (abs(product - plain @ (2 * y.T)) <= 4 * bound).all()


def test_plans_count_what_runs_move_and_compute(stored):
    _, A, B = stored
    for lazy in (A - A.mean(0), A * 2 + np.flip(A), fl.concat([A, A + 1])):
        for routine, operands in [
            (fl.matmul, (lazy, B)), (fl.rechunk, (lazy, (100, -1))), (fl.pca, (lazy, 4)),
        ]:  # fmt: skip
            options = {"method": "gram"} if routine is fl.pca else {}
            memory = beside(150)
            plan = routine.plan(*operands, memory=memory, **options)
            routine(*operands, memory=memory, **options)
            done = fl.stats()
            assert (done.bytes_read, done.bytes_written) == (plan.bytes_read, plan.bytes_written)
            assert done.flops == pytest.approx(plan.flops)
            assert done.peak_memory <= memory
    fl.rechunk(A + 1, (100, -1))
    assert fl.stats().flops == A.size  # one operation an element, computed once


def test_what_is_read_often_is_kept_where_that_costs_less(tmp_path):
    parts = [values((3072, 512), "float32", i) for i in range(3)]
    a, b, c = (fl.from_numpy(x, tmp_path / f"{i}.zarr") for i, x in enumerate(parts))
    d = fl.from_numpy(values((512, 6144), "float32", 4), tmp_path / "d.zarr")
    kept = fl.compute(a * b + c, out=tmp_path / "kept.zarr")
    wanted = bits(fl.matmul(kept, d))
    told = set()
    for operand in (a * b + c, abs(a)):
        least = fl.matmul.plan(operand, d).least_memory
        for memory in (least + (4 << 20), least + (256 << 20)):
            memory = max(memory, beside(70))
            plan = fl.matmul.plan(operand, d, memory=memory)
            product = fl.matmul(operand, d, memory=memory)
            done = fl.stats()
            # Which tile goes when room is short follows the disk's clock: a few tiles of 4 MiB.
            assert done.bytes_read == pytest.approx(plan.bytes_read, abs=16 << 20)
            assert done.bytes_written == pytest.approx(plan.bytes_written, abs=16 << 20)
            assert done.flops == pytest.approx(plan.flops)
            told.add(
                "scratch" if "kept in scratch" in plan.note else "again" if "costs less" in plan.note else ""
            )
            assert operand.verb == "absolute" or bits(product) == wanted
            del product
    assert {"scratch", ""} <= told


def test_promoted_as_numpy_does(stored):
    a, A, _ = stored
    ints = fl.from_numpy(np.arange(700 * 3, dtype="int32").reshape(700, 3))
    wanted = np.log1p(abs(a)).astype("float64") @ np.ones((700, 2))
    product = fl.matmul(np.log1p(abs(A)), np.ones((700, 2)))
    assert product.dtype == np.float64
    np.testing.assert_allclose(product[...], wanted, rtol=1e-6)
    assert fl.matmul(ints + 1, np.ones((3, 2))).dtype == np.float64
    r = A.sum(0)  # pending: computed first, in a pass of its own
    np.testing.assert_allclose(np.asarray(A @ r), a @ a.sum(0), rtol=1e-3, atol=1e-2)


def test_sparse_products_take_lazy_vectors(tmp_path):
    s = sp.random(300, 200, 0.1, "csr", random_state=1)
    S = fl.from_blocks([s], tmp_path / "s.zarr")
    x = values((200, 4), "float64")
    X = fl.from_numpy(x, tmp_path / "x.npy")
    np.testing.assert_allclose(S @ (X * 2 + 1), s @ (x * 2 + 1))


def test_an_out_that_is_an_operand_is_found(tmp_path):
    a = values((40, 40), "float64")
    A = fl.from_numpy(a.copy(), tmp_path / "a.zarr")
    lazy = fl.concat([A + 1, A])
    square = fl.open(tmp_path / "a.zarr", mode="r+")
    fl.matmul(square + 1, square, out=square)
    np.testing.assert_allclose(square[...], (a + 1) @ a)
    memory = a.copy()
    fl.matmul(fl.add(memory, 1), a, out=memory)
    np.testing.assert_allclose(memory, (a + 1) @ a)
    joined = np.zeros((80, 40))
    joined[:40] = a
    fl.compute(fl.concat([joined[40:], joined[:40]]), out=joined)
    assert np.array_equal(joined, np.concatenate([np.zeros((40, 40)), a]))
    assert lazy.shape == (80, 40)
    target = fl.open(tmp_path / "a.zarr", mode="r+")
    before = target[...]
    target[...] = fl.flip(target, 0)
    assert np.array_equal(target[...], before[::-1])


def test_assigning_what_is_looked_at(tmp_path, monkeypatch):
    from flagstone._expression import slicing

    monkeypatch.setattr(slicing, "PIECE", 4096)  # rows are computed and stored piece by piece
    x = values((600, 50), "float64")
    A = fl.create(tmp_path / "a.zarr", x.shape, x.dtype, chunks=(16, 50))
    A[...] = x
    A[...] = fl.flip(A, 0)
    assert np.array_equal(A[...], x[::-1])
    A[...] = fl.roll(fl.open(tmp_path / "a.zarr"), 7, 0) + 1  # another handle
    assert np.array_equal(A[...], np.roll(x[::-1], 7, 0) + 1)
    A[100:300] = fl.concat([A[:100], fl.flip(A)])[:200]
    memory = fl.from_numpy(x.copy())
    memory[...] = fl.flip(memory, 0) * 1
    assert np.array_equal(memory[...], x[::-1])


def test_a_graph_refuses_to_write_what_is_looked_at(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (64, 64), "float64", chunks=(32, 32))
    lazy = fl.flip(A)
    graph = fl.graph()
    graph.add(lambda x, y: None, fl.read(lazy), fl.write(A))
    with pytest.raises(fl.ShapeError, match="lazy array"):
        graph.run()


KILLED = """
A, v = fl.open("a.zarr"), fl.open("a.zarr")[0]
lazy = np.log1p(abs(A - A.mean(0))) + fl.concat([fl.flip(fl.open("half.npy"), 1), fl.open("half.npy")])
fl.matmul(lazy, fl.open("b.npy"), out="c.zarr", memory="130MiB")
result = told() | {"digest": digest("c.zarr"), "saves": len(saves)}
"""


def test_a_killed_call_goes_on(process, tmp_path):
    a = values((4100, 700), "float64", 1)
    fl.from_numpy(a, tmp_path / "a.zarr")
    np.save(tmp_path / "half.npy", a[:2050])
    np.save(tmp_path / "b.npy", values((700, 2100), "float64", 2))
    whole = process(KILLED)
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(KILLED, kill=max(1, whole["saves"] // 2))
    (left,) = left_at(tmp_path / "c.zarr")
    assert 0 < left.done < 1
    again = process('fl.resume("c.zarr", memory="160MiB")\nresult = told() | {"digest": digest("c.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]


def test_resume_says_what_became_of_a_member(process, tmp_path):
    a = values((4100, 700), "float64", 1)
    fl.from_numpy(a, tmp_path / "a.zarr")
    np.save(tmp_path / "half.npy", a[:2050])
    np.save(tmp_path / "b.npy", values((700, 2100), "float64", 2))
    process(KILLED, kill=2)
    np.save(tmp_path / "half.npy", a[:2050] + 1)
    with pytest.raises(fl.FormatError, match=r"half\.npy' was changed since"):
        fl.resume(tmp_path / "c.zarr")
