"""Packed chunks on all workers: the same bytes, inside the limit, errors that name the chunk."""

import threading

import numpy as np
import pytest

import flagstone as fl
from tests.support.processes import beside

KEYS = {
    "all": np.s_[...],
    "stripe": np.s_[100:700],
    "columns": np.s_[:, 130:131],
    "steps": np.s_[::-3, 5:900:7],
    "rows": np.s_[[3, 1000, 999, 3]],
}


def poisson(shape, dtype="f8"):
    return np.random.default_rng(0).poisson(0.5, shape).astype(dtype)


def written(path, values, chunk, codec):
    made = fl.create(path, values.shape, values.dtype, chunks=(chunk, chunk), codec=codec)
    made[...] = values
    return made


@pytest.mark.parametrize("codec", ["blosc-lz4", "zstd", "gzip"])
def test_any_number_of_workers_reads_and_writes_the_same(tmp_path, codec):
    values = poisson((1024, 1000))
    for workers in (1, 2, 5):
        with fl.Runtime(memory=beside(2048), workers=workers):
            path = tmp_path / f"{workers}.zarr"
            made = fl.create(path, values.shape, "f8", chunks=(128, 128), codec=codec)
            made[...] = values
            made[5:600, 3:999] += 1  # parts of chunks
            made[::50] = -1.0
            for key in KEYS.values():
                expected = values.copy()
                expected[5:600, 3:999] += 1
                expected[::50] = -1
                assert np.array_equal(made[key], expected[key])
            made.close()
    stored = {fl.open(tmp_path / f"{workers}.zarr")._core.stored_bytes for workers in (1, 2, 5)}
    assert len(stored) == 1
    assert all(fl.check(tmp_path / f"{workers}.zarr").ok for workers in (1, 2, 5))


@pytest.mark.parametrize("codec", ["blosc-lz4", "zstd:9"])
def test_every_limit_is_kept_and_what_is_named_works(isolated, codec):
    """Fewer chunks at once where memory is short; what does not fit at all says what would."""
    peaks = isolated(
        """
        from flagstone import _core
        values = np.random.default_rng(0).poisson(0.5, (1024, 2048)).astype("f8")
        fl.create("a.zarr", values.shape, "f8", chunks=(512, 512), codec=codec)[...] = values
        del values
        A = fl.open("a.zarr")
        result = []
        def limited(memory, what):
            with fl.Runtime(memory=memory, workers=8):
                _core.release_pages()
                _core.reset_peak_resident()
                what()
                result.append([memory, _core.peak_resident_bytes()])
        def reading():
            A[...]
        def writing():
            out[3:1000, 5:2000] = 2.0
        with fl.Runtime(memory="1GiB", workers=8):
            reading()
            out = fl.open("a.zarr", mode="r+")
            writing()  # what libraries load at first use
        for what in (reading, writing):
            try:
                limited(_core.resident_bytes() + (1 << 20), what)
                raise SystemExit("a limit of nothing was enough")
            except fl.BudgetError as error:
                least = error.least
            for more in (0, 5, 20, 60, 200):
                limited(least + (more << 20), what)
        """,
        codec=codec,
    )
    assert len(peaks) == 10
    for limit, peak in peaks:
        assert peak <= limit, f"{peak / 2**20:.1f} of {limit / 2**20:.1f} MiB"


def test_a_damaged_chunk_is_named_whichever_worker_unpacks_it(tmp_path):
    values = poisson((512, 512))
    written(tmp_path / "a.zarr", values, 64, "zstd").close()
    shard = next((tmp_path / "a.zarr").rglob("c/0/0"))
    slot = (64 * 64 * 8 + 4096) // 4096 * 4096
    with open(shard, "r+b") as file:
        file.seek(slot * (3 * 8 + 5) + 40)
        file.write(b"\x77" * 8)
    with fl.Runtime(memory=beside(900), workers=4):
        damaged = fl.open(tmp_path / "a.zarr")
        for _ in range(2):
            with pytest.raises(fl.FormatError, match=r"chunk \(3, 5\) does not match its checksum"):
                damaged[...]
        assert np.array_equal(damaged[:192], values[:192])  # the next request works


def test_other_threads_run_while_chunks_are_unpacked(tmp_path):
    """Python's lock is free: a thread counts on while another one reads."""
    values = poisson((2048, 2048))
    packed = fl.from_numpy(values, tmp_path / "a.zarr", codec="gzip")
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1

    counter = threading.Thread(target=count)
    with fl.Runtime(memory=beside(2048), workers=2):
        packed[...]
        counter.start()
        before = counted[0]
        assert np.array_equal(packed[...], values)
        after = counted[0]
        ended.set()
    counter.join()
    assert after > before


def test_two_threads_share_a_runtime(tmp_path):
    values = poisson((1024, 1024))
    packed = written(tmp_path / "a.zarr", values, 128, "blosc-lz4")
    wrong = []
    with fl.Runtime(memory=beside(900), workers=3) as runtime:
        engine = runtime.engine()

        def read():
            for start in range(0, 1024, 128):
                part = np.empty((128, 1024))
                engine.read_boxes(packed._core, [([start, 0], part)], 1 << 20)
                if not np.array_equal(part, values[start : start + 128]):
                    wrong.append(start)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
