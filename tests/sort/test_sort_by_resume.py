"""Killed sorts of several arrays go on from any of their outputs, at the same bits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from tests.support.error_sentences import fails
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


@pytest.mark.parametrize(
    ("outs", "named", "memory"),
    [
        (["'a.zarr'", "None"], "a.zarr", "170MiB"),
        (["fl.sort(fl.open('a.npy'))", "'b.zarr'"], "b.zarr", "200MiB"),
    ],
    ids=["None", "a result in scratch first"],
)
def test_scratch_and_memory_beside_a_path(process, tmp_path, columns, outs, named, memory):
    """What goes with its process keeps no record, whichever of them it is."""
    code = _SORT.format(outs=f'[{", ".join(outs)}, np.empty({ROWS}, "i8")]')
    whole = process(code, memory=memory)
    fl.delete(tmp_path / named)
    process(code, kill=int(whole["saves"] * 0.5), memory=memory)
    refused = process(
        f'try:\n    fl.resume("{named}")\nexcept fl.Error as error:\n    result = str(error)', memory=memory
    )
    assert "out 2 was an array in memory; make the same call again" in refused
    again = process(code, memory=memory)
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


_HANDLES = 'given = [fl.open(f"{name}.zarr", mode="r+") for name in "abc"]\nfl.sort_by(given, out=given)\n'
_PATHS = 'fl.sort_by([fl.open(f"{name}.zarr") for name in "abc"], out=[f"{name}.zarr" for name in "abc"])\n'
_LAZY = """
a, b, c = given = [fl.open(f"{name}.zarr", mode="r+") for name in "abc"]
fl.sort_by([a + a.dtype.type(0), b * 1.0, c], out=given)
"""


@pytest.fixture
def killed(isolated, tmp_path, rng):
    """Three arrays, of which a killed call exchanged so many; what they hold then, before and after."""

    def kill(exchanged, call=_HANDLES):
        keys = rng.integers(0, 50, 3000).astype("i4")
        given = [keys, np.arange(3000.0), rng.random(3000).astype("f4")]
        for name, one in zip("abc", given, strict=True):
            fl.from_numpy(one, tmp_path / f"{name}.zarr")
            shutil.copytree(tmp_path / f"{name}.zarr", tmp_path / f"backup-{name}.zarr")
        died = isolated(f"left = {exchanged}\n" + _OVER.replace(_HANDLES, call), check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
        order = np.argsort(keys, kind="stable")
        return given, [one[order] for one in given]

    return kill


def held(tmp_path):
    return [np.asarray(fl.open(tmp_path / place)) for place in OUTS]


def same(found, wanted):
    return all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def again(tmp_path, **options):
    given = [fl.open(tmp_path / place, mode="r+") for place in OUTS]
    fl.sort_by(given, out=given, **options)


def bring_back(tmp_path, name):
    """With files of their own: the number of a directory that is removed may be given to the next one."""
    os.rename(tmp_path / f"{name}.zarr", tmp_path / f"away-{name}.zarr")
    shutil.copytree(tmp_path / f"backup-{name}.zarr", tmp_path / f"{name}.zarr")


@pytest.mark.parametrize("call", [_HANDLES, _PATHS])
def test_what_was_written_after_the_kill_is_not_replaced(killed, tmp_path, call):
    """Nothing was exchanged; the keys are others now."""
    given, _ = killed(0, call)
    given[0] = np.full(3000, 777, "i4")
    given[0][1000:] = 7
    array = fl.open(tmp_path / "a.zarr", mode="r+")
    array[...] = given[0]
    array.flush()
    with fails(
        fl.FormatError, r"resume: '.*a\.zarr.*' changed since, and what was built is of the old version"
    ):
        fl.resume(tmp_path / "b.zarr")
    assert same(held(tmp_path), given)
    order = np.argsort(given[0], kind="stable")
    with pytest.warns(fl.LeftoverWarning, match="a killed sort_by had built is thrown away"):
        again(tmp_path)
    assert same(held(tmp_path), [one[order] for one in given])
    assert not any(left_at(tmp_path / place / "array") + left_at(tmp_path / place) for place in OUTS)


def test_other_options_are_another_call_until_a_name_is_exchanged(killed, tmp_path):
    given, _ = killed(0)
    order = np.argsort(-given[0], kind="stable")
    with pytest.warns(fl.LeftoverWarning, match="thrown away"):
        again(tmp_path, descending=True)
    assert same(held(tmp_path), [one[order] for one in given])


def test_an_array_that_was_brought_back_is_sorted_with_the_others(killed, tmp_path):
    given, ordered = killed(1)
    assert same(held(tmp_path)[1:2], ordered[1:2])
    bring_back(tmp_path, "b")
    with fails(fl.FormatError, r"resume: '.*b\.zarr.*' changed since"):
        fl.resume(tmp_path / "a.zarr")
    assert same(held(tmp_path), given)
    with pytest.warns(fl.LeftoverWarning, match="thrown away"):
        again(tmp_path)
    assert same(held(tmp_path), ordered)


@pytest.mark.parametrize("name", ["a", "b"])
def test_torn_rows_are_not_sorted(killed, tmp_path, name):
    """The second was exchanged, and one, of this side or the other, was written to."""
    killed(1)
    array = fl.open(tmp_path / f"{name}.zarr", mode="r+")
    array[:10] = 5
    array.flush()
    before = held(tmp_path)
    with fails(fl.FormatError, rf"sort_by: a killed call had exchanged .*{name}\.zarr.* changed since"):
        again(tmp_path)
    with fails(fl.FormatError, rf"resume: '.*{name}\.zarr.*' changed since"):
        fl.resume(tmp_path / "a.zarr")
    assert same(held(tmp_path), before)
    (left,) = [one for one in left_at(tmp_path / "a.zarr" / "array") if one.record]
    shutil.rmtree(left.build)  # as the sentence says
    with pytest.warns(fl.LeftoverWarning, match="thrown away"):
        again(tmp_path)
    assert (np.diff(held(tmp_path)[0]) >= 0).all()


@pytest.mark.parametrize(("published", "call"), [(1, _PATHS), (3, _LAZY)])
def test_places_of_operands_by_any_name(killed, tmp_path, published, call):
    """Groups by their paths, and what lazy operands are computed from: two of them go to scratch first."""
    given, ordered = killed(published, call)
    assert same(held(tmp_path), [given[0], ordered[1], given[2]])
    with fails(fl.Error, "killed while its results appeared is finished now"):
        again(tmp_path)  # handles, where the killed call may have named groups
    assert same(held(tmp_path), ordered)


def test_a_damaged_note_is_none(killed, tmp_path):
    _, ordered = killed(0)
    (left,) = left_at(tmp_path / "a.zarr" / "array")
    state = Path(left.notes) / "state"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.warns(fl.LeftoverWarning):
        again(tmp_path)
    assert same(held(tmp_path), ordered)


def test_the_command_finishes_renames(killed, tmp_path):
    _, ordered = killed(2)
    command = os.path.join(os.path.dirname(sys.executable), "flagstone")
    done = subprocess.run(
        [command, "resume", "a.zarr", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stats"]["what"] == "3 outputs, exchanged"
    assert same(held(tmp_path), ordered)
