"""The Python blocks of the pages run, one after the other, as a reader would type them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rooms import tomllib

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Page:
    """What a page takes for granted."""

    given: str = ""  # files and names
    before: str = ""  # the same, made before each block
    sizes: dict[str, str] = field(default_factory=dict)  # what is too large here, and what stands for it


_PRELUDE = """
import numpy as np
import scipy.sparse as sp
import flagstone as fl
rng = np.random.default_rng(0)
shape = (300, 200)
def store(name, *extents, dtype="float32", **options):
    return fl.from_numpy(rng.random(extents or shape).astype(dtype), name, **options)
def h5ad(name, matrix):
    import anndata
    anndata.AnnData(X=matrix).write_h5ad(name)
def counts_of(rows, columns):
    return sp.csr_matrix(rng.poisson(0.1, (rows, columns)).astype("float64"))
"""

#: A product that died after its first checkpoint.
_KILLED = """
import os, signal, subprocess, sys
A, B = fl.open("left.zarr"), fl.open("right.zarr")
died = subprocess.run([sys.executable, "-c", '''
import os, signal
import flagstone as fl
from flagstone._resume import record
record.saved = lambda _: os.kill(os.getpid(), signal.SIGKILL)
with fl.Runtime(workers=1):
    fl.matmul(fl.open("left.zarr"), fl.open("right.zarr"), out="c.zarr", memory="160MiB")
'''], env={**os.environ, "FLAGSTONE_CHECKPOINT_SECONDS": "0"}, check=False)
assert died.returncode == -signal.SIGKILL
"""

#: What the front page begins with, and that of the site.
_FRONT = """
sp.save_npz("cells.npz", counts_of(400, 120))
np.save("a.npy", rng.random((60, 50)))
store("b.zarr", 40, 50, dtype="float64")
"""

PAGES = {
    "README.md": Page(_FRONT),
    "docs/index.md": Page(_FRONT),
    "docs/guide/factorizations.md": Page(),
    "docs/guide/quickstart.md": Page(
        """
np.save("b.npy", rng.random((200, 30), dtype="float32"))
sp.save_npz("cells.npz", counts_of(400, 120))
def make_block(i):
    return sp.random(10, 40, 0.2, "csr", rng=rng)
""",
        sizes={"20_000": "200", "2_000": "20", "5_000": "50", "/data/scratch": "scratch"},
    ),
    "docs/guide/storage.md": Page(
        """
counts = rng.integers(0, 9, (300, 200))
store("data.zarr/A", 2000, 1000)
store("data.zarr/B", 2000, 1000)
store("data.zarr/old")
fresh = np.ones((1000, 1000), "float32")
n = 64
start = np.ones((n, n))
def step(now, then):
    then[...] = now[...] / 2
residual, total = 0.5, 0.0
rows, columns = [1, 5], [2, 3, 4]
source = np.ones((500, 300), "float32")
""",
        sizes={"20_000": "2_000", "< 1000": "< 3"},
    ),
    "docs/guide/devices.md": Page(
        """
store("a.zarr", 600, 400)
store("b.zarr", 400, 500)
A, B = fl.open("a.zarr"), fl.open("b.zarr")
""",
        sizes={'"cuda:0", memory="4GiB"': '"emulated", memory="64MiB"', "8GiB": "1GiB"},
    ),
    "docs/guide/resume.md": Page(
        """
store("left.zarr", 4096, 1024, dtype="float64")
store("right.zarr", 1024, 4096, dtype="float64")
""",
        before=_KILLED,
    ),
    "docs/guide/elementwise.md": Page("""
store("x.zarr")
h5ad("counts.h5ad", counts_of(500, 300))
genes = np.arange(0, 300, 2)
V, U = rng.random((150, 3)), rng.random((500, 3))
"""),
    "docs/guide/sparse-products.md": Page("""
