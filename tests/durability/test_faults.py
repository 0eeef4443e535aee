"""kill -9 and Ctrl-C at any moment: no half-written output, the old one whole, leftovers swept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.processes import random_csr

#: What is killed: a preparation, and the call whose output is out.zarr (in the working folder).
JOBS = {
    "matmul": ('a = fl.open("a.npy")', 'fl.matmul(a, a, out="out.zarr", memory="400MiB")'),
    "pca": ('a = fl.open("cells.zarr")', 'fl.pca(a, 20, out="out.zarr", memory="400MiB")'),
    "from_numpy": ('a = np.load("a.npy")', 'fl.from_numpy(a, "out.zarr", overwrite=True)'),
    "from_blocks": (
        'import scipy.sparse as sp\nm = sp.load_npz("block.npz")',
        'fl.from_blocks([m] * 6, "out.zarr", overwrite=True)',
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    np.save(path / "a.npy", rng.standard_normal((4000, 4000)).astype("float32"))
    m = [random_csr(20_000, 800, 0.1, i, "float32") for i in range(4)]
    fl.from_blocks(iter(m), str(path / "cells.zarr"))
    sp.save_npz(path / "block.npz", random_csr(20_000, 900, 0.2, 5), compressed=False)
    return path


def start(job: str, folder) -> subprocess.Popen:
    code = "\n".join(
        ["import numpy as np, flagstone as fl", JOBS[job][0], "print('ready', flush=True)", JOBS[job][1]]
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLAGSTONE_SCRATCH": str(folder / "scratch")},
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()[-2000:]
    return process


def duration(job: str, folder) -> float:
    process = start(job, folder)
    ready = time.perf_counter()
    assert process.wait() == 0, process.stderr.read()[-2000:]
    return time.perf_counter() - ready


def bits_of(path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


def elements(files: dict[str, bytes]) -> dict[str, bytes]:
    """The stored elements alone (they are the same in every run), and every file's name."""
    return {name: content if "/c/" in name else b"" for name, content in files.items()}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_random_moments(folder, job, how):
    """The old output is whole, or the new one is; hidden leftovers are swept by the next writer."""
    out = folder / "out.zarr"
    fl.from_numpy(np.full((50, 50), 7.0), str(out), overwrite=True)
    old = bits_of(out)
    span = duration(job, folder)
    new = bits_of(out)
    assert new != old
    moments = random.Random(job)
    interrupted = 0
    for _ in range(4):
        fl.from_numpy(np.full((50, 50), 7.0), str(out), overwrite=True)
        old = bits_of(out)
        process = start(job, folder)
        time.sleep(moments.uniform(0, span))
        process.send_signal(how)
        process.wait(timeout=60)
        found = bits_of(out)
        if found == old:
            interrupted += 1
        else:
            assert elements(found) == elements(new)
        if how == signal.SIGINT:
            assert process.returncode in (0, -signal.SIGINT, 1, 130), process.stderr.read()
            if process.returncode not in (0, -signal.SIGINT):  # the latter: before or after Python listens
                assert "KeyboardInterrupt" in process.stderr.read()
            assert hidden(folder) == []  # an interrupted writer cleans up itself
    assert interrupted > 0
    fl.from_numpy(np.zeros((3, 3)), str(out), overwrite=True)
    assert hidden(folder) == []


def hidden(folder) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(".")]


def test_killed_during_an_import(folder):
    """An import that was killed is not taken for a whole one."""
    big = random_csr(60_000, 900, 0.15, 1, "float32")
    sp.save_npz(folder / "big.npz", big, compressed=False)
    code = 'import flagstone as fl\nprint("ready", flush=True)\nfl.open("big.npz")'
    x = np.random.default_rng(0).standard_normal((900, 2))
    for delay in (0.02, 0.1, 0.3, 0.6):
        (folder / "big.npz").touch()
        environment = {**os.environ, "FLAGSTONE_SCRATCH": str(folder / "scratch")}
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.kill()
        process.wait()
        with fl.Runtime(scratch=str(folder / "scratch")):
            product = fl.open(str(folder / "big.npz")) @ x
        product = product if isinstance(product, np.ndarray) else product[...]
        np.testing.assert_allclose(product, big.astype("float64") @ x, rtol=0, atol=1e-9)


@pytest.mark.alone
def test_ctrl_c_comes_back_quickly_and_the_process_goes_on(folder, isolated):
    waited, right = isolated(
        f"""
        import signal, threading, time
        a = fl.open({str(folder / "a.npy")!r})
        rows = np.ascontiguousarray(a[:300])
        def interrupt():
            time.sleep(0.15)
            interrupt.at = time.perf_counter()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            for _ in range(50):
                fl.matmul(a, a)
        except KeyboardInterrupt:
            waited = time.perf_counter() - interrupt.at
        small = fl.matmul(rows, a)[...]
        result = [waited, bool(np.allclose(small, rows @ a[...], atol=1e-2))]
        """
    )
    assert waited < 5
    assert right


def test_a_reader_never_sees_a_half(folder):
    """While one process replaces an array again and again, another always reads a whole one."""
    path = str(folder / "swap.zarr")
    fl.from_numpy(np.full((400, 400), 0.0), path)
    code = f"""
import numpy as np, flagstone as fl
print("ready", flush=True)
for i in range(60):
    fl.from_numpy(np.full((400, 400), float(i)), {path!r}, overwrite=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "ready\n"
    reads = 0
    while writer.poll() is None:
        x = fl.open(path)[...]
        assert x.shape == (400, 400)
        assert np.ptp(x) == 0
        reads += 1
    assert writer.returncode == 0
    assert reads > 0
