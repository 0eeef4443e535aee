"""Two checkouts, one result: hashes of what routines return and of the files they write, old against new.

python benchmarks/harness/same_bits.py OLD NEW [--only product,pca] [--workers 1,2,4] [--smoke]

Each checkout has an environment of its own (`make build`). Every case runs in both trees, once for each
limit (the least, twice that, plenty) and each number of workers, in a process of its own; operands are made
once, by the old tree. Files are compared byte for byte but for what lies below `__flagstone` (it holds times
and inode numbers), in scratch, and members of JSON that tell times. Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

LIMITS = ("least", "twice", "all")
REFUSED = re.compile(r"needs at least ([0-9.]+) (MiB|GiB)")


# --- what both trees run ------------------------------------------------------------------------------------


def make(folder: Path, smoke: bool) -> None:
    """Operands of all cases."""
    import numpy as np
    import scipy.io
    import scipy.sparse as sp

    import flagstone as fl

    rng = np.random.default_rng(5)
    m, k, n = (301, 257, 199) if smoke else (1501, 1303, 1105)
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for name, shape in (("a", (m, k)), ("b", (k, n)), ("at", (k, m)), ("c", (m, n))):
            x = rng.standard_normal(shape)
            x = (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)
            fl.create(str(folder / f"{name}-{dtype}.zarr"), shape, dtype, chunks=(128, 96))[...] = x
            np.save(folder / f"{name}-{dtype}.npy", x)
    tall = rng.standard_normal((2000 if smoke else 40_000, 120)) * np.geomspace(9, 0.5, 120)
    np.save(folder / "tall.npy", tall.astype("float32"))
    counts = sp.random(2000 if smoke else 30_000, 300, 0.08, format="csr", random_state=3, dtype="float32")
    counts.data = np.ceil(counts.data * 9)
    sp.save_npz(folder / "counts.npz", counts, compressed=False)
    sp.save_npz(folder / "packed.npz", counts[:500], compressed=True)
    scipy.io.mmwrite(folder / "counts.mtx", counts[:500])
    with open(folder / "counts.svm", "w") as f:
        for i in range(300):
            row = counts[i]
            f.write(
                f"{i % 7} "
                + " ".join(f"{j + 1}:{v:g}" for j, v in zip(row.indices, row.data, strict=True))
                + "\n"
            )
    np.savez(folder / "members.npz", x=tall[:500], y=np.arange(1000))
    try:
        import h5py
    except ImportError:
        return
    with h5py.File(folder / "some.h5", "w") as f:
        f.create_dataset("x", data=tall[:1000], chunks=(64, 50), compression="gzip", shuffle=True)


def products(dtype: str) -> Callable:
    def run(fl, np):
        a, b = fl.open(f"a-{dtype}.zarr"), fl.open(f"b-{dtype}.npy")
        plain = fl.matmul(a, b, out="plain.zarr")
        turned = fl.matmul(fl.open(f"at-{dtype}.npy").T.conj(), b, alpha=0.5, out="turned.zarr")
        return [plain, turned]

    return run


def in_place(fl, np):
    import shutil

    shutil.copytree("c-float64.zarr", "c.zarr")
    a, b = fl.open("a-float64.zarr"), fl.open("b-float64.zarr")
    fl.matmul(a, b, alpha=-2.0, beta=0.5, out=fl.open("c.zarr", mode="r+"))
    return [fl.open("c.zarr")]


def pca(source: str, method: str) -> Callable:
    def run(fl, np):
        r = fl.pca(fl.open(source), 10, method=method, out="pca.zarr")
        return [r.components, r.singular_values, r.mean, r.scores]

    return run


def rechunk(fl, np):
    out = fl.rechunk(fl.open("a-float64.zarr"), (-1, 17), out="wide.zarr")
    return [out, fl.transpose(fl.open("a-float32.npy"), out="turned.zarr")]


def elementwise(fl, np):
    a = fl.open("a-float64.zarr")
    e = fl.log1p(abs(a) * 3 + fl.open("a-float64.npy"))
    return fl.compute(e, e.mean(1), e.var(0), e.argmax(), e.sum(), e.all(1))


def sparse(fl, np):
    x = fl.open("counts.npz")
    rng = np.random.default_rng(0)
    right, left = rng.standard_normal((x.shape[1], 16)), rng.standard_normal((x.shape[0], 5))
    return [x @ right, x.T @ left, x.sum(0), x.sum(1), x.mean(0), x.var(0), x.max(1)]


def imports(fl, np):
    identity = np.eye(fl.open("counts.npz").shape[1])[:, :32]
    for name in ("packed.npz", "counts.mtx", "counts.svm"):
        fl.convert(name, f"{name}.zarr")
    found = [fl.open(f"{name}.zarr") @ identity for name in ("packed.npz", "counts.mtx")]
    return [*found, fl.open("members.npz", key="x")]


def hdf5(fl, np):
    return [fl.open("some.h5", key="x")]


CASES: dict[str, Callable] = {
    **{f"product {d}": products(d) for d in ("float32", "float64", "complex64", "complex128")},
    "product in place": in_place,
    "pca dense gram": pca("tall.npy", "gram"),
    "pca dense krylov": pca("tall.npy", "krylov"),
    "pca sparse gram": pca("counts.npz", "gram"),
    "pca sparse krylov": pca("counts.npz", "krylov"),
    "rechunk": rechunk,
    "elementwise": elementwise,
    "sparse": sparse,
    "imports": imports,
    "hdf5": hdf5,
}
#: What a case needs beyond flagstone, in both trees.
NEEDS = {"hdf5": "h5py"}


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not re.search("second|time|date|version", k)}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def hash_of_files(folder: Path, known: set[str]) -> str:
    """Of everything below `folder` that is not an operand."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = inside.parts[0].startswith(".") or "__flagstone" in inside.parts  # scratch; times and inodes
        if path.is_dir() or path.is_symlink() or inside.parts[0] in known or hidden:
            continue
        content = path.read_bytes()
        if path.suffix == ".json":
            content = json.dumps(without_times(json.loads(content)), sort_keys=True).encode()
        digest.update(str(inside).encode() + content)
    return digest.hexdigest()[:16]


