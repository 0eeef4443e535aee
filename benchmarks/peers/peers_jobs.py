"""What the peers of peers.py run, each in a process of its own with the Python that has it installed.

Every function imports its library inside, times the work alone (`harness.measured`), and checks the result.
BLAS: Dask and cubed run tasks on all processors, so each task gets one BLAS thread; who computes alone
(blosc2, memmap, scikit-learn) gets all of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def _one_blas_thread() -> None:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _processors() -> int:
    return len(os.sched_getaffinity(0))


# --- product ----------------------------------------------------------------------------------------------


def convert(source: str, to: str, kind: str, chunk: int) -> dict:
    """A `.npy` as the peer's own format: chunked, not packed (the numbers are random)."""
    import numpy as np

    values = np.load(source, mmap_mode="r")
    chunks = tuple(min(chunk, n) for n in values.shape)
    if kind == "zarr":
        import zarr

        store = zarr.create_array(to, shape=values.shape, dtype=values.dtype, chunks=chunks, compressors=None)
    elif kind == "blosc2":
        import blosc2

        blosc2.set_nthreads(_processors())
        store = blosc2.empty(
            values.shape, values.dtype, urlpath=to, mode="w", chunks=chunks, cparams={"clevel": 0}
        )
    else:
        import h5py

        with h5py.File(to, "w") as file:
            store = file.create_dataset("a", values.shape, values.dtype, chunks=chunks)
            for row in range(0, values.shape[0], chunks[0]):
                store[row : row + chunks[0]] = values[row : row + chunks[0]]
        return {}
    for row in range(0, values.shape[0], chunks[0]):
        store[row : row + chunks[0]] = values[row : row + chunks[0]]
    return {}


def _check_product(rows, a: str, b: str) -> None:
    """The first rows of the product against the same rows of A times all of B, through a random vector."""
    import numpy as np

    left, right = np.load(a, mmap_mode="r"), np.load(b, mmap_mode="r")
    x = np.random.default_rng(9).standard_normal(right.shape[1]).astype(np.float32)
    through = np.concatenate([right[i : i + 512] @ x for i in range(0, right.shape[0], 512)])
    expected = left[: len(rows)] @ through
    error = np.linalg.norm(np.asarray(rows) @ x - expected) / np.linalg.norm(expected)
    assert error < 1e-3, f"wrong product: {error:.1e}"


def product_dask(a: str, b: str, out: str, chunk: int, memory: int) -> dict:
    _one_blas_thread()
    import dask
    import dask.array as da
    import numpy as np

    left, right = (da.from_array(np.load(x, mmap_mode="r"), chunks=chunk, inline_array=True) for x in (a, b))
    with harness.measured() as run, dask.config.set(scheduler="threads", num_workers=_processors()):
        c = left @ right
        target = np.lib.format.open_memmap(out, mode="w+", dtype=c.dtype, shape=c.shape)
        da.store(c, target, lock=False)
        target.flush()
    _check_product(target[:64], a, b)
    return vars(run)


