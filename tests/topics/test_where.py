"""Where operands of steps lie: the same bits everywhere, what plans say of it, and what is refused."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.topics import isle

OPERANDS = ("thresholded", "basis", "projection", "centers", "buckets")
FIRST = OPERANDS[:3]
PLACES = ("memory", "disk", "auto")
FOUND = ("topics", "isle", "clusters", "thresholds", "sampled", "singular_values", "catchwords", "shares")


def digests(found) -> dict[str, bytes]:
    return {name: np.asarray(getattr(found, name)).tobytes() for name in (*FOUND, "likelihood")}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    x, _ = isle.planted(1200)
    x = sp.vstack([x, sp.csr_matrix((2, x.shape[1]), dtype="f4")]).tocsr()
    return fl.from_blocks([x], str(tmp_path_factory.mktemp("where") / "x.zarr"))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    rng = np.random.default_rng(4)
    x = sp.random(140_000, 24, 0.2, "csr", random_state=rng, dtype=np.float32)
    x.data[:] = rng.integers(1, 9, len(x.data))
    return fl.from_blocks([x], str(tmp_path_factory.mktemp("many") / "x.zarr"))


@pytest.fixture(scope="module")
def expected(stored):
    return digests(fl.topics(stored, 5, solver="krylov-schur", sample=0.7, passes=1))


def combinations() -> list[tuple[str, ...]]:
    """All places of the first three operands, with those of the last two in turn."""
    pairs = itertools.cycle(itertools.product(PLACES, repeat=2))
    return [(*three, *next(pairs)) for three in itertools.product(PLACES, repeat=3)]


@pytest.mark.parametrize("places", combinations(), ids="-".join)
def test_every_combination_gives_the_same_bits(stored, expected, places):
    where = dict(zip(OPERANDS, places, strict=True))
    found = fl.topics(stored, 5, solver="krylov-schur", sample=0.7, passes=1, where=where)
    assert digests(found) == expected


@examples(8)
@given(st.data())
def test_of_small_corpora_too(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    documents, words = data.draw(st.integers(8, 60)), data.draw(st.integers(6, 40))
    x = sp.csr_matrix(rng.poisson(rng.gamma(0.5, 3, size=(documents, words))).astype("f4"))
    k = data.draw(st.integers(1, 4))
    solver = data.draw(st.sampled_from(("gram", "krylov", "krylov-schur")))
    if (np.asarray(x.sum(axis=1)) > 0).sum() < k:
        return
    places = [p for p in PLACES if p != "disk" or solver == "krylov-schur"]
    where = {"thresholded": data.draw(st.sampled_from(PLACES)), "basis": data.draw(st.sampled_from(places)),
             } | {name: data.draw(st.sampled_from(PLACES)) for name in OPERANDS[2:]}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few documents
        first = fl.topics(x, k, solver=solver, passes=1)
        again = fl.topics(x, k, solver=solver, passes=1, where=where)
    assert digests(again) == digests(first)


def foreign(path, x, chunk: int):
    """A group of AnnData's, whose chunks are no multiple of what is decoded at a time."""
    import zarr

    about = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(x.shape)}
    group = zarr.open_group(path, mode="w", zarr_format=3, attributes=about)
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(x, name), chunks=(chunk,))
    return fl.open(path)


def test_views_and_chunks_of_other_writers(tmp_path, stored):
    x = isle.planted(700, words=200, k=4)[0]
    other = foreign(tmp_path / "foreign.zarr", x, 10_007)
    views = (other, other.scale(rows=np.arange(700) % 5 > 0), stored[:, 10:90], other[:, ::2])
    for view in views:
        first = digests(fl.topics(view, 4, solver="krylov-schur", passes=1))
        for place in ("memory", "disk"):
            where = dict.fromkeys(OPERANDS, place)
            assert digests(fl.topics(view, 4, solver="krylov-schur", passes=1, where=where)) == first


def test_several_panels_share_tiles(many):
    """Two panels of 65,536 documents and the rest: what they share of a tile is written by both."""
    assert many.stored_values % (1 << 19)
    found = [
        digests(
            fl.topics(
                many, 3, solver="krylov-schur", passes=0, iterations=2, where=dict.fromkeys(OPERANDS, place)
            )
        )
        for place in PLACES
    ]
    assert found[0] == found[1] == found[2]


