"""Killed sorts of several arrays go on from any of their outputs, at the same bits."""

from __future__ import annotations

import shutil
import signal

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

ROWS = 2_000_000  # 16 bytes each: three runs under the limit
OUTS = ("a.zarr", "b.zarr", "c.zarr")

_SORT = """
outs = {outs}
made = fl.sort_by([fl.open(f"{{name}}.npy") for name in "abc"], 2, descending=True, out=outs, memory=memory)
told_again = told()
digests = [hashlib.blake2b(np.asarray(one).tobytes()).hexdigest() for one in made]
result = told_again | {{"digests": digests, "saves": len(saves)}}
"""
_RESUME = """
made = fl.resume({place!r}, memory=memory)
told_again = told()
digests = [hashlib.blake2b(np.asarray(one).tobytes()).hexdigest() for one in made]
result = told_again | {{"digests": digests}}
"""


@pytest.fixture
def columns(tmp_path, rng):
    """Two keys with many ties, and a value that tells whether the sort was stable."""
    a = rng.integers(0, 1000, ROWS).astype("i4")
    b = rng.integers(0, 50, ROWS).astype("f4")
    b[::13] = np.nan
    c = np.arange(ROWS, dtype="i8")
    for name, one in zip("abc", (a, b, c), strict=True):
        np.save(tmp_path / f"{name}.npy", one)
    order = np.lexsort((c, -b, np.isnan(b), -a))
    return [one[order] for one in (a, b, c)]


def there(tmp_path, outs, columns):
    for place, one in zip(outs, columns, strict=True):
        np.testing.assert_array_equal(np.asarray(fl.open(tmp_path / place)), one)
        assert not left_at(tmp_path / place)


@pytest.mark.parametrize(
    ("share", "place", "then"), [(0.3, 0, "150MiB"), (0.6, 1, "1GiB"), (0.9, 2, "140MiB")]
)
def test_goes_on_from_any_output(process, tmp_path, columns, share, place, then):
    code = _SORT.format(outs=list(OUTS))
    whole = process(code, memory="130MiB")
    assert whole["saves"] > 4
    for one in OUTS:
        fl.delete(tmp_path / one)
    process(code, kill=max(2, int(whole["saves"] * share)), memory="130MiB")
    left = [left_at(tmp_path / one) for one in OUTS]
    assert [len(found) for found in left] == [1, 1, 1]
    assert len({found[0].done for found in left}) == 1
    assert 0 < left[0][0].done < 1
    again = process(_RESUME.format(place=OUTS[place]), memory=then)
    assert again["what"].count("resumed") == 1
    assert again["digests"] == whole["digests"]
    assert again["read"] < (1.0 if share < 0.5 else 0.8) * whole["read"]
    there(tmp_path, OUTS, columns)


def test_a_new_output_beside_old_ones_is_written_whole(process, tmp_path, columns):
    """One was published, or lost, before: flat files do not say what of them is written."""
    outs = ["a.npy.out.npy", "b.zarr", "c.npy.out.npy"]
    code = _SORT.format(outs=outs)
    whole = process(code, memory="130MiB")
    for one in outs:
        (fl.delete if one.endswith("zarr") else lambda path: path.unlink())(tmp_path / one)
    process(code, kill=int(whole["saves"] * 0.9), memory="130MiB")
    (left,) = left_at(tmp_path / outs[2])
    shutil.rmtree(left.notes)
    again = process(code, memory="130MiB")
    assert "resumed" in again["what"]
    assert again["digests"] == whole["digests"]
    there(tmp_path, outs, columns)


