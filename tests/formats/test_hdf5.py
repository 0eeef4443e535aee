"""HDF5 and `.h5ad` in place: h5py, anndata and SciPy are the judges."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.error_sentences import fails
from tests.support.examples import examples
from tests.zarr.test_foreign import DTYPES, layouts, numbers

h5py = pytest.importorskip("h5py")


@examples(60, HealthCheck.function_scoped_fixture)
@given(data=st.data(), layout=layouts(), dtype=st.sampled_from(DTYPES))
def test_any_chunking_filter_type_and_order(tmp_path, data, layout, dtype):
    shape, chunks, box = layout
    truth = numbers(shape, dtype)
    chunks = tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    kind = np.dtype(dtype).newbyteorder(data.draw(st.sampled_from("<>")))
    filters = {
        "chunks": chunks, "shuffle": data.draw(st.booleans()), "fletcher32": data.draw(st.booleans()),
        "compression": data.draw(st.sampled_from([None, "gzip", "lzf"])),
    }  # fmt: skip
    part = tuple(slice(0, max(1, n // 2)) for n in shape)
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=data.draw(st.sampled_from([0, 512]))) as file:
        made = file.create_dataset(
            "g/x", shape, kind, fillvalue=truth.flat[-1], **(filters if data.draw(st.booleans()) else {})
        )
        made[part] = truth[part]
        expected = made[...].astype(dtype)
    opened = fl.open(str(tmp_path / "a.h5"))
    assert (opened.shape, opened.dtype) == (shape, np.dtype(dtype))
    np.testing.assert_array_equal(opened[...], expected)
    np.testing.assert_array_equal(opened[box], expected[box])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], expected)


def test_layouts_that_hold_nothing_to_map(tmp_path):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("never", (50, 60), "f4", fillvalue=2.5)
        file.create_dataset("empty", (0, 7), "f8")
        file.create_dataset("grown", data=np.arange(10.0), maxshape=(None,), chunks=(100,))
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space, kind = h5py.h5s.create_simple((5,)), h5py.h5t.py_create(np.dtype("i4"))
        h5py.Dataset(h5py.h5d.create(file.id, b"compact", kind, space, dcpl=properties))[...] = range(5)
    np.testing.assert_array_equal(fl.open(path, key="never")[...], np.full((50, 60), 2.5))
    assert fl.open(path, key="empty").shape == (0, 7)
    np.testing.assert_array_equal(fl.open(path, key="grown")[...], np.arange(10.0))
    np.testing.assert_array_equal(fl.open(path, key="compact")[...], range(5))


def test_routines_take_them(tmp_path, rng):
    a, b = rng.random((500, 300)).astype("f4"), rng.random((300, 200)).astype("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=a, chunks=(90, 70), compression="gzip", shuffle=True)
        file["b"] = b
    left, right = fl.open(str(tmp_path / "a.h5"), key="a"), fl.open(str(tmp_path / "a.h5"), key="b")
    np.testing.assert_allclose((left @ right)[...], a @ b, rtol=1e-5)
    np.testing.assert_allclose(fl.pca(left, 4).singular_values, fl.pca(a, 4).singular_values, rtol=1e-6)


def test_statements(tmp_path):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file["one"], file["g/two"] = np.zeros(3), np.zeros(4)
        file["words"] = np.array([b"a", b"b"])
        file["elsewhere"] = h5py.ExternalLink("other.h5", "x")
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(path, "one", (3,))
        file.create_virtual_dataset("virtual", layout)
    with fails(fl.FormatError, "g/two", "one", "key="):
        fl.open(path)
    with fails(FileNotFoundError, "no 'three'", "one"):
        fl.open(path, key="three")
    with fails(fl.FormatError, "'words'", "numbers"):
        fl.open(path, key="words")
    with fails(fl.FormatError, "'g'", "group", "g/two"):
        fl.open(path, key="g")
    with fails(fl.FormatError, "other files"):
        fl.open(path, key="virtual")
    with fails(fl.StorageError, "reading only"):
        fl.open(path, key="one", mode="r+")


def test_damage(tmp_path):
    path = tmp_path / "a.h5"
    x = np.random.default_rng(0).random((300, 400))
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", data=x, chunks=(50, 400), compression="gzip", fletcher32=True)
        place = made.id.get_chunk_info(3).byte_offset
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with fails(fl.FormatError, "a.h5", "truncated"):
        fl.open(str(path))
    path.write_bytes(good[: place + 100] + b"?" + good[place + 101 :])
    opened = fl.open(str(path))
    opened[:100]
    with fails(fl.FormatError, "damaged", "a.h5/x"):
        opened[...]


def test_random_damage_never_crashes(tmp_path):
    path, said = tmp_path / "a.h5", []
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(2000.0).reshape(50, 40), chunks=(20, 20), compression="lzf")
    good, random = path.read_bytes(), np.random.default_rng(1)
    for _ in range(150):
        text = bytearray(good)
        for at in random.integers(0, len(text), 4):
            text[at] = random.integers(0, 256)
        path.write_bytes(text)
        try:
            opened = fl.open(str(path))
            if opened.nbytes < 10_000_000:
                opened[...]
        except (fl.Error, TypeError) as error:
            said.append(str(error))
    assert said
    assert not any("\n" in text for text in said)


# AnnData


def cells(rng, form, rows=700, cols=90):
    m = sp.random(rows, cols, 0.1, format="csr", random_state=rng, dtype="f4")
    m.data = np.ceil(5 * m.data)
    return m, m if form == "dense" else m.asformat(form)


def stored(path, anndata, x, m, rng, compression=None):
    a = anndata.AnnData(x.toarray() if hasattr(x, "toarray") and path.name == "dense.h5ad" else x)
    a.layers["counts"] = m
    a.obsm["given"] = rng.random((m.shape[0], 3))
    a.obs["n"] = np.arange(m.shape[0])
    if path.suffix == ".zarr":
        a.write_zarr(str(path))
    else:
        a.write_h5ad(path, compression=compression)
    return a


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
@pytest.mark.parametrize("compression", [None, "gzip", "lzf", "zarr"])
def test_anndata(tmp_path, rng, form, compression):
    anndata = pytest.importorskip("anndata")
    path = tmp_path / (f"{form}.zarr" if compression == "zarr" else f"{form}.h5ad")
    m, x = cells(rng, form)
    given = stored(path, anndata, x if form != "dense" else m.toarray(), m, rng, compression)
    opened = fl.open(str(path))
    assert opened.shape == m.shape
    full = opened[...] if form == "dense" else opened.to_scipy().toarray()
    np.testing.assert_array_equal(full, m.toarray())
    np.testing.assert_array_equal(fl.open(str(path), key="layers/counts").to_scipy().toarray(), m.toarray())
    np.testing.assert_array_equal(fl.open(str(path), key="obsm/given")[...], given.obsm["given"])
    if form != "dense":
        again = pickle.loads(pickle.dumps(opened))
        v = rng.random((90, 2))
        np.testing.assert_allclose(again @ v, m @ v, rtol=1e-6)
        np.testing.assert_allclose(again.T @ (m @ v), m.T @ (m @ v), rtol=1e-6)
    found, plain = fl.pca(opened, 4), fl.pca(m.toarray(), 4)
    np.testing.assert_allclose(found.singular_values, plain.singular_values, rtol=1e-5)
    fl.write_obsm(str(path), "X_pca", found.scores)
    back = anndata.read_zarr(str(path)) if path.suffix == ".zarr" else anndata.read_h5ad(path)
    np.testing.assert_array_equal(back.obsm["X_pca"], found.scores[...])
    np.testing.assert_array_equal(back.obsm["given"], given.obsm["given"])
    np.testing.assert_array_equal(back.layers["counts"].toarray(), m.toarray())
    assert list(back.obs["n"]) == list(range(700))


def test_csc_turns_into_csr(tmp_path, rng):
    anndata = pytest.importorskip("anndata")
    m, x = cells(rng, "csc")
    stored(tmp_path / "a.h5ad", anndata, x, m, rng)
    fl.convert(str(tmp_path / "a.h5ad"), str(tmp_path / "a.zarr"))
    turned = fl.open(str(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(turned.to_scipy().toarray(), m.toarray())
    fl.pca(turned, 3)


# Into obsm


@pytest.fixture
def annotated(tmp_path, rng):
    anndata = pytest.importorskip("anndata")
    m, x = cells(rng, "csr")
    stored(tmp_path / "a.h5ad", anndata, x, m, rng)
    return tmp_path / "a.h5ad"


def test_obsm_is_replaced_and_checked(annotated):
    anndata = pytest.importorskip("anndata")
    for value in (1.0, 2.0):
        fl.write_obsm(str(annotated), "X_pca", np.full((700, 5), value))
    np.testing.assert_array_equal(anndata.read_h5ad(annotated).obsm["X_pca"], np.full((700, 5), 2.0))
    before = annotated.read_bytes()
    with fails(FileExistsError, "overwrite"):
        fl.write_obsm(str(annotated), "X_pca", np.zeros((700, 5)), overwrite=False)
    with fails(fl.ShapeError, "699", "700"):
        fl.write_obsm(str(annotated), "X_pca", np.zeros((699, 5)))
    with fails(fl.FormatError, "no name"):
        fl.write_obsm(str(annotated), "a/b", np.zeros((700, 5)))
    assert annotated.read_bytes() == before
    assert [p.name for p in annotated.parent.iterdir()] == ["a.h5ad"]


#: At a call of a function of the journal, or of the system, `act` happens.
STEP = """
import errno, os, signal
from flagstone._formats.hdf5 import page_journal as journal
name, count = step.split(":")
calls = 0
def counted(f):
    def call(*a, **k):
        global calls
        calls += 1
        if calls == int(count):
            act()
        return f(*a, **k)
    return call
