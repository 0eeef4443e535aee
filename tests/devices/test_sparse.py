"""Sparse products beside devices: panels that the host unpacks, multiplied there, at the host's bytes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import flagstone as fl
from tests.devices.emulated import emulated
from tests.support.processes import beside, fingerprint, random_csr

M, N, EACH = 150_000, 900, 8
WIDE = 40  # times as many columns: their sums take more than 2 MiB, and panels are added in order


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A, 150,000 x 900 in three panels, the last one short; Z, complex; vectors for either side of A."""
    folder = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(3)
    columns = rng.integers(0, N - EACH, (M, 1)) + np.arange(EACH)
    pointers = np.arange(0, M * EACH + 1, EACH)
    values = rng.standard_normal(M * EACH).astype("f4")
    a = csr_array((values, columns.ravel(), pointers), shape=(M, N))
    fl.from_blocks(iter([a[i : i + 50_000] for i in range(0, M, 50_000)]), folder / "a.zarr")
    fl.from_blocks(iter([random_csr(3000, 500, 0.1, 4) * (1 + 2j)]), folder / "z.zarr")
    wide = csr_array((values, columns.ravel() * WIDE, pointers), shape=(M, N * WIDE))
    fl.from_blocks(iter([wide]), folder / "w.zarr")
    fl.from_numpy(rng.standard_normal((N, 24)).astype("f4"), folder / "x.zarr")
    fl.from_numpy(rng.standard_normal((M, 24)).astype("f4"), folder / "t.zarr")
    return folder


def _bytes(*parts):
    return fingerprint(*(np.asarray(part) for part in parts))


#: Vectors on disk and in memory; rows, values and sums of all kinds.
CALLS = {
    "A X": lambda at: _bytes(fl.matmul(at("a.zarr"), at("x.zarr"))),
    "A x": lambda at: _bytes(at("a.zarr") @ np.ones(N, "f4")),
    "2 A X": lambda at: _bytes(fl.matmul(at("a.zarr"), at("x.zarr")[:, :5], alpha=2)),
    "A in float64": lambda at: _bytes(fl.matmul(at("a.zarr"), np.ones((N, 9)))),
    "A[rows] X": lambda at: _bytes(at("a.zarr")[::7] @ np.ones((N, 20), "f4")),
    "abs(A).log1p() X": lambda at: _bytes(abs(at("a.zarr")).log1p() @ np.ones((N, 20), "f4")),
    "At T": lambda at: _bytes(fl.matmul(at("a.zarr").T, at("t.zarr"))),
    "Wt T": lambda at: _bytes(fl.matmul(at("w.zarr").T, at("t.zarr"))),
    "Wt T in float64": lambda at: _bytes(fl.matmul(at("w.zarr").T, np.cos(np.arange(9.0 * M)).reshape(M, 9))),
    "Z X": lambda at: _bytes(at("z.zarr") @ np.ones((500, 5), "c16")),
    "Zh X": lambda at: _bytes(at("z.zarr").H @ np.ones((3000, 5), "c16")),
    "pca": lambda at: _bytes(fl.pca(at("a.zarr"), 3, method="krylov").components),
    "pca, not centred": lambda at: _bytes(fl.pca(at("a.zarr"), 3, method="krylov", center=False).components),
}

RUNTIMES = {
    "one": lambda: fl.Runtime(workers=2, devices=[emulated("64MiB")]),
    "little": lambda: fl.Runtime(
        workers=2, memory=beside(300), devices=[emulated("24MiB", reorder=5, workspace=4096)]
    ),
    "two": lambda: fl.Runtime(workers=1, devices=[emulated("24MiB"), emulated("40MiB")], place="rows"),
}

_host: dict[str, str] = {}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", CALLS)
def test_products_give_the_hosts_bytes(folder, name, runtime):
    at = lambda name: fl.open(folder / name)  # noqa: E731
    if name not in _host:
        with fl.Runtime(workers=2, devices=[]):
            _host[name] = CALLS[name](at)
    with RUNTIMES[runtime]():
        assert CALLS[name](at) == _host[name]
        done = fl.stats()
    assert sum(one.launches for one in done.spaces[1:]) > 0
    assert all(one.peak <= one.budget for one in done.spaces)


def test_a_device_gets_each_value_once_and_x_once(folder, tmp_path):
    """Values of 4 bytes, columns of 2, pointers and ends of stretches of 8; X, which is packed there."""
    a, x = fl.open(folder / "a.zarr"), fl.open(folder / "x.zarr")
    with fl.Runtime(memory=beside(900), devices=[emulated("64MiB")]) as runtime:
        plan = fl.matmul.plan(a, x, out=tmp_path / "y.zarr")
        fl.matmul(a, x, out=tmp_path / "y.zarr")
        done, counts = fl.stats(), runtime._opened[0].counts
    panels, nnz = 3, M * EACH
    for host, device in (plan.spaces, done.spaces):
        stretches = (device.bytes_in - nnz * (4 + 2) - N * 24 * 4) / 8 - M - 2 * panels
        assert panels <= stretches <= panels * 6  # of 2^17 values at most, and where chunks end
        assert device.bytes_out == M * 24 * 4
        assert device.copies_in == 3 * panels + 1
        assert device.copies_out == panels
        assert device.tasks == 2 * panels + 1  # multiplied, put into chunks; X packed
        assert host.tasks == panels
    assert [one.bytes_in for one in plan.spaces] == [one.bytes_in for one in done.spaces]
    assert (counts.bytes_in, counts.launches) == (device.bytes_in, device.launches)
    assert device.launches <= device.tasks


def test_a_panel_that_has_no_room_is_refused_with_the_least(folder):
    with fl.Runtime(devices=[emulated("2MiB")]), pytest.raises(fl.BudgetError, match="emulated:0 has 2 MiB"):
        _ = fl.open(folder / "a.zarr") @ np.ones((N, 4), "f4")


def test_strict_permits_unpacking_and_nothing_else_of_the_host(folder):
    a, x = fl.open(folder / "a.zarr"), np.ones((N, 16), "f4")
    with fl.Runtime(devices=[emulated("64MiB")], strict=True):
        _ = a @ x
        host, device = fl.stats().spaces
    assert device.tasks == 3
    assert host.tasks == 3  # panels unpacked
    lacking = emulated("64MiB", lacks=["csr_rows_multiply"])
    with (
        fl.Runtime(devices=[lacking], strict=True),
        pytest.raises(fl.Error, match="needs the kernel csr_rows_multiply of float32"),
    ):
        _ = a @ x
    with fl.Runtime(devices=[lacking]):
        _ = a @ x
        assert fl.stats().spaces[1].tasks == 0
