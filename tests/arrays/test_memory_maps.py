"""NumPy memory maps as operands and values: the file behind one is read in place, no page is touched."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl

ROWS, COLS = 1500, 1200  # 7 MiB of float32
SEEN = {
    "all": np.s_[:],
    "rows": np.s_[100:],
    "every third row": np.s_[::3],
    "columns": np.s_[:, 5:1100],
    "every other column": np.s_[:, ::2],
    "backwards": np.s_[::-1],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    values = np.random.default_rng(5).standard_normal((ROWS, COLS), dtype="float32")
    np.save(folder / "C.npy", values)
    np.save(folder / "F.npy", np.asfortranarray(values))
    return folder


def seen(file, mode: str, which: str) -> tuple[np.ndarray, np.ndarray]:
    """A view of a map, changed where no file holds the change, and what it holds."""
    view = np.load(file, mmap_mode=mode)[SEEN[which]]
    if mode == "c":
        view[3, 4] = 77
    return view, np.array(view)


@pytest.mark.parametrize("which", SEEN)
@pytest.mark.parametrize("mode", ["C r", "F r", "C r+", "C c"])
def test_every_kind_of_map_as_operand_and_value(files, mode, which, tmp_path):
    order, mode = mode.split()
    view, values = seen(files / f"{order}.npy", mode, which)
    total = fl.compute(fl.add(view, 1).sum(0))
    assert np.array_equal(total, fl.compute(fl.add(values, 1).sum(0)))
    made = fl.from_numpy(view, str(tmp_path / "made.zarr"))
    assert np.array_equal(np.asarray(made), values)
    assigned = fl.create(str(tmp_path / "assigned.zarr"), values.shape, "float32")
    assigned[...] = view
    assert np.array_equal(np.asarray(assigned), values)
    ones = np.ones((values.shape[1], 3), "float32")
    product, exact = np.asarray(fl.matmul(view, ones)), values.astype("float64") @ ones
    bound = COLS * np.finfo("float32").eps * (np.abs(values) @ ones)  # n eps |A| |X|
    assert (np.abs(product - exact) <= bound).all()
    assert np.array_equal(np.asarray(fl.rechunk(view, (100, -1))), values)
    assert np.array_equal(np.array(view), values), "the map itself is as it was"


def test_what_was_written_through_a_map_is_seen(tmp_path):
    view = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "float64", (600, 400))
    view[...] = 3
    assert fl.compute(fl.add(view, 1).sum()) == 4 * 600 * 400


def test_a_file_that_was_replaced_is_not_read(tmp_path):
    """The map still shows the old file, and so do we."""
    path = tmp_path / "a.npy"
    np.save(path, np.ones((600, 400)))
    view = np.load(path, mmap_mode="r")
    path.rename(tmp_path / "old.npy")
    np.save(path, np.zeros((600, 400)))
    assert fl.compute(fl.add(view, 0).sum()) == 600 * 400


def test_pages_are_not_held(isolated):
    """160 MiB of a map pass through the least limit of each way to hand it over."""
    peaks = isolated(
        """
        from tests.support.processes import peak_memory, reset_peak
        a = np.lib.format.open_memmap("a.npy", "w+", "float32", (20_000, 2048)); a.flush(); del a
        result = {}
        target = fl.create("t.zarr", (20_000, 2048), "float32")
        def assign(m): target[...] = m
        calls = {
            "from_numpy": lambda m: fl.from_numpy(m, "f.zarr", overwrite=True),
            "compute": lambda m: fl.compute(fl.add(m, 1).sum(0)),
            "matmul": lambda m: fl.matmul(m, np.ones((2048, 8), "f4"), out="p.zarr"),
            "assign": assign,
        }
        for name, call in calls.items():
            for mode in ("r", "c"):
                view = np.load("a.npy", mmap_mode=mode)
                with fl.Runtime(memory="1MiB", workers=1):
                    try: call(view)
                    except fl.BudgetError as error: least = error.least
                reset_peak()
                with fl.Runtime(memory=least, workers=1): call(view)
                result[f"{name} {mode}"] = peak_memory() / least
        """
    )
    assert all(over <= 1 for over in peaks.values()), peaks