owner = journal if hasattr(journal, name) else os
setattr(owner, name, counted(getattr(owner, name)))
"""
KILLED = f"""{STEP}
def act():
    os.kill(os.getpid(), signal.SIGKILL)
fl.write_obsm(path, "X_pca", np.full((700, 5), 3.0))
"""
FAILING = f"""{STEP}
def act():
    raise OSError(errno.EIO, os.strerror(errno.EIO))
try:
    fl.write_obsm(path, "X_pca", np.full((700, 5), 3.0))
except fl.StorageError as error:
    result = str(error)
"""


@pytest.mark.parametrize("step", ["_write:1", "_write:9", "sync_file:1", "rename:1", "_apply:1", "unlink:1"])
def test_killed_at_any_step_it_is_all_or_nothing(annotated, isolated, step):
    """kill -9 while pages are collected, before and at the commit, and while they are put in place."""
    anndata = pytest.importorskip("anndata")
    died = isolated(KILLED, path=str(annotated), step=step, check=False)
    assert died.returncode == -9
    fl.open(str(annotated))
    after = anndata.read_h5ad(annotated)
    if step in ("_apply:1", "unlink:1"):
        np.testing.assert_array_equal(after.obsm["X_pca"], np.full((700, 5), 3.0))
    else:
        assert "X_pca" not in after.obsm
    assert after.obsm["given"].shape == (700, 3)
    fl.write_obsm(str(annotated), "X_pca", np.full((700, 2), 4.0))
    np.testing.assert_array_equal(anndata.read_h5ad(annotated).obsm["X_pca"], np.full((700, 2), 4.0))
    assert [p.name for p in annotated.parent.iterdir()] == ["a.h5ad"]


NOT_YET = ("_write:1", "_write:9", "sync_file:1", "rename:1")
COMMITTED = ("sync_folder:1", "_apply:1", "sync_file:2", "unlink:1")


@pytest.mark.parametrize("step", NOT_YET + COMMITTED)
def test_a_step_that_fails_says_which_of_both_is_there(annotated, isolated, step):
    anndata = pytest.importorskip("anndata")
    said = isolated(FAILING, path=str(annotated), step=step)
    stored = step in COMMITTED
    assert ("is stored" if stored else "was not changed") in str(said), said
    fl.open(str(annotated))
    after = anndata.read_h5ad(annotated)
    assert ("X_pca" in after.obsm) is stored
    assert after.obsm["given"].shape == (700, 3)
    fl.write_obsm(str(annotated), "X_pca", np.full((700, 2), 4.0))
    assert [p.name for p in annotated.parent.iterdir()] == ["a.h5ad"]


@pytest.mark.parametrize("after", [1, 3, 5])
def test_killed_between_two_pages_the_next_open_finishes(annotated, isolated, after):
    code = KILLED.replace('name, count = step.split(":")', 'name, count = "_write", 10**9').replace(
        "fl.write_obsm(",
        "inner = journal._apply\ndef apply(*a):\n    global count\n    count = calls + after\n"
        "    inner(*a)\njournal._apply = apply\nfl.write_obsm(",
    )  # fmt: skip
    died = isolated(code, path=str(annotated), after=after, check=False)
    assert died.returncode == -9, died.stderr
    assert (annotated.parent / ".a.h5ad.flagstone-journal").exists()
    np.testing.assert_array_equal(fl.open(str(annotated), key="obsm/X_pca")[...], np.full((700, 5), 3.0))


def test_command_line(annotated, capsys):
    anndata = pytest.importorskip("anndata")
    from click.testing import CliRunner

    from flagstone._cli import cli

    done = CliRunner().invoke(cli, ["pca", str(annotated), "-k", "4", "--into-obsm"])
    assert done.exit_code == 0, done.output
    assert anndata.read_h5ad(annotated).obsm["X_pca"].shape == (700, 4)


def test_pca_into_what_is_no_anndata_is_refused_before_work(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from flagstone._cli import cli

    sp.save_npz(tmp_path / "c.npz", sp.random(60, 20, 0.3, format="csr", random_state=0))
    monkeypatch.setattr("flagstone._commands.routines.run_pca", lambda *_, **__: pytest.fail("computed"))
    done = CliRunner().invoke(cli, ["pca", str(tmp_path / "c.npz"), "-k", "3", "--into-obsm"])
    assert done.exit_code == 1
    assert "is no AnnData" in done.output + str(done.exception)
