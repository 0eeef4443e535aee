"""What devices are counted for: each byte that a schedule moves, no more, and never more than their limit."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.devices.emulated import emulated
from tests.support.processes import beside, peak_memory, reset_peak


@pytest.fixture(scope="module")
def panels(tmp_path_factory):
    """2600 x 1024 and 1024 x 2600 float64: C has 3 x 3 tiles of 1024², in two steps of 512."""
    folder = tmp_path_factory.mktemp("panels")
    rng = np.random.default_rng(1)
    fl.from_numpy(rng.standard_normal((2600, 1024)), str(folder / "a.zarr"), chunks=(512, 512))
    fl.from_numpy(rng.standard_normal((1024, 2600)), str(folder / "b.zarr"), chunks=(512, 512))
    return folder


# Sub-blocks of C that fit beside two steps of their operands: a step of a tile is 4 MiB, a tile of C 8.
@pytest.mark.parametrize(("memory", "rows", "cols"), [("26MiB", 1, 1), ("60MiB", 2, 1), ("80MiB", 2, 2)])
def test_a_product_moves_what_its_formula_says(panels, tmp_path, memory, rows, cols):
    a, b = fl.open(panels / "a.zarr"), fl.open(panels / "b.zarr")
    with fl.Runtime(memory=beside(900), devices=[emulated(memory)]):
        plan = fl.matmul.plan(a, b, out=str(tmp_path / "c.zarr"))
        fl.matmul(a, b, out=str(tmp_path / "c.zarr"))
        done = fl.stats()
    m, n, k, s = 2600, 2600, 1024, 8
    times = -(-3 // cols) + -(-3 // rows)  # that A and B, equally long, come in; tiles that stay save some
    for device in (plan.spaces[1], done.spaces[1]):  # what stays between blocks is a matter of moments
        assert 2 * s * m * k <= device.bytes_in <= times * s * m * k
        assert device.bytes_out == s * m * n
        assert device.tasks == 18
        assert device.peak <= device.budget
    assert plan.spaces[0].tasks == done.spaces[0].tasks
    assert plan.spaces[1].peak == pytest.approx(done.spaces[1].peak, rel=0.05)


def test_cholesky_that_fits_moves_each_tile_once(store, tmp_path):
    """15 tiles of a 1100² factor: in once, out once, and nothing for a step on the diagonal or a panel."""
    with fl.Runtime(memory=beside(900), devices=[emulated("64MiB")]):
        fl.linalg.cholesky(fl.open(store / "k.zarr"), out=str(tmp_path / "l.zarr"))
        host, device = fl.stats().spaces
    tiles = 5 * 6 // 2
    assert device.copies_in == tiles
    assert device.copies_out == tiles
    assert device.tasks == tiles + 5 + 10 + (10 + 10)  # taken, potrf, trsm, herk and gemm
    assert host.tasks == 0


def test_work_is_shared_out_between_devices(store):
    with fl.Runtime(devices=[emulated("32MiB"), emulated("32MiB")], place="rows"):
        fl.linalg.cholesky(fl.open(store / "k.zarr"))
        tasks = [one.tasks for one in fl.stats().spaces[1:]]
    assert sum(tasks) == 50
    assert max(tasks) <= 0.7 * sum(tasks)


def test_the_device_counts_what_the_runtime_says(store):
    """And no call of it waits."""
    with fl.Runtime(memory=beside(900), devices=[emulated("64MiB", reorder=1)]) as runtime:
        fl.linalg.cholesky(fl.open(store / "k.zarr"))
        device = fl.stats().spaces[1]
        counts = runtime._opened[0].counts
    assert 0 < device.launches <= device.tasks
    assert counts.launches == device.launches
    assert (counts.bytes_in, counts.bytes_out) == (device.bytes_in, device.bytes_out)
    assert counts.synchronizing == 0


def test_a_device_takes_from_another_what_the_host_gave_up(tmp_path):
    """Rows of L go to the other device too: over the links, where they were from the disk again."""
    n, edge, tiles = 3000, 384, 36
    rows = np.arange(n)
    fl.from_numpy(0.9 ** np.abs(rows[:, None] - rows), str(tmp_path / "k.zarr"), chunks=(edge, edge))
    with fl.Runtime(memory=beside(65), devices=[emulated("36MiB"), emulated("36MiB")], place="rows"):
        fl.linalg.cholesky(fl.open(tmp_path / "k.zarr"), out=str(tmp_path / "l.zarr"))
        host, *devices = fl.stats().spaces
    assert host.bytes_in == tiles * edge * edge * 8  # K alone
    assert host.bytes_out == tiles * edge * edge * 8
    assert host.peak <= host.budget < tiles * edge * edge * 8 * 3 // 4
    assert sum(one.copies_in for one in devices) > 1.5 * tiles
    assert sum(one.copies_out for one in devices) > tiles  # what only another device had


def test_host_memory_is_locked_within_its_limit_and_given_back(panels, tmp_path):
    a, b = fl.open(panels / "a.zarr"), fl.open(panels / "b.zarr")
    with fl.Runtime(memory=beside(100), devices=[emulated("26MiB")]) as runtime:
        fl.matmul(a, b, out=str(tmp_path / "c.zarr"))
        host = fl.stats().spaces[0]
        counts = runtime._opened[0].counts
    assert 0 < counts.most_locked <= host.peak  # tiles of the host's own: nothing is set aside to bounce
    assert counts.locked == 0


@pytest.mark.parametrize("memory", ["8MiB", "12MiB", "24MiB"])
def test_peaks_stay_within_limits(store, memory):
    limit = beside(300)
    with fl.Runtime(memory=limit, devices=[emulated(memory)]):
        fl.linalg.cholesky(fl.open(store / "k.zarr"))
        done = fl.stats()
    assert 0 < done.spaces[1].peak <= done.spaces[1].budget <= fl.Device("emulated", memory=memory).memory
    assert done.peak_memory <= limit


def test_the_hosts_least_holds_beside_an_emulated_device(panels, tmp_path):
    """By the kernel's count: the device's memory lies in the process and is no part of the host's limit."""
    a, b = fl.open(panels / "a.zarr"), fl.open(panels / "b.zarr")
    device = emulated("64MiB")
    with fl.Runtime(memory=beside(900), devices=[device]):
        fl.matmul(a, b, out=str(tmp_path / "first.zarr"))  # once: code is there
        least = fl.matmul.plan(a, b, out=str(tmp_path / "c.zarr")).least_memory
    with fl.Runtime(memory=least, devices=[device]):
        reset_peak()
        fl.matmul(a, b, out=str(tmp_path / "c.zarr"))
        held = peak_memory() - device.memory
        assert held <= least
        assert abs(held - fl.stats().peak_memory) <= 1 << 20