def test_several_blocks_of_centers_and_several_buckets():
    """17 centers of 33,000 words are two blocks; counts of their words do not fit at once: some buckets."""
    rng = np.random.default_rng(6)
    x = sp.random(300, 33_000, 0.004, "csr", random_state=rng, dtype=np.float32)
    x.data[:] = rng.integers(1, 9, len(x.data))
    stored = fl.from_blocks([x])
    options = {"passes": 0, "projected_iterations": 1, "iterations": 2}
    found, notes = [], []
    for place in ("auto", "disk"):
        where = {"centers": place, "buckets": place}
        plan = fl.topics.plan(stored, 17, where=where, **options)
        found.append(
            digests(fl.topics(stored, 17, where=where, memory=plan.least_memory + (8 << 20), **options))
        )
        notes.append(fl.stats().note)
    assert found[0] == found[1]
    assert "2 blocks of centers" in notes[1]
    assert " of them, one at a time" in notes[1]


def told(plan) -> str:
    return " ".join(str(plan).split())


def test_plans_tell_the_bytes(stored):
    values, documents = stored.stored_values, stored.shape[0]
    held = dict.fromkeys(OPERANDS, "memory")
    plan = told(fl.topics.plan(stored, 5, solver="krylov-schur", where=held))
    centers = 8 * 5 * stored.shape[1]
    for operand, size in (("thresholded", values), ("projection", 24 * documents), ("centers", centers)):
        assert f"{operand} {fl._core.format_bytes(size)} in memory" in plan
    assert "basis " in plan
    assert "buckets " in plan
    assert "in scratch" not in plan
    usual = told(fl.topics.plan(stored, 5))
    assert f"projection {fl._core.format_bytes(24 * documents)} in scratch" in usual
    assert "basis" not in usual  # of a Gram matrix there is none


@pytest.mark.parametrize(("operand", "each"), [("thresholded", 8), ("projection", 24), ("buckets", 128)])
def test_memory_is_charged(operand, each):
    """What lies in memory is a part of the least limit; what lies in scratch is not. `each`: bytes of one."""
    documents = 600_000
    columns, ends = np.tile(np.arange(8), documents), np.arange(0, 8 * documents + 1, 8)
    x = fl.from_blocks([sp.csr_matrix((np.ones(len(columns), "f4"), columns, ends), (documents, 8))])
    held, left = (
        fl.topics.plan(x, 3, passes=0, where={operand: place}).least_memory for place in ("memory", "disk")
    )
    assert held - left >= 0.5 * each * documents


@pytest.mark.parametrize(
    ("where", "options", "told"),
    [
        ("memory", {}, "where is 'memory'; a dict of operands and their places is needed"),
        ({"centres": "disk"}, {}, "where names 'centres'; operands that have a place are 'thresholded'"),
        ({"basis": "ssd"}, {}, r"where\['basis'\] is 'ssd'; choose 'memory', 'disk' or 'auto'"),
        ({"basis": 3}, {}, r"where\['basis'\] is 3; choose"),
        ({"basis": "disk"}, {}, "the solver of 120 words is 'gram', which has none; choose solver="),
        ({"basis": "disk"}, {"solver": "krylov"}, "is 'krylov', which has it in memory; choose solver="),
    ],
)  # fmt: skip
def test_refused(stored, where, options, told):
    with pytest.raises((fl.ShapeError, TypeError), match=told):
        fl.topics(stored, 5, where=where, **options)


def test_chosen_rows_are_a_view(stored):
    some = stored[np.arange(0, 1200, 2)]
    first = digests(fl.topics(some, 4, solver="krylov-schur", passes=0))
    for place in ("memory", "disk"):
        where = {"basis": "memory", "projection": "memory", "centers": place, "buckets": place}
        assert digests(fl.topics(some, 4, solver="krylov-schur", passes=0, where=where)) == first
    for operand, place in (("thresholded", "memory"), ("thresholded", "disk"), ("projection", "disk")):
        with pytest.raises(fl.ShapeError, match=f"places '{operand}'.* X is some rows of a stored matrix"):
            fl.topics(some, 4, where={operand: place})
