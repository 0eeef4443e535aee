"""`flagstone info`: what is told of files and stores, without importing them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl


def info(*arguments):
    from click.testing import CliRunner

    from flagstone._cli import cli

    done = CliRunner().invoke(cli, ["info", "--json", *map(str, arguments)])
    return done.exit_code, json.loads(done.output)


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "symmetric"), ("complex128", "hermitian")])
def test_info_tells_a_stored_triangle(tmp_path, rng, dtype, kind):
    X = rng.standard_normal((30, 4)).astype(dtype)
    fl.linalg.rank_k_update(X, uplo="upper", out=tmp_path / "c.zarr")
    _, facts = info(tmp_path / "c.zarr")
    assert facts["structure"] == f"{kind}, its upper triangle is stored"


def test_info(tmp_path, rng):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "g/x", data=np.zeros((500, 400)), chunks=(100, 100), compression="gzip", shuffle=True
        )
        file["y"] = np.arange(3)
    code, facts = info(tmp_path / "a.h5")
    assert code == 0
    assert facts["members"] == ["g/x", "y"]
    assert "--key" in facts["note"]
    code, facts = info(tmp_path / "a.h5", "--key", "g/x", "--check")
    assert code == 0
    assert (facts["shape"], facts["filters"], facts["opened"]) == ([500, 400], "shuffle + zlib", "in place")
    assert float(facts["packed"].split()[0]) > 10
    fl.from_numpy(np.ones((300, 300)), str(tmp_path / "b.zarr"))
    code, facts = info(tmp_path / "b.zarr")
    assert (code, facts["codecs"], facts["format"]) == (0, "bytes", "Zarr v3")
    (tmp_path / "c.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 1\n2 1 5\n")
    code, facts = info(tmp_path / "c.mtx")
    assert (code, facts["shape"], facts["opened"]) == (0, [3, 3], "by import")
    assert facts["stored_as"] == "coordinate real symmetric"


def test_info_does_not_import(tmp_path):
    m = sp.random(500, 80, 0.1, format="csc", random_state=0, dtype=np.float32)
    sp.save_npz(tmp_path / "c.npz", m)
    code, facts = info(tmp_path / "c.npz")
    assert (code, facts["shape"], facts["stored_as"]) == (0, [500, 80], "csc, deflated")
    assert facts["bytes_on_disk"] == (tmp_path / "c.npz").stat().st_size
    assert (facts["stored_values"], facts["dtype"]) == (m.nnz, "float32")
    assert "not imported" in facts["note"]
    (tmp_path / "s.svm").write_text("1 1:2 7:3\n0 2:5\n")
    assert info(tmp_path / "s.svm")[1]["bytes_on_disk"] == 16
    fl.open(str(tmp_path / "s.svm"))
    code, facts = info(tmp_path / "s.svm")
    assert (code, facts["shape"], facts["bytes_on_disk"]) == (0, [2, 7], 16)
    assert facts["bytes_of_import"] > 16
    assert "note" not in facts


def test_info_of_a_group_of_several_arrays(tmp_path, rng):
    fl.pca(rng.random((90, 40)), 3, out=str(tmp_path / "p.zarr"))
    code, facts = info(tmp_path / "p.zarr", "--check")
    assert (code, facts["kind"]) == (0, "result of pca")
    assert "scores: 90 x 3 float64" in facts["members"]
    assert facts["checked"].startswith("whole")
    code, facts = info(tmp_path / "p.zarr", "--key", "scores")
    assert (code, facts["shape"]) == (0, [90, 3])
    assert facts["bytes_on_disk"] < info(tmp_path / "p.zarr")[1]["bytes_on_disk"]
    shard = next((tmp_path / "p.zarr" / "scores" / "c").rglob("0"))
    while shard.is_dir():
        shard /= "0"
    shard.write_bytes(shard.read_bytes()[:-8])
    code, facts = info(tmp_path / "p.zarr", "--check")
    assert code == 1
    assert "scores" in facts["problem"]


def test_info_of_damage(tmp_path):
    fl.from_blocks([sp.random(3000, 40, 0.2, format="csr", random_state=1)], str(tmp_path / "m.zarr"))
    shard = tmp_path / "m.zarr" / "indices" / "c" / "0"
    text = bytearray(shard.read_bytes())
    text[-10] ^= 255
    shard.write_bytes(text)
    code, facts = info(tmp_path / "m.zarr")
    assert code == 1
    assert "indices/c/0" in facts["problem"]
    (tmp_path / "x.bin").write_bytes(bytes(range(256)))
    code, facts = info(tmp_path / "x.bin")
    assert code == 1
    assert "no format" in facts["problem"]
