"""Latent semantic analysis against scikit-learn's weights and SciPy's triplets."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.feature_extraction.text import TfidfTransformer

import flagstone as fl
from tests.project.test_cli import run


def counts(m, n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.poisson(rng.gamma(0.3, 1, (4, n))[rng.integers(0, 4, m)] * 0.3)
    x[m // 2] = 0  # an empty document
    x[:, n // 3] = 0  # a word that does not occur
    return sp.csr_array(x.astype("float32"))


def check(found, x, k, tol):
    weighted = TfidfTransformer().fit(x.astype(float))
    np.testing.assert_allclose(found.idf, weighted.idf_, rtol=1e-14)
    a = sp.csr_array(weighted.transform(x.astype(float)))
    s = np.sort(svds(a, k, return_singular_vectors=False, tol=1e-12))[::-1]
    np.testing.assert_allclose(found.s, s, rtol=tol)
    u, v = np.asarray(found.U), np.asarray(found.Vt)
    assert (np.linalg.norm(a.T @ u - v.T * found.s, axis=0) <= tol * found.s + 1e-12).all()
    np.testing.assert_allclose(u.T @ u, np.eye(k), atol=tol)


@pytest.mark.parametrize("shape", [(500, 120), (90, 400)])
def test_directions_are_scipys(shape, tmp_path):
    x = counts(*shape)
    found = fl.lsa(fl.from_blocks([x]), 6, tol=1e-6, out=tmp_path / "lsa.zarr")
    check(found, x, 6, 1e-6)
    np.testing.assert_array_equal(fl.open(tmp_path / "lsa.zarr" / "idf")[...], found.idf)
    check(fl.lsa(x, 3, tol=1e-6), x, 3, 1e-6)


def test_top_words():
    x = counts(300, 50)
    found = fl.lsa(x, 4)
    for number in (0, -1, 1.5):
        with pytest.raises(fl.ShapeError, match="top_words: number is"):
            found.top_words(number)
    top = found.top_words(5)
    v = np.asarray(found.Vt)
    for row, weights in zip(top, v, strict=True):
        signed = weights * np.sign(weights[np.argmax(abs(weights))])
        np.testing.assert_array_equal(row, np.argsort(-signed, kind="stable")[:5])


def test_plan_and_bad_input(tmp_path):
    x = counts(200, 80)
    stored = fl.from_blocks([x], tmp_path / "x.zarr")
    plan = fl.lsa.plan(stored, 5)
    assert plan.passes >= 4
    with pytest.raises(fl.BudgetError) as refused:
        fl.lsa(stored, 5, memory="1MiB")
    assert refused.value.least == pytest.approx(plan.least_memory, rel=0.1)
    x.data[7] = -1
    with pytest.raises(fl.ShapeError, match="has the count -1"):
        fl.lsa(x, 2)
    x.data[7] = np.nan
    with pytest.raises(fl.NumericalError, match="sum to nan"):
        fl.lsa(x, 2)
    with pytest.raises(fl.ShapeError, match="k is 81"):
        fl.lsa(stored, 81)
    with pytest.raises(TypeError, match="a sparse matrix of documents x words"):
        fl.lsa(np.ones((3, 3)), 1)


def test_recipe_names_words(tmp_path, shared_data):
    folder = shared_data / "ecrtm-20NG"
    command = ("recipe", "lsa", folder / "train_bow.npz", "-k", "8", "-o", "lsa.zarr")
    done = run(*command, "--vocab", folder / "vocab.txt", "--json", folder=tmp_path)
    told = json.loads(done.stdout)
    known = set((folder / "vocab.txt").read_text().split())
    assert len(told["words"]) == 8
    assert {word for row in told["words"] for word in row} <= known
    assert (tmp_path / "lsa-documents.png").read_bytes().startswith(b"\x89PNG")
    wrong = run(*command, "--vocab", folder / "README.txt", "--overwrite", folder=tmp_path, code=1)
    assert "they must agree" in wrong.stderr
