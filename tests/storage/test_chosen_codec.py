"""codec="auto" and codecs that are kept: what is chosen on a slow and on a fast disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from flagstone._machine import lookup
from flagstone._machine import profile as machine
from tests.support.disk_bytes import inner, theirs


@pytest.fixture
def disk(monkeypatch):
    """Give plans the rates of a disk that is slow, or fast."""

    def become(rate: float) -> None:
        rates = {**machine.default().rates, "read_bytes_per_second": rate, "write_bytes_per_second": rate}
        profile = machine.Profile(
            "measured", "2026-01-01T00:00:00+00:00", machine.device_of(Path.cwd()), rates
        )
        monkeypatch.setattr(lookup, "lookup", lambda *_: profile)

    return become


def test_auto_weighs_the_data_against_the_disk(tmp_path, disk):
    rng = np.random.default_rng(1)
    counts, noise = rng.poisson(0.5, (700, 900)).astype("f8"), rng.normal(size=(700, 900))
    disk(1e8)
    slow = fl.from_numpy(counts, tmp_path / "slow.zarr", codec="auto")
    assert slow._core.codec.startswith("blosc-")
    fl.from_numpy(counts, tmp_path / "again.zarr", codec="auto")
    assert (inner(tmp_path / "again.zarr") / "zarr.json").read_text() == (
        inner(tmp_path / "slow.zarr") / "zarr.json"
    ).read_text()
    random = fl.from_numpy(noise, tmp_path / "noise.zarr", codec="auto")
    assert random._core.codec == "raw"  # mantissas do not pack
    disk(5e10)
    fast = fl.from_numpy(counts, tmp_path / "fast.zarr", codec="auto")
    assert fast._core.codec == "raw"
    for made, values in ((slow, counts), (random, noise), (fast, counts)):
        np.testing.assert_array_equal(made[...], values)
    done = subprocess.run([sys.executable, "-m", "flagstone", "info", str(tmp_path / "slow.zarr")],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "auto: blosc-" in done.stdout
    assert "MB/s" in done.stdout
    for read in theirs(tmp_path / "slow.zarr"):
        np.testing.assert_array_equal(read, counts)


def test_rechunk_takes_a_codec_keeps_it_and_chooses_it(tmp_path, disk):
    disk(1e8)
    values = np.random.default_rng(2).poisson(1, (300, 200)).astype("i4")
    a = fl.from_numpy(values, tmp_path / "a.zarr")
    b = fl.rechunk(a, (64, 64), out=tmp_path / "b.zarr", codec="zstd")
    c = fl.rechunk(b, (100, 50), out=tmp_path / "c.zarr")
    d = fl.rechunk(c, (64, 64), out=tmp_path / "d.zarr", codec="raw")
    e = fl.transpose(a, out=tmp_path / "e.zarr", codec="auto")
    assert [one._core.codec for one in (a, b, c, d)] == ["raw", "zstd", "zstd", "raw"]
    assert e._core.codec.startswith("blosc-")
    for made in (b, c, d, e.T):
        np.testing.assert_array_equal(np.asarray(made), values)
    assert (
        fl.rechunk.plan(a, (64, 64), codec="zstd").bytes_written >= values.nbytes
    )  # what it may be, at most
    with pytest.raises(fl.FormatError, match="never packed"):
        fl.rechunk(a, out=tmp_path / "f.npy", codec="zstd")
    with pytest.raises(fl.FormatError, match="there are none yet"):
        fl.create(tmp_path / "g.zarr", (3,), "f8", codec="auto")