fl.from_blocks([counts_of(300, 300)], "graph.zarr")
X, x, unseen = rng.random((300, 7)), rng.random(300), np.arange(300) > 5
frontier = sp.csr_matrix(([1.0], ([3], [0])), (300, 1))
rows, columns = rng.integers(0, 300, (2, 900))
"""),
    "docs/guide/lazy.md": Page("""
import os
store("a.zarr", 300, 90)
np.save("b.npy", rng.random((90, 30), dtype="float32"))
os.mkdir("parts")
for i in range(3):
    np.save(f"parts/{i}.npy", rng.random((50, 90), dtype="float32"))
"""),
    "docs/guide/filtering.md": Page(
        'h5ad("counts.h5ad", counts_of(500, 300))',
        sizes={">= 200": ">= 25", "cells, 50": "cells, 5, genes=60"},
    ),
    "docs/guide/formats.md": Page("""
import h5py
with h5py.File("sst.nc", "w") as file:
    sst = file.create_dataset("analysed_sst", data=rng.integers(0, 900, (40, 50), dtype="i2"))
    sst.attrs.update({"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": np.int16(7)})
with h5py.File("t.nc", "w") as file:
    file.create_dataset("time", data=np.arange(300)).attrs["units"] = "days since 2020-01-01"
import os
import anndata, pandas, scipy.io
names = [f"cell{i}" for i in range(40)]
kinds = pandas.DataFrame({"leiden": pandas.Categorical(["0", "1"] * 20)}, index=names)
anndata.AnnData(X=counts_of(40, 30), obs=kinds).write_h5ad("cells.h5ad")
mask = np.arange(40) % 3 == 0
for folder in ("parts", "filtered_feature_bc_matrix"):
    os.mkdir(folder)
with open("weather.csv", "w") as file:
    file.write("day;temperature;wind\\n2024-01-01;3.5;7\\n2024-01-02;-1;NA\\n")
for i in range(2):
    np.savetxt(f"parts/{i}.csv", rng.random((5, 3)), delimiter=",")
scipy.io.mmwrite("filtered_feature_bc_matrix/matrix.mtx", counts_of(30, 40).tocoo())
for name, count in (("barcodes", 40), ("features", 30)):
    with open(f"filtered_feature_bc_matrix/{name}.tsv", "w") as file:
        file.writelines(f"id{i}\\tname{i}\\n" for i in range(count))
"""),
    "docs/guide/memory.md": Page("""
A, B = store("a.zarr", 90, 80), store("b.zarr", 80, 70)
X = store("x.zarr", 300, 90)
"""),
    "docs/guide/plans.md": Page(
        """
A, B = store("a.zarr", 90, 80), store("b.zarr", 80, 70)
with open("node.toml", "w") as file:
    file.write('[node]\\nworkers = 16\\nmemory = "1GiB"')
""",
        sizes={"200_000": "2_000"},
    ),
    "docs/guide/graphs.md": Page(
        given="""
import pathlib
ends = rng.integers(0, 300, (4000, 2)) // 100 * 100 + rng.integers(0, 100, (4000, 2))
ends[:3000, 1] = ends[:3000, 0] // 100 * 100 + rng.integers(0, 100, 3000)
pathlib.Path("edges.txt").write_text("\\n".join(f"{a} {b}" for a, b in ends))
"""
    ),
    "docs/guide/learning.md": Page(),
    "docs/guide/stencils.md": Page(),
    "docs/guide/models.md": Page(
        sizes={"(2000, 2)": "(300, 2)", "standard_normal(2000)": "standard_normal(300)"}
    ),
    "docs/guide/tasks.md": Page("""
store("x.zarr")
def smooth(block):
    return block
class Run(int):
    pass
def longest_run(x):
    return Run(x.sum())
def join(a, b):
    return Run(a + b)
