"""Checkpoints on disks that are full, or lack exchange: what was saved is kept and gone on with."""

from __future__ import annotations

import errno

import pytest

from tests.durability.test_bad_disk import BEGIN
from tests.support.faults.bad_disk import environment


@pytest.mark.parametrize("flags", [True, False], ids=["exchange", "two-steps"])
def test_a_checkpoint_that_finds_no_room_leaves_the_one_before_it(isolated, flags):
    """The call ends with a sentence that names place and errno; the same call goes on from what was saved."""
    told_of = isolated(
        BEGIN
        + """
        import shutil, textwrap
        from flagstone._resume.leftovers import leftovers
        calls = Calls(operands, folder)
        expected = calls.rechunk()
        disk = Disk(folder)
        disk.lacks(flags=not flags)
        calls.old(False)
        disk.heal()
        calls.rechunk()
        steps, result = disk.count(), []
        for number in (errno.ENOSPC, errno.EDQUOT):
            for at in moments(steps, 6):
                for path in list(folder.iterdir()):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                calls.old(False)
                old = bits(calls.out)
                disk.heal()
                disk.fail(number, at)
                try:
                    calls.rechunk()
                except fl.StorageError as error:
                    assert error.errno == number, (at, error)
                    notes = " ".join(getattr(error, "__notes__", []))
                    left = [one for one in leftovers(str(calls.out)) if one.resumable]
                    assert bool(left) == ("is kept" in notes), (at, left, notes)
                    assert bits(calls.out) == old, at
                    result.append([number, str(error), left[0].done if left else 0])
                    if left and at % 2:
                        disk.heal()
                        fl.resume(calls.out)
                disk.heal()
                assert np.array_equal(calls.rechunk(), expected), at
                assert [name for name in told(folder) if name.startswith(".")] == [], told(folder)
        """.replace("\n        ", "\n"),
        env={**environment(), "FLAGSTONE_CHECKPOINT_SECONDS": "0"},
        flags=flags,
    )
    assert len(told_of) > 5
    assert any(done > 0 for _, _, done in told_of)  # some had saved something
    for number, text, _ in told_of:
        assert number in (errno.ENOSPC, errno.EDQUOT)
        assert "free" in text, text
        assert "\n" not in text
