"""Killed rank-k updates go on where they stopped, with the same bits, whatever the limit."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

_UPDATE = """
with fl.Runtime(workers=workers):
    C = fl.linalg.rank_k_update(fl.open("a.zarr"), out="c.zarr", memory=memory, **options)
result = told() | {"digest": digest("c.zarr")}
"""


@pytest.mark.parametrize("uplo", [None, "lower", "upper"])
def test_an_update_killed_at_several_checkpoints(process, tmp_path, rng, uplo):
    fl.from_numpy(rng.standard_normal((4500, 300)), tmp_path / "a.zarr")
    options = {"memory": "155MiB", "workers": 1, "options": {"uplo": uplo}}
    whole = process(_UPDATE, **options)
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    for kill, more in ((1, {}), (2, {"memory": "400MiB", "workers": 2})):
        process(_UPDATE, kill=kill, **options)
        assert not (tmp_path / "c.zarr").exists()
        (left,) = left_at(tmp_path / "c.zarr")
        assert left.resumable
        assert 0 < left.done < 1
        again = process(_UPDATE, **options | more)
        assert again["digest"] == whole["digest"]
        assert again["flops"] < whole["flops"]
        assert "resumed at" in again["what"]
        assert fl.check(tmp_path / "c.zarr").ok
        (tmp_path / "c.zarr").rename(tmp_path / f"again{kill}.zarr")


_RESUMED = """
fl.resume("c.zarr")
result = told() | {"digest": digest("c.zarr")}
"""


@pytest.mark.parametrize(
    "routine", ["update", "rank 2k", "product", "symmetric product", "standardised", "stack"]
)
def test_resume_knows_what_was_begun(process, tmp_path, rng, routine):
    dtype = "complex128" if routine == "symmetric product" else "float64"
    n = 2600 if dtype == "complex128" else 4500
    fl.from_numpy((rng.standard_normal((n, 200)) + (1j if dtype[0] == "c" else 0)), tmp_path / "a.zarr")
    fl.from_numpy(rng.standard_normal((n, 200)), tmp_path / "b.zarr")
    fl.from_numpy(rng.integers(-(2**62), 2**62, (5, 900, 200)), tmp_path / "stack.zarr")
    fl.from_numpy(np.arange(200 * 900).reshape(200, 900), tmp_path / "whole.npy")
    call = {
        "stack": 'fl.matmul(fl.open("stack.zarr"), fl.open("whole.npy"), out="c.zarr")',
        "update": 'fl.linalg.rank_k_update(A, alpha=0.5, uplo="lower", out="c.zarr", memory="200MiB")',
        "rank 2k": 'fl.linalg.rank_2k_update(A, fl.open("b.zarr"), out="c.zarr", memory="200MiB")',
        "product": 'fl.matmul(A, A.T, alpha=2, out="c.zarr", memory="200MiB")',
        "symmetric product": 'fl.matmul(A, A.T, out="c.zarr", memory="200MiB")',
        "standardised": "fl.linalg.rank_k_update(A, center=np.ones(200), scale=np.full(200, 3.0), "
        'out="c.zarr", memory="200MiB")',
    }[routine]
    code = (
        f'import numpy as np\nA = fl.open("a.zarr")\n{call}\nresult = told() | {{"digest": digest("c.zarr")}}'
    )
    whole = process(code, workers=1)
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=1, workers=1)
    (left,) = left_at(tmp_path / "c.zarr")
    assert left.resumable
    again = process(_RESUMED)
    assert again["digest"] == whole["digest"]
    assert "resumed at" in again["what"]
