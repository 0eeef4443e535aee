"""What nobody can open after a crash is not synced; what has a name is, each file after its last change."""

from __future__ import annotations

#: The call by name; `{out}` stands for where its result goes. One at least for each kind of place and writer.
TAKERS = {
    "matmul": "fl.matmul(a, a, {out})", "compute": "fl.compute(a + 1, {out})",
    "cholesky": "fl.linalg.cholesky(k, {out})", "qr": "fl.linalg.qr(a, mode='raw', {out})",
    "sort": "fl.sort(a, {out})", "pca": "fl.pca(a, 2, {out})",
    "map_blocks": "fl.map_blocks(np.sqrt, fl.from_numpy(a), {out})",
    "stencil": "fl.stencil({(0, 0): .5, (0, 1): .5}, a, 3, {out})", "knn": "fl.knn(a, None, 2, {out})",
    "sparse product": "fl.matmul(s, s, {out})", "tril": "s.tril({out})",
    "concat": "fl.sparse.concat([s, s], {out})", "sddmm": "fl.sddmm(s, a, a, {out})",
    "labels": "fl.train_labels(s, s, trees=1, max_leaf=8, {out})",
}  # fmt: skip
CODE = """
from pathlib import Path

import scipy.sparse as sp

from tests.durability.harness.file_steps import SYNC, Steps, recorded

a, k = np.random.default_rng(0).random((40, 40)), 41 * np.eye(40)
s = fl.from_blocks([sp.random(40, 40, 0.2, format="csr", random_state=0)])
steps, result = Steps(), {}
os.makedirs("results")


def steps_of(call):
    steps.watch(Path())
    steps.record(Path("log"))
    made = call()
    steps.watch(Path("nowhere"))
    return made, list(recorded(Path("log")))


def syncs(told):
    return sum(step.kind == SYNC for step in told)


def late(told, place):
    '''Files and folders of a result that were not synced after their last change.'''
    changed, synced = {}, {}
    for at, step in enumerate(told):
        (synced if step.kind == SYNC else changed).update(dict.fromkeys(step.changes, at))
    files = [place.parent, place, *(one for one in place.rglob("*") if not one.is_symlink())]
    return [str(one) for one in files if synced.get(one.stat().st_ino, -1) < changed[one.stat().st_ino]]


with fl.Runtime(memory="2GiB", workers=1, io="threads"):
    for name, call in takers.items():
        def run(out, call=call):
            return eval(call.replace("{out}", f"out={out!r}"))

        made, nameless = steps_of(lambda: run(None))
        result[name] = told = {"nameless": syncs(nameless)}
        if name == "matmul":
            told["assigned"] = syncs(steps_of(lambda: made.__setitem__(0, 1))[1])
            told["a new version"] = syncs(steps_of(lambda: fl.matmul(a, a, out=made))[1])
        # What somebody calls as this library might, in a folder of results of their own.
        place = Path(f"results/{name}-{os.getpid()}-20261128.zarr")
        named = steps_of(lambda: run(str(place)))[1]
        told["named"], told["late"] = syncs(named), late(named, place)
"""


def test_results_without_a_name_are_not_synced_and_others_are(isolated, with_steps):
    told = isolated(CODE, env=with_steps, takers=TAKERS)
    assert told.keys() == TAKERS.keys()
    assert [told["matmul"].pop(kind) for kind in ("assigned", "a new version")] == [0, 0]
    for name, counted in told.items():
        assert counted["nameless"] == 0, name
        assert counted["late"] == [], name
        assert counted["named"] > 4, name