def test_scratch_and_memory_beside_a_path(process, tmp_path, columns):
    code = _SORT.format(outs=f'["a.zarr", None, np.empty({ROWS}, "i8")]')
    whole = process(code, memory="170MiB")
    fl.delete(tmp_path / "a.zarr")
    process(code, kill=int(whole["saves"] * 0.5), memory="170MiB")
    refused = process(
        'try:\n    fl.resume("a.zarr")\nexcept fl.Error as error:\n    result = str(error)', memory="170MiB"
    )
    assert "out 2 was an array in memory; make the same call again" in refused
    again = process(code, memory="170MiB")
    assert "resumed" in again["what"]
    assert again["digests"] == whole["digests"]


def test_other_arguments_are_another_call(process, tmp_path, columns):
    code = _SORT.format(outs=list(OUTS))
    process(code, kill=3, memory="130MiB")
    ignored = 'warnings.simplefilter("ignore", fl.LeftoverWarning)\n'
    other = process(ignored + code.replace("descending=True", "descending=False"), memory="130MiB")
    assert "resumed" not in other["what"]
    assert not any(left_at(tmp_path / one) for one in OUTS)


def test_outputs_that_are_the_operands_are_exchanged(process, tmp_path, columns):
    for name in "abc":
        fl.from_numpy(np.load(tmp_path / f"{name}.npy"), tmp_path / f"{name}.zarr", chunks=(1 << 17,))
    code = _SORT.replace('fl.open(f"{{name}}.npy")', 'fl.open(f"{{name}}.zarr", mode="r+")')
    code = code.replace("made = fl.sort_by([", "given = [")
    code = code.replace('for name in "abc"], 2', 'for name in "abc"]\nmade = fl.sort_by(given, 2')
    code = code.format(outs="None").replace("out=outs", "out=given")
    process(code, kill=6, memory="130MiB")
    again = process(_RESUME.format(place="b.zarr"), memory="150MiB")
    assert "resumed" in again["what"]
    there(tmp_path, OUTS, columns)


_OVER = """
import os, signal
from flagstone._output.destination import Destination
from flagstone._output.together import Together
publish, published = Destination.publish, []
def some(self):
    if len(published) == left:
        os.kill(os.getpid(), signal.SIGKILL)
    published.append(self)
    return publish(self)
Destination.publish = some
given = [fl.open(f"{name}.zarr", mode="r+") for name in "abc"]
fl.sort_by(given, out=given)
"""
_AGAIN = """
given = [fl.open(f"{name}.zarr", mode="r+") for name in "abc"]
try:
    fl.sort_by(given, out=given)
    result = "sorted"
except fl.Error as error:
    result = str(error)
"""


@pytest.mark.parametrize(("exchanged", "how"), [(0, "resume"), (1, "call"), (2, "resume")])
def test_a_kill_between_renames_of_operands_loses_nothing(isolated, tmp_path, rng, exchanged, how):
    """However short the call is."""
    keys = rng.integers(0, 50, 3000).astype("i4")
    given = [keys, np.arange(3000.0), rng.random(3000).astype("f4")]
    for name, one in zip("abc", given, strict=True):
        fl.from_numpy(one, tmp_path / f"{name}.zarr")
    order = np.argsort(keys, kind="stable")
    died = isolated(f"left = {exchanged}\n" + _OVER, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    left = [any(one.record for one in left_at(tmp_path / place / "array")) for place in OUTS]
    assert left == [True, exchanged < 1, exchanged < 2]  # the note goes with the first, which comes last
    for name, one, there_yet in zip("abc", given, left, strict=True):
        wanted = one if there_yet else one[order]
        np.testing.assert_array_equal(np.asarray(fl.open(tmp_path / f"{name}.zarr")), wanted)
    if how == "resume":
        place = OUTS[left.index(True) if exchanged else 2]
        assert len(isolated(f"result = [one.path for one in fl.resume({place!r})]")) == 3
    else:
        assert "killed while its results appeared is finished now" in isolated(_AGAIN)
        assert isolated(_AGAIN) == "sorted"
    there(tmp_path, OUTS, [one[order] for one in given])
    assert not any(left_at(tmp_path / place / "array") for place in OUTS)
