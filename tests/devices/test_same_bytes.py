"""Routines give the host's bytes with one emulated device and with two, under several limits of each."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.devices.emulated import emulated
from tests.support.processes import fingerprint


def _all(*parts):
    return fingerprint(*(np.asarray(part) for part in parts))


def _pca(found):
    return _all(found.components, found.singular_values, found.scores)


_HEAT = {at: 0.11 * weight for at, weight in fl.laplacian(3).items()} | {(0, 0, 0): 0.34}


#: What runs, of what `at` opens. Several tiles each, where the shapes that CI can pay for have them.
ROUTINES = {
    "product": lambda at: _all(fl.matmul(at("a"), at("b"))),
    "product of views": lambda at: _all(fl.matmul(at("b").T, at("a").T, alpha=0.5)),
    "product of flat files": lambda at: _all(fl.matmul(at("a", "npy"), at("b", "npy"))),
    "complex product": lambda at: _all(fl.matmul(at("z"), at("z").T.conj(), alpha=1j)),
    "symmetric product": lambda at: _all(fl.matmul(at("g"), at("g").T)),
    "symm": lambda at: _all(fl.matmul(fl.symmetric(at("k")), at("k")[:, :300])),
    "hemm": lambda at: _all(fl.matmul(fl.hermitian(at("z")[:260]), at("z")[:260])),
    "trmm": lambda at: _all(fl.matmul(fl.triangular(at("g")), at("g"))),
    "trmm, right": lambda at: _all(fl.matmul(at("g"), fl.triangular(at("g"), "upper"))),
    "her2k": lambda at: _all(fl.linalg.rank_2k_update(at("z"), at("z"))),
    "rank_k": lambda at: _all(fl.linalg.rank_k_update(at("a"))),
    "rank_2k": lambda at: _all(fl.linalg.rank_2k_update(at("a"), at("a"))),
    "cholesky": lambda at: _all(fl.linalg.cholesky(at("k"), shift=0.5)),
    "solve pos": lambda at: _all(fl.linalg.solve(at("k"), np.ones((1100, 3)), assume_a="pos")),
    "lu": lambda at: _all(*(getattr(fl.linalg.lu(at("g")), name) for name in ("L", "U"))),
    "qr": lambda at: _all(*(getattr(fl.linalg.qr(at("g")), name) for name in ("Q", "R"))),
    "lstsq": lambda at: _all(fl.linalg.lstsq(at("tall"), np.ones(3000, "f4")).x),
    "pca dense": lambda at: _pca(fl.pca(at("tall"), 5, method="gram")),
    "pca sparse": lambda at: _pca(fl.pca(at("s"), 5, method="krylov")),
    "sparse product": lambda at: _all(at("s") @ np.ones((300, 7), "f4")),
    "sparse transposed": lambda at: _all(at("s").T @ np.ones((2000, 7), "f4")),
    "pass": lambda at: _all(
        *fl.compute(fl.log1p(abs(at("a"))), fl.sqrt(abs(at("a"))).mean(0), at("a").var())
    ),
    "norms": lambda at: _all(*fl.compute(fl.linalg.matrix_norm(at("a"), ord=1), abs(at("a")).max())),
    "rechunk": lambda at: _all(fl.rechunk(at("a"), (-1, 100))),
    "transpose": lambda at: _all(fl.transpose(at("a"))),
    "cumulative_sum": lambda at: _all(fl.cumulative_sum(at("a"), axis=1)),
    "stencil, blocks": lambda at: _all(fl.stencil(_HEAT, at("field"), 4, method="al1").state),
    "stencil, wavefront": lambda at: _all(fl.stencil(_HEAT, at("field"), 4, method="al4").state),
    "kmeans": lambda at: _all(fl.kmeans(at("tall"), 4, iterations=2, tol=0, init="random").centers),
}


def _opener(store):
    return lambda name, kind="zarr": fl.open(store / f"{name}.{kind}")


_host: dict[str, str] = {}


@pytest.fixture(scope="module")
def host(store):
    def bits(name):
        if name not in _host:
            with fl.Runtime(workers=2, devices=[]):
                _host[name] = ROUTINES[name](_opener(store))
        return _host[name]

    return bits


#: One roomy device; one that holds little, in any order, whose workspaces overwrite; two, by rows.
RUNTIMES = {
    "one": lambda: fl.Runtime(workers=2, devices=[emulated("48MiB")]),
    "little": lambda: fl.Runtime(workers=2, devices=[emulated("24MiB", reorder=3, workspace=4096)]),
    "two": lambda: fl.Runtime(workers=1, devices=[emulated("24MiB"), emulated("32MiB")], place="rows"),
}


#: Whose kernels are the host's alone, or that read chunks as they are stored.
HOSTS = ("kmeans", "cumulative_sum")
#: All of them with little memory; with two devices those whose tiles go to both; the rest in `make test-all`.
BOTH = ("product", "rank_k", "cholesky", "lu", "qr", "pass", "rechunk", "stencil, wavefront")
CASES = [
    pytest.param(
        name,
        runtime,
        marks=() if runtime == "little" or (runtime == "two" and name in BOTH) else pytest.mark.slow,
    )
    for name in ROUTINES
    for runtime in RUNTIMES
]


@pytest.mark.parametrize(("name", "runtime"), CASES)
def test_devices_give_the_hosts_bytes(name, runtime, store, host):
    with RUNTIMES[runtime]():
        found = ROUTINES[name](_opener(store))
        spaces = fl.stats().spaces
    assert found == host(name)
    assert [one.name for one in spaces][:2] == ["host", "emulated:0"]
    assert all(one.peak <= one.budget for one in spaces)
    if name not in HOSTS:
        assert sum(one.tasks for one in spaces[1:]) > 0
        assert sum(one.bytes_in + one.bytes_out for one in spaces[1:]) > 0


@pytest.mark.parametrize(
    "name", ["symm", "hemm", "trmm", "trmm, right", "her2k", "rank_2k", "norms", "sparse product"]
)
def test_no_task_of_arithmetic_is_left_to_the_host(name, store, host):
    """Where ``strict=True`` refuses whatever has no kernel on its device."""
    with fl.Runtime(devices=[emulated("48MiB")], strict=True):
        found = ROUTINES[name](_opener(store))
        on_host, device = fl.stats().spaces
    assert found == host(name)
    assert device.launches > 0
    assert on_host.tasks == (name == "sparse product")  # a panel, unpacked


def test_a_function_places_tiles(store, host):
    """A checkerboard of the host and a device: every tile is where the function says."""
    with fl.Runtime(devices=[emulated("32MiB")], place=lambda i, j: (i + j) % 2):
        found = ROUTINES["cholesky"](_opener(store))
        on_host, on_device = fl.stats().spaces
    assert found == host("cholesky")
    assert min(on_host.tasks, on_device.tasks) > 10


def test_kernels_that_a_device_lacks_run_on_the_host(store, host):
    with fl.Runtime(devices=[emulated("48MiB", lacks=["potrf", "herk"])]):
        found = ROUTINES["cholesky"](_opener(store))
        on_host, on_device = fl.stats().spaces
    assert found == host("cholesky")
    assert min(on_host.tasks, on_device.tasks) > 0