def product_cubed(a: str, b: str, out: str, chunk: int, memory: int) -> dict:
    """Each of the workers may use its share of the cap; what an idle worker holds is reserved."""
    _one_blas_thread()
    import cubed
    import cubed.array_api as xp
    import zarr

    reserved = 180 << 20
    share = max(memory // _processors() - reserved // 2, 64 << 20)
    spec = cubed.Spec(
        work_dir=f"{out}-work", allowed_mem=share + reserved, reserved_mem=reserved, executor_name="threads"
    )
    left, right = (cubed.from_zarr(f"{Path(x).with_suffix('')}-{chunk}.zarr", spec=spec) for x in (a, b))
    with harness.measured() as run:
        cubed.to_zarr(xp.matmul(left, right), out)
    _check_product(zarr.open_array(out, mode="r")[:64], a, b)
    return vars(run)


def product_blosc2(a: str, b: str, out: str, chunk: int, memory: int) -> dict:
    import blosc2

    blosc2.set_nthreads(_processors())
    left, right = (blosc2.open(f"{Path(x).with_suffix('')}-{chunk}.b2nd", mode="r") for x in (a, b))
    with harness.measured() as run:
        c = blosc2.matmul(left, right, urlpath=out, mode="w", cparams={"clevel": 0})
    _check_product(c[:64], a, b)
    return vars(run)


# --- principal components -----------------------------------------------------------------------------------


def truth(x: str, k: int) -> dict:
    """Singular values of the centred matrix, from its Gram matrix in float64."""
    import numpy as np

    values = np.load(x, mmap_mode="r")
    gram, sums = np.zeros((values.shape[1],) * 2), np.zeros(values.shape[1])
    for row in range(0, values.shape[0], 8192):
        block = np.asarray(values[row : row + 8192], np.float64)
        gram += block.T @ block
        sums += block.sum(axis=0)
    gram -= np.outer(sums, sums) / values.shape[0]
    return {"sigma": np.sqrt(np.linalg.eigvalsh(gram)[::-1][:k]).tolist()}


def pca_flagstone(x: str, k: int, memory: int, out: str) -> dict:
    import flagstone as fl

    matrix = fl.open(x)
    with harness.measured() as run:
        found = fl.pca(matrix, k, out=out, memory=memory)
    return {**vars(run), "sigma": [float(s) for s in found.singular_values]}


def pca_scikit_learn(x: str, k: int, memory: int, out: str) -> dict:
    """IncrementalPCA: one pass to fit, one for the scores. A tenth of the cap for a batch."""
    import numpy as np
    from sklearn.decomposition import IncrementalPCA

    values = np.load(x, mmap_mode="r")
    rows = max(4 * k, memory // 10 // values[0].nbytes // 2)  # the fit makes a copy and an SVD of it
    model = IncrementalPCA(k)
    with harness.measured() as run:
        for row in range(0, len(values) - k, rows):
            # partial_fit wants at least k rows: the last batch takes the rest
            last = row + 2 * rows > len(values) - k
            model.partial_fit(np.array(values[row : None if last else row + rows]))
            if last:
                break
        scores = np.lib.format.open_memmap(out, mode="w+", dtype=np.float32, shape=(len(values), k))
        for row in range(0, len(values), rows):
            scores[row : row + rows] = model.transform(np.array(values[row : row + rows]))
        scores.flush()
    return {**vars(run), "sigma": [float(s) for s in model.singular_values_]}


def pca_dask(x: str, k: int, memory: int, out: str) -> dict:
    _one_blas_thread()
    import dask
    import dask.array as da
    import numpy as np

    values = np.load(x, mmap_mode="r")
    rows = max(4 * k, memory // (12 * _processors()) // values[0].nbytes)
    with harness.measured() as run, dask.config.set(scheduler="threads", num_workers=_processors()):
        matrix = da.from_array(values, chunks=(rows, -1), inline_array=True)
        mean = matrix.mean(axis=0).compute()
        centred = matrix - mean
        # compute=True reads the matrix again at each use, as Dask advises where it is larger than memory
        _, s, v = da.linalg.svd_compressed(centred, k, n_power_iter=4, seed=1, compute=True)
        s, v = dask.compute(s, v)
        scores = np.lib.format.open_memmap(out, mode="w+", dtype=np.float32, shape=(len(values), k))
        da.store((centred @ v.T).astype(np.float32), scores, lock=False)
        scores.flush()
    return {**vars(run), "sigma": [float(one) for one in s]}


# --- slices -------------------------------------------------------------------------------------------------


def boxes(n: int, pattern: str) -> list[tuple[slice, slice]]:
    """The parts that each reads, one after the other."""
    import numpy as np

    side = max(1, n // 64)
    if pattern == "whole rows":
        return [(slice(i, i + side), slice(0, n)) for i in range(0, n, 8 * side)]
    if pattern == "whole columns":
        return [(slice(0, n), slice(j, j + side)) for j in range(0, n, 8 * side)]
    if pattern == "boxes at random":
        rng = np.random.default_rng(3)
        return [
            (slice(i, i + side), slice(j, j + side)) for i, j in rng.integers(0, n - side, (200, 2)).tolist()
        ]
    return [(slice(i, i + 4 * side), slice(0, n)) for i in range(0, n, 4 * side)]  # everything


def _read(n: int, pattern: str, part, source: str) -> dict:
    import numpy as np

    parts = boxes(n, pattern)
    with harness.measured() as run:
        total = sum(float(part(box)[0, 0]) for box in parts)
    values = np.load(source, mmap_mode="r")
    assert np.isclose(total, sum(float(values[i.start, j.start]) for i, j in parts)), "wrong values"
    return vars(run)


def slices_flagstone(zarr: str, h5: str, n: int, pattern: str, source: str) -> dict:
    import flagstone as fl

    array = fl.open(zarr)
    return _read(n, pattern, lambda box: array[box], source)


def slices_zarr_python(zarr: str, h5: str, n: int, pattern: str, source: str) -> dict:
    import zarr as peer

    array = peer.open_array(f"{zarr}/array", mode="r")
    return _read(n, pattern, lambda box: array[box], source)


def slices_tensorstore(zarr: str, h5: str, n: int, pattern: str, source: str) -> dict:
    import tensorstore as ts

    kvstore = {"driver": "file", "path": f"{zarr}/array"}
    array = ts.open({"driver": "zarr3", "kvstore": kvstore}).result()
    return _read(n, pattern, lambda box: array[box].read().result(), source)


def slices_h5py(zarr: str, h5: str, n: int, pattern: str, source: str) -> dict:
    import h5py

    with h5py.File(h5, "r") as file:
        array = file["a"]
        return _read(n, pattern, lambda box: array[box], source)


CHILDREN = (
    convert, product_dask, product_cubed, product_blosc2, truth, pca_flagstone, pca_scikit_learn, pca_dask,
    slices_flagstone, slices_zarr_python, slices_tensorstore, slices_h5py,
)  # fmt: skip

if __name__ == "__main__":
    harness.main(__file__, lambda: 2, *CHILDREN)
