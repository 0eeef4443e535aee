"""Topics: each step against an independent one in NumPy, from the outcome of the step before."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.topics import isle

EPS32 = np.finfo(np.float32).eps


@pytest.fixture(scope="module")
def corpus():
    x, topics = isle.planted()
    x = sp.vstack([x[:700], sp.csr_matrix((2, x.shape[1]), dtype="f4"), x[700:]]).tocsr()
    return x, topics


@pytest.fixture(scope="module")
def stored(corpus, tmp_path_factory):
    return fl.from_blocks([corpus[0]], str(tmp_path_factory.mktemp("topics") / "x.zarr"))


def check_steps(x, found, k, **options):
    """Every step alone, from what `found` says of the one before."""
    a = isle.frequencies(x)
    assert np.array_equal(found.thresholds, isle.thresholds(a, k))
    b = isle.thresholded(a, found.thresholds)
    b[~found.sampled] = 0
    sigma = np.linalg.svd(b, compute_uv=False)[:k]
    assert abs(found.singular_values[: len(sigma)] - sigma).max() <= 1e-4 * sigma[0]
    labels = np.asarray(found.clusters)
    assert np.array_equal(labels < 0, (b == 0).all(axis=1))
    share = options.get("sample") or 1.0
    catch = isle.catchwords(a, labels, k, share=share)
    assert np.array_equal(found.catchwords, catch)
    one = {name: options[name] for name in ("eps3", "cluster_documents") if name in options}
    expected, pairs = isle.means(a, labels, found.catchwords, k, **one)
    assert abs(np.asarray(found.isle) - expected).max() <= 1e-5
    after, likelihood, shares = isle.passes(x, np.asarray(found.isle), options.get("passes", 5))
    # A pass multiplies what rounding made of the one before it by no more than a few.
    assert abs(np.asarray(found.topics) - after).max() <= 2000 * EPS32
    assert np.allclose(found.likelihood, likelihood, rtol=1e-5, atol=0)
    assert np.allclose(found.shares, shares, rtol=1e-3, atol=1e-6)
    return pairs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"passes": 0, "eps3": 5.0, "cluster_documents": True},
        {"sample": 0.4, "passes": 1, "solver": "krylov"},
        {"passes": 2, "solver": "krylov-schur", "edge_topics": 4},
    ],
    ids=["default", "published", "sample", "edges"],
)
def test_each_step(corpus, stored, options):
    x, _ = corpus
    found = fl.topics(stored, 6, **options)
    assert (found.thresholds > 1).mean() > 0.2  # the first step does something here
    pairs = check_steps(x, found, 6, **options)
    if "edge_topics" in options:
        first, second = found.edges.pairs.T
        order = np.argsort(-pairs.ravel(), kind="stable")[:4]
        order = order[pairs.ravel()[order] > 0]
        assert np.array_equal(first * 6 + second, order)
        assert np.array_equal(found.edges.documents, pairs.ravel()[order])
        m = np.asarray(found.isle)
        assert abs(found.edges.topics - (0.7 * m[first] + 0.3 * m[second])).max() <= 4 * EPS32
    if "sample" in options:
        assert found.sampled.sum() == np.ceil(0.4 * 1500)
        sizes = isle.thresholded(isle.frequencies(x), found.thresholds)
        weights = (sizes**2).sum(axis=1)
        assert weights[found.sampled].mean() > weights[(weights > 0) & ~found.sampled].mean()


def test_topics_that_were_planted_are_found(corpus, stored):
    from scipy.optimize import linear_sum_assignment

    _, planted = corpus
    for options, most in (({"passes": 0}, 0.6), ({}, 0.25)):
        found = np.asarray(fl.topics(stored, 6, **options).topics)
        away = abs(found[:, None] - planted[None]).sum(axis=2)
        assert away[linear_sum_assignment(away)].mean() <= most


def test_passes_never_lower_the_likelihood(stored):
    found = fl.topics(stored, 6, passes=8)
    assert (np.diff(found.likelihood) > -1e-4).all()


@examples(6)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(6, 40), st.integers(4, 30))
def test_small_corpora(seed, k, documents, words):
    rng = np.random.default_rng(seed)
    x = sp.csr_matrix(rng.poisson(rng.gamma(0.5, 3, size=(documents, words))).astype("f4"))
    if (np.asarray(x.sum(axis=1)) > 0).sum() < k or k > words:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fl.topics(x, k, passes=2)
    check_steps(x, found, k, passes=2)
    assert np.allclose(np.asarray(found.topics).sum(axis=1), 1, atol=1e-5)


def test_the_group_is_opened_again(stored, tmp_path):
    path = str(tmp_path / "topics.zarr")
    found = fl.topics(stored, 4, edge_topics=3, out=path)
    again = fl.open_topics(path)
    for name in ("topics", "isle", "clusters", "thresholds", "catchwords", "shares", "sampled"):
        assert np.array_equal(np.asarray(getattr(found, name)), np.asarray(getattr(again, name))), name
    assert np.array_equal(again.edges.pairs, found.edges.pairs)
    with pytest.raises(fl.FormatError, match="holds no topics"):
        fl.from_numpy(np.zeros(3), str(tmp_path / "a.zarr"))
        fl.open_topics(str(tmp_path / "a.zarr"))


def test_weights_are_within_their_certificate(corpus, stored):
    x, _ = corpus
    found = fl.topics(stored, 6)
    m = np.asarray(found.topics, float)
    c = x[:200].toarray().astype(float)
    theta = np.full((200, 6), 1 / 6)
    for _ in range(500):
        theta *= (c / (theta @ m)) @ m.T / c.sum(axis=1, keepdims=True)
        theta /= theta.sum(axis=1, keepdims=True)
    best = (c * np.log(theta @ m)).sum(axis=1) / c.sum(axis=1)
    for method in ("em", "mwu"):
        made = np.asarray(found.transform(x[:200], method=method), float)
        weights, gap = made[:, :6], made[:, 6]
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-5)
        reached = (c * np.log(np.maximum(weights, 1e-30) @ m)).sum(axis=1) / c.sum(axis=1)
        assert (best - reached <= gap + 1e-4).all()
        if method == "em":
            assert gap.max() <= 1.01e-3
    held = np.asarray(found.transform(stored))  # documents on disk; the two empty ones stay even
    assert held.shape == (1502, 7)
    assert np.allclose(held[700, :6], 1 / 6)
    assert np.allclose(held[:200], np.asarray(found.transform(x[:200])))


def test_perplexity_never_sees_the_second_half(corpus, stored):
    x, _ = corpus
    found = fl.topics(stored, 6)
    m = 0.9999 * np.asarray(found.topics, float) + 1e-4 / x.shape[1]
    total = counted = 0.0
    for row in x[:60].toarray().astype(int):
        if not row.any():
            continue
        tokens = np.repeat(np.arange(len(row)), row)
        told = np.bincount(tokens[::2], minlength=len(row)).astype(float)
        rest = np.bincount(tokens[1::2], minlength=len(row))
        theta = np.full(6, 1 / 6)
        for _ in range(10):
            theta = theta * (m @ (told / (theta @ m))) + 0.02
            theta /= theta.sum()
        total, counted = total + (rest * np.log(theta @ m)).sum(), counted + rest.sum()
    assert found.perplexity(x[:60]) == pytest.approx(np.exp(-total / counted), rel=1e-5)


@pytest.mark.parametrize("given", ["array", "columns", "expression", "bytes", "memory"])
def test_dense_documents_are_read_as_they_are(corpus, stored, given, tmp_path):
    """Several panels, the last one shorter; of an array on disk nothing is written but the weights."""
    x, dense = corpus[0], corpus[0].toarray()
    found = fl.topics(stored, 5, passes=1)
    y = {
        "array": lambda: fl.from_numpy(dense, tmp_path / "y.zarr", chunks=(300, 50)),
        "columns": lambda: fl.from_numpy(np.ascontiguousarray(dense.T), tmp_path / "y.zarr").T,
        "expression": lambda: fl.from_numpy(dense - 1, tmp_path / "y.zarr") + 1,
        "bytes": lambda: fl.from_numpy(dense.astype("u2"), tmp_path / "y.zarr"),
        "memory": lambda: dense.astype("f8"),
    }[given]()
    made = found.transform(y)
    told = fl.stats()
    assert isinstance(made, np.ndarray if given == "memory" else fl.Array)
    assert np.array_equal(np.asarray(made), np.asarray(found.transform(stored)))
    assert np.array_equal(
        np.asarray(found.transform(y, method="mwu")), np.asarray(found.transform(stored, method="mwu"))
    )
    assert told.bytes_written <= 4 * x.shape[0] * 6 + (64 << 10)
    assert found.perplexity(y) == pytest.approx(found.perplexity(stored), rel=x.nnz * np.finfo(float).eps)


def test_coherence_and_first_words(corpus, stored):
    x, _ = corpus
    found = fl.topics(stored, 6)
    tops = found.top_words(number=5)
    m = np.asarray(found.topics)
    assert np.array_equal(tops, np.argsort(-m, axis=1, kind="stable")[:, :5])
    there = x.toarray() > 0
    there = there[there.any(axis=1)]  # empty documents weigh nothing
    expected = []
    for words in tops:
        scores = []
        for i in range(5):
            for j in range(i):
                both = (there[:, words[i]] & there[:, words[j]]).mean()
                apart = there[:, words[i]].mean() * there[:, words[j]].mean()
                scores.append(-1 if both == 0 else np.log(both / apart) / -np.log(both))
        expected.append(np.mean(scores))
    assert np.allclose(found.coherence(stored, number=5), expected, rtol=1e-12)
    assert found.diversity(5) == len(np.unique(tops)) / 30
    names = [f"w{i}" for i in range(x.shape[1])]
    assert found.top_words(names, 5)[2][3] == f"w{tops[2, 3]}"


def test_the_same_bits_for_every_limit(stored, tmp_path):
    whole = fl.topics(stored, 6, sample=0.7)
    least = fl.topics.plan(stored, 6, sample=0.7).least_memory
    tight = fl.topics(stored, 6, sample=0.7, memory=least + (1 << 20))
    for name in ("topics", "isle", "clusters", "thresholds", "catchwords", "singular_values"):
        assert np.array_equal(np.asarray(getattr(whole, name)), np.asarray(getattr(tight, name))), name


@pytest.mark.parametrize(
    ("change", "k", "options", "what"),
    [
        (None, 0, {}, "k is 0"),
        (None, 121, {}, "k must lie between 1 and 120"),
        ("negative", 3, {}, "word 5 has the count -2"),
        ("nan", 3, {}, "NaN or Inf, in row 3 and in column 5 first"),
        ("empty", 3, {}, "all documents are empty"),
        ("small", 3, {}, "no word comes to 1 when rounded; multiply them"),
        (None, 3, {"solver": "arpack"}, "solver is 'arpack'"),
        (None, 3, {"eps1": 0}, "eps1 is 0"),
        (None, 3, {"sample": 1.5}, "sample is 1.5"),
        (None, 3, {"passes": -1}, "passes is -1"),
        (None, 3, {"passes": 2**40}, "passes is 1099511627776; a whole number of at most 10000"),
        (None, 3, {"seed": 2**64}, "topics: seed is 18446744073709551616"),
        (None, 2**70, {}, "topics: k is 1180591620717411303424"),
    ],
)
def test_what_is_refused(corpus, change, k, options, what):
    x = corpus[0].tolil() if change else corpus[0]
    if change in ("negative", "nan"):
        x[3, 5] = -2 if change == "negative" else np.nan
    if change == "small":
        x = 1e-4 * x
    if change == "empty":
        x = sp.lil_matrix(x.shape, dtype="f4")
    with pytest.raises(fl.Error, match=what):
        fl.topics(x.tocsr(), k, **options)


def test_other_documents_and_vocabularies_are_refused(stored):
    found = fl.topics(stored, 3, passes=0)
    with pytest.raises(fl.ShapeError, match="know 120 words"):
        found.perplexity(sp.csr_matrix((4, 7), dtype="f4"))
    with pytest.raises(fl.ShapeError, match="vocabulary has 2 words"):
        found.top_words(["a", "b"])
    for call, what in (
        (lambda: found.coherence(stored, number=0), "coherence: number is 0"),
        (lambda: found.diversity(1.5), "diversity: number is 1.5"),
        (lambda: found.top_words(7), "top_words: the vocabulary is 7"),
        (lambda: found.transform(sp.csr_matrix((0, 120))), "transform: Y is 0 x 120; documents"),
        (lambda: found.transform(-sp.eye_array(120)), "transform: document 0 has the count -1"),
        (lambda: found.perplexity(-sp.eye_array(120)), "perplexity: document 0 has the count -1"),
    ):
        with pytest.raises(fl.ShapeError, match=what):
            call()
    for y, what in (
        (np.ones((3, 7)), "Y is 3 x 7 and the topics know 120 words"),
        (np.ones((0, 120)), "Y is 0 x 120; documents and words are needed"),
        (np.ones((3, 120), complex), "Y is complex128; counts are needed"),
        (-np.eye(120), "document 0 has the count -1"),
        (fl.from_numpy(np.where(np.eye(120) > 0, np.nan, 1)), "document 0 has the count nan"),
    ):
        with pytest.raises(fl.ShapeError, match=what):
            found.transform(y)
    with pytest.raises(TypeError, match="transform: Y is list; a sparse matrix"):
        found.transform([[1.0] * 120])
    with pytest.raises(TypeError, match="coherence: Y is ndarray; a sparse matrix"):
        found.coherence(np.ones((3, 120)))
    with pytest.raises(fl.ShapeError, match="choose 'em' or 'mwu'"):
        found.transform(sp.csr_matrix((4, 120), dtype="f4"), method="vb")


def test_few_documents_are_told(corpus):
    with pytest.warns(UserWarning, match="documents are few for 5 topics"):
        fl.topics(corpus[0][:20], 5, passes=0)


def test_words_of_newsgroups_go_together(shared_data):
    x = sp.load_npz(shared_data / "ecrtm-20NG" / "train_bow.npz").tocsr()[:3000].astype("f4")
    held = sp.load_npz(shared_data / "ecrtm-20NG" / "test_bow.npz").tocsr()[:500].astype("f4")
    first, last = fl.topics(x, 20, passes=0), fl.topics(x, 20, passes=3)
    assert last.perplexity(held) < first.perplexity(held)
    assert last.coherence(x).mean() > 0.08
    assert last.diversity() > 0.5


def test_empty_documents_weigh_nothing(corpus):
    x = corpus[0]
    found = fl.topics(x, 3, passes=0)
    longer = sp.vstack([x, sp.csr_matrix((50, x.shape[1]))]).tocsr()
    assert np.array_equal(found.coherence(longer), found.coherence(x))
    assert found.perplexity(longer) == found.perplexity(x)


def test_known_topics_are_planned(corpus, tmp_path):
    stored = fl.from_blocks([corpus[0]], tmp_path / "x.zarr")
    found = fl.topics(stored, 3, passes=0)
    for name in ("transform", "perplexity", "coherence"):
        plan = getattr(found, name).plan(stored)
        getattr(found, name)(stored)
        assert plan.what == fl.stats().what
        assert abs(plan.bytes_read - fl.stats().bytes_read) <= 0.01 * plan.bytes_read
