"""Flat binary files in place: any offset, order, leading dimension and byte order."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

KINDS = ["<f4", ">f4", "<f8", ">f8", "<c8", ">c16", "<i2", ">i8", "u1", "?", "<f2"]


@st.composite
def layouts(draw):
    shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    order = draw(st.sampled_from("CF"))
    row = shape[0] if order == "F" else shape[-1]
    leading = None if len(shape) == 1 else draw(st.none() | st.integers(row, row + 20))
    return shape, draw(st.sampled_from(KINDS)), order, draw(st.integers(0, 5000)), leading


def view_of(content, shape, dtype, order, offset, leading):
    """Return NumPy's strided view of the same elements."""
    item = np.dtype(dtype).itemsize
    padded = list(shape if order == "C" else shape[::-1])
    if leading is not None:
        padded[-1] = leading
    strides = [item] * len(padded)
    for d in reversed(range(len(padded) - 1)):
        strides[d] = strides[d + 1] * padded[d + 1]
    return np.ndarray(shape, dtype, content, offset, strides if order == "C" else strides[::-1])


@given(layouts(), st.randoms(use_true_random=False))
@examples(60, HealthCheck.function_scoped_fixture)
def test_reads_and_writes_equal_numpys_view_and_leave_every_other_byte(tmp_path, layout, random):
    shape, dtype, order, offset, leading = layout
    item = np.dtype(dtype).itemsize
    size = offset + (int(np.prod([n + 20 for n in shape])) + 50) * item
    content = np.random.default_rng(random.randrange(1 << 30)).integers(0, 2, size, dtype=np.uint8)
    path = tmp_path / "a.bin"
    content.tofile(path)
    expected = view_of(content, *layout)
    a = fl.open_raw(path, dtype, shape, order=order, offset=offset, leading=leading, mode="r+")
    assert (a.shape, a.dtype) == (shape, np.dtype(dtype).newbyteorder("="))
    np.testing.assert_array_equal(a[...], expected)
    box = tuple(slice(*sorted((random.randint(0, n), random.randint(0, n)))) for n in shape)
    np.testing.assert_array_equal(a[box], expected[box])
    a[box] = np.ones(expected[box].shape, dtype)
    expected[box] = 1
    a.flush()
    np.testing.assert_array_equal(np.fromfile(path, np.uint8), content)


def test_a_product_of_flat_files_equals_numpys(tmp_path):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((300, 411), np.float32), rng.standard_normal((411, 200), np.float32)
    with open(tmp_path / "a.bin", "wb") as file:
        file.write(b"header!" + np.pad(A, ((0, 0), (0, 13))).tobytes())
    B.T.astype(">f4").tofile(tmp_path / "b.bin")
    a = fl.open_raw(tmp_path / "a.bin", "f4", A.shape, offset=7, leading=424)
    b = fl.open_raw(tmp_path / "b.bin", ">f4", B.shape, order="F")
    got = fl.matmul(a, b, memory="4GiB")[...]
    np.testing.assert_array_equal(got, fl.matmul(A, B, memory="4GiB")[...])
    np.testing.assert_allclose(got, A.astype("f8") @ B.astype("f8"), rtol=0, atol=411 * 2e-7 * np.sqrt(411))


def test_pickles_open_the_same_elements_again(tmp_path):
    np.arange(640, dtype=">i4").tofile(tmp_path / "a.bin")
    a = fl.open_raw(tmp_path / "a.bin", ">i4", (20, 29), offset=12, leading=30, order="C")
    again = pickle.loads(pickle.dumps(a.T))
    np.testing.assert_array_equal(again[...], a[...].T)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"shape": (11, 10), "offset": 200}, fl.FormatError,
         "has 1000 bytes and 11 x 10 of float64 from offset 200 needs 1080"),
        ({"shape": (10, 10), "leading": 9}, fl.ShapeError, "a row holds 10 elements"),
        ({"shape": 10, "leading": 12}, fl.ShapeError, "leave it out"),
        ({"shape": (10,), "offset": -1}, fl.ShapeError, "offset must be 0 or more"),
        ({"shape": (2, 2), "leading": 0}, fl.ShapeError, "leading 1 or more"),
        ({"shape": (2.5, 2)}, fl.ShapeError, "whole numbers"),
        ({"shape": (-1, 2)}, fl.ShapeError, "must not be negative"),
        ({"shape": (1 << 40, 1 << 40)}, fl.ShapeError, "2^63"),
        ({"shape": (2, 2), "order": "K"}, ValueError, "choose 'C' or 'F'"),
        ({"shape": (2, 2), "mode": "w"}, ValueError, "choose 'r' or 'r+'"),
        ({"shape": (2, 2), "dtype": "U3"}, fl.ShapeError, "not supported"),
    ],
)  # fmt: skip
def test_what_does_not_conform_is_said(tmp_path, arguments, kind, words):
    (tmp_path / "a.bin").write_bytes(bytes(1000))
    arguments = {"dtype": "f8", **arguments}
    with pytest.raises(kind, match=words.replace("+", r"\+").replace("^", r"\^")) as caught:
        fl.open_raw(tmp_path / "a.bin", **arguments)
    assert str(caught.value).count(". ") == 0


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fl.open_raw(tmp_path / "none.bin", "f4", (1,))
    with pytest.raises(fl.FormatError, match="directory"):
        fl.open_raw(tmp_path, "f4", (1,))


def test_read_only_arrays_refuse_assignment(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(80))
    a = fl.open_raw(tmp_path / "a.bin", "f8", (10,))
    with pytest.raises(fl.StorageError, match="r\\+"):
        a[0] = 1.0