def child(name: str, memory: str, workers: int, operands: str) -> None:
    import os

    import numpy as np

    import flagstone as fl

    known = set()
    for path in Path(operands).iterdir():
        os.symlink(path, path.name)
        known.add(path.name)
    digest = hashlib.sha256()
    try:
        with fl.Runtime(memory=memory or None, workers=workers):
            for result in CASES[name](fl, np):
                a = np.asarray(result)
                digest.update(str((a.shape, a.dtype)).encode() + np.ascontiguousarray(a).tobytes())
    except MemoryError as error:
        print("REFUSED" + str(error).replace("\n", " "))
        return
    print("HASH" + digest.hexdigest()[:16] + " " + hash_of_files(Path.cwd(), known))


# --- the comparison -----------------------------------------------------------------------------------------


def ran(tree: Path, name: str, memory: str, workers: int, operands: Path) -> str:
    with tempfile.TemporaryDirectory(dir=operands.parent) as folder:
        done = subprocess.run(
            [tree / ".venv/bin/python", __file__, "--child", name, memory, str(workers), str(operands)],
            cwd=folder,
            env={"HOME": folder, "FLAGSTONE_SCRATCH": folder + "/.scratch", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{tree}: {name}: {done.stderr[-2000:]}")
    return done.stdout.strip().splitlines()[-1]


def lacks(tree: Path, module: str) -> bool:
    """Whether the environment of a tree has no such module."""
    command = [tree / ".venv/bin/python", "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True).returncode != 0


def limits_of(tree: Path, name: str, operands: Path) -> dict[str, str]:
    """What `memory=` is for each of LIMITS; the least is what a refusal says."""
    least = 64
    while found := REFUSED.search(ran(tree, name, f"{least}MiB", 4, operands)):
        least = int(float(found[1]) * (1024 if found[2] == "GiB" else 1) * 1.05) + 8
    return {"least": f"{least}MiB", "twice": f"{2 * least}MiB", "all": ""}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--smoke", action="store_true", help="small operands")
    given = parser.parse_args()
    old, new = given.old.resolve(), given.new.resolve()
    chosen = [name for name in CASES if any(part in name for part in given.only.split(","))]
    different = 0
    with tempfile.TemporaryDirectory() as top:
        operands = Path(top) / "operands"
        operands.mkdir()
        subprocess.run(
            [old / ".venv/bin/python", __file__, "--make", str(operands), str(int(given.smoke))], check=True
        )
        for name in chosen:
            if missing := [str(tree) for tree in (old, new) if name in NEEDS and lacks(tree, NEEDS[name])]:
                print(f"{name:20} skipped: {NEEDS[name]} is not in {' and '.join(missing)}", flush=True)
                continue
            seen = set()
            limits = limits_of(old, name, operands)
            for (limit, memory), workers in itertools.product(limits.items(), given.workers.split(",")):
                a, b = (ran(tree, name, memory, int(workers), operands) for tree in (old, new))
                seen |= {a, b}
                if a != b:
                    different += 1
                    print(f"  {name}, {limit} ({memory or 'no limit'}), {workers} workers: {a} != {b}")
            print(f"{name:20} {len(limits) * len(given.workers.split(',')):2} runs a tree: ", end="")
            print("same bits" if len(seen) == 1 else f"{len(seen)} results: {sorted(seen)}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["--make"]:
        make(Path(sys.argv[2]), sys.argv[3] == "1")
    else:
        sys.exit(main())