"""),
    "docs/howto/h5ad.md": Page(
        'h5ad("counts.h5ad", counts_of(500, 300))',
        sizes={
            ">= 200": ">= 20",
            "single_cell(cells, 50": "single_cell(cells, 5, genes=60",
            "single_cell.plan(cells, 50": "single_cell.plan(cells, 5, genes=60",
        },
    ),
    "docs/howto/tenx.md": Page(
        """
import os
import h5py
import scipy.io
counts = counts_of(500, 300)
os.mkdir("filtered_feature_bc_matrix")
scipy.io.mmwrite("filtered_feature_bc_matrix/matrix.mtx", counts.T.tocoo())
for name, count in (("barcodes", 500), ("features", 300)):
    with open(f"filtered_feature_bc_matrix/{name}.tsv", "w") as file:
        file.writelines(f"id{i}\\t{'MT-' * (i < 9)}name{i}\\n" for i in range(count))
with h5py.File("filtered_feature_bc_matrix.h5", "w") as file:
    for name in ("data", "indices", "indptr"):
        file[f"matrix/{name}"] = getattr(counts, name)
    file["matrix/shape"] = counts.shape[::-1]
    file["matrix/barcodes"] = [f"id{i}".encode() for i in range(500)]
    file["matrix/features/name"] = [f"name{i}".encode() for i in range(300)]
""",
        sizes={
            ">= 200": ">= 20",
            "single_cell(cells, 50": "single_cell(cells, 5, genes=60",
            "single_cell.plan(cells, 50": "single_cell.plan(cells, 5, genes=60",
        },
    ),
    "docs/howto/csv.md": Page("""
x = rng.random((200, 5))
names = "height,weight,age,a,b"
np.savetxt("table.csv", x, delimiter=",", header=names, comments="")
for i in range(2):
    np.savetxt(f"part-{i}.csv", x, delimiter=",", header=names, comments="")
import pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"a": x[:, 0], "b": x[:, 1]}), "table.parquet")
"""),
    "docs/howto/many-npy.md": Page("""
import os
os.mkdir("parts")
for i in range(3):
    np.save(f"parts/{i}.npy", rng.random((100, 40), dtype="float32"))
"""),
    "docs/howto/product.md": Page('np.save("big.npy", rng.random((300, 200)))'),
    "docs/howto/container.md": Page('np.save("a.npy", rng.random((300, 200)))'),
    "docs/howto/xarray.md": Page("""
import h5py
for i in range(3):
    with h5py.File(f"day-{i}.nc", "w") as file:
        sst = file.create_dataset("sst", data=rng.integers(0, 900, (40, 50), dtype="i2"))
        sst.attrs.update({"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": np.int16(7)})
"""),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page, tmp_path):
    about = PAGES[page]
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert blocks
    for long, short in about.sizes.items():
        assert any(long in block for block in blocks), f"{page} has no {long} any more"
        blocks = [block.replace(long, short) for block in blocks]
    script = tmp_path / "page.py"
    script.write_text("\n".join([_PRELUDE, about.given, *(about.before + block for block in blocks)]))
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", str(script)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_page_with_python_is_run():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with_python = {str(page.relative_to(ROOT)) for page in pages if BLOCK.search(page.read_text("utf-8"))}
    assert with_python == set(PAGES)


def test_the_architecture_names_every_room():
    """Rows of its tables begin with rooms: all of tools/layers.toml, and no other."""
    table = tomllib.loads((ROOT / "tools" / "layers.toml").read_text("utf-8"))
    python = {room for floor in table["python"]["floors"] for room in floor if room.startswith("_")}
    rooms = {*table["cpp"]["rooms"], "testing", *python} - {"__init__", "__main__"}
    rows = [line for line in (ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines() if line[:3] == "| `"]
    named = {
        room for row in rows for code in re.findall("`([^`]+)`", row.split("|")[1]) for room in code.split()
    }
    assert rooms - named == set()
    assert {room for room in named - rooms if not room.endswith(".py")} == set()
