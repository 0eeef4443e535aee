"""flagstone topics, its picture, and the demonstration at a size of seconds."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._demo.documents import matched
from flagstone._demo.library import Library
from flagstone._terminal.topic_map import hellinger, placed
from tests.project.test_cli import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Counts of 600 documents, and their words."""
    made = tmp_path_factory.mktemp("topics-command")
    library = Library(600, length=80)
    (block,) = library.blocks()
    pointers, columns, counts = block
    words = library.vocabulary()
    sp.save_npz(made / "docs.npz", sp.csr_matrix((counts, columns, pointers), (600, len(words))))
    (made / "vocab.txt").write_text("\n".join(words))
    return made


def test_topics_are_told_drawn_and_written(folder):
    given = ("topics", "docs.npz", "-k", "20", "--vocab", "vocab.txt", "-o", "topics.zarr")
    done = run(*given, folder=folder)
    assert "perplexity of held-out documents" in done.stdout
    assert "without catchwords" in done.stdout
    assert "predicted" in done.stdout
    told = json.loads((folder / "topics-report.json").read_text())
    assert (folder / "topics-report.png").stat().st_size > 10_000
    shares = [one["share"] for one in told["topics"]]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 1) < 1e-5
    found = fl.open_topics(folder / "topics.zarr")
    held = np.asarray(found.clusters) < 0
    assert 10 < held.sum() < 60  # a twentieth of the documents, which no topic saw
    x = sp.load_npz(folder / "docs.npz").tocsr()
    kept = fl.topics(sp.diags((~held).astype("f4")) @ x, 20)
    assert np.array_equal(np.asarray(kept.topics), np.asarray(found.topics))
    assert told["perplexity"] == pytest.approx(found.perplexity(x[held]), rel=1e-6)
    places = ("--where", "thresholded=disk", "--where", "projection=memory",
              "--where", "centers=disk", "--where", "buckets=memory", "-o", "placed.zarr")  # fmt: skip
    run(*given[:-2], *places, folder=folder)
    assert np.array_equal(np.asarray(fl.open_topics(folder / "placed.zarr").topics), np.asarray(found.topics))
    for place, said in (("basis", "--where is 'basis'"), ("basis=ssd", "where['basis'] is 'ssd'")):
        assert said in run(*given[:-2], "--where", place, folder=folder, code=1).stderr
    roots = np.sqrt(np.asarray(found.topics, float))
    away = np.sqrt(np.maximum(0, 1 - roots @ roots.T))
    assert abs(hellinger(found, [3, 1]) - away[np.ix_([3, 1], [3, 1])]).max() < 1e-3
    wrong = run(*given, "--hold-out", "1", "--overwrite", folder=folder, code=1)
    assert "1 of the documents cannot be held out" in wrong.stderr


def test_places_keep_distances_that_a_plane_can():
    points = np.random.default_rng(0).standard_normal((30, 2))
    away = np.linalg.norm(points[:, None] - points[None], axis=2)
    at = placed(away)
    assert abs(np.linalg.norm(at[:, None] - at[None], axis=2) - away).max() < 1e-6
    assert np.isfinite(placed(np.ones((9, 9)) - np.eye(9))).all()
    assert placed(np.zeros((1, 1))).shape == (1, 2)


def test_planted_documents_have_their_subjects_words():
    library = Library(4000)
    topics, n = library.topics(), 0
    assert np.allclose(topics.sum(axis=1), 1)
    total = np.zeros(topics.shape[1])
    for pointers, columns, counts in library.blocks():
        n += len(columns)
        assert all((np.diff(columns[a:b]) > 0).all() for a, b in itertools.pairwise(pointers))
        total += np.bincount(columns, counts, topics.shape[1])
    assert abs(n / library.nnz - 1) < 0.05
    assert abs(total / total.sum() - topics.mean(axis=0)).max() < 0.01
    assert matched(topics[::-1], topics)[0][2] == 0


def test_the_demonstration(tmp_path, isolated):
    told = isolated(
        "import contextlib, io\n"
        "import flagstone._demo.documents as d\n"
        "d.run_capped = lambda title, code, given, memory: print(title, memory)\n"
        "with contextlib.redirect_stdout(io.StringIO()) as told:\n"
        "    d.run_documents(220 << 20, 'out', 4000)\n"
        "result = told.getvalue()"
    )
    assert f"scikit-learn's LDA {220 << 20}" in told
    error = float(told.rsplit("Mean error ", 1)[1].split(". ")[0])
    assert 0 < error < 0.3  # a random topic is 1.4 away
    assert all(name in told for name in Library.names())
    assert (tmp_path / "out" / "topics-report.png").exists()
    assert not (tmp_path / "out" / "documents.zarr").exists()
