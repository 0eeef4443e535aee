"""codec="auto" on real data: by what it weighs, never behind raw, ahead of the worst codec."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._machine import lookup
from flagstone._machine import profile as machine
from flagstone._output import codec_choice as codecs


def images(data: Path) -> np.ndarray:
    raw = gzip.decompress((data / "mnist-t10k" / "t10k-images-idx3-ubyte.gz").read_bytes())
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784)


def words(data: Path) -> np.ndarray:
    return sp.load_npz(data / "topmost-NYT" / "train_bow.npz").tocsr()[:400].toarray().astype("f4")


def edges(data: Path) -> np.ndarray:
    return np.loadtxt(data / "snap-ca-AstroPh" / "ca-AstroPh.txt", dtype=np.int64, comments="#")


@pytest.mark.parametrize("kind", [images, words, edges])
@pytest.mark.parametrize("rate", [1e8, 1e9, 2e10])
def test_auto_is_never_behind_raw_nor_the_worst(tmp_path, shared_data, monkeypatch, kind, rate):
    """The lengths are those of all chunks as they were stored; auto looked at eight."""
    values = kind(shared_data)
    rates = {**machine.default().rates, "read_bytes_per_second": rate, "write_bytes_per_second": rate}
    profile = machine.Profile("measured", "2026-01-01T00:00:00+00:00", machine.device_of(tmp_path), rates)
    monkeypatch.setattr(lookup, "lookup", lambda *_: profile)
    workers = 2
    with fl.Runtime(workers=workers):
        chosen = fl.from_numpy(values, tmp_path / "auto.zarr", codec="auto")
        lengths = {}
        for name in ("raw", *codecs._SPEEDS):
            made = fl.from_numpy(values, tmp_path / "a.zarr", codec=name, overwrite=True)
            lengths[made._core.codec] = made._core.stored_bytes / fl.open(tmp_path / "auto.zarr").nbytes
    unit = rates["decode_bytes_per_second"] * workers

    def seconds(name: str) -> float:
        speeds = codecs._SPEEDS.get(short.get(name, name), (math.inf, math.inf))
        return codecs._seconds(lengths[name], speeds[0] * unit, speeds[1] * unit, rates)

    short = {fl._core.check_codec(name): name for name in codecs._SPEEDS}
    cost = {name: seconds(name) for name in lengths}
    taken = cost[chosen._core.codec]
    assert taken <= cost["raw"]
    assert taken < max(cost.values())
    best = min(cost.values())
    assert taken <= best / codecs._WORTH * 1.02  # raw is kept where a codec is less than a tenth faster
    np.testing.assert_array_equal(chosen[...], values)
