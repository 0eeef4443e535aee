"""Variables of the environment: obeyed, or refused in a sentence before any work."""

from __future__ import annotations

import pytest

ONE = """
try:
    fl.from_numpy(np.ones((4, 4)), "a.zarr")
    result = [fl.features()["workers"], fl.features()["memory_limit"], ""]
except ValueError as error:
    result = [0, 0, str(error)]
assert result[0] or not os.path.exists("a.zarr")
"""


def test_they_are_obeyed(isolated):
    workers, memory, said = isolated(ONE, env={"FLAGSTONE_WORKERS": "3", "FLAGSTONE_MEMORY": "1GiB"})
    assert (workers, memory, said) == (3, 1 << 30, "")


def test_what_the_caller_gives_goes_first(isolated):
    assert isolated(
        "with fl.Runtime(workers=2): result = fl.features()['workers']", env={"FLAGSTONE_WORKERS": "3"}
    ) == 2  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("FLAGSTONE_WORKERS", "0"), ("FLAGSTONE_WORKERS", "two"), ("FLAGSTONE_WORKERS", "1.5"),
        ("FLAGSTONE_WORKERS", "9999"), ("FLAGSTONE_MEMORY", "much"), ("FLAGSTONE_SCRATCH_QUOTA", "-1"),
        ("FLAGSTONE_CHECKPOINT_SECONDS", "x"), ("FLAGSTONE_CHECKPOINT_SECONDS", "-1"),
        ("FLAGSTONE_CHECKPOINT_SECONDS", "nan"), ("FLAGSTONE_COMPILE", "x"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(isolated, name, given):
    workers, _, said = isolated(ONE, env={name: given})
    assert workers == 0
    assert said.startswith(f"{name}: {given!r} is no ")
    assert "give " in said
    assert said.count(".") <= 1 + given.count(".")


def test_one_that_is_empty_is_not_set(isolated):
    names = ("WORKERS", "MEMORY", "SCRATCH_QUOTA", "CHECKPOINT_SECONDS")
    assert isolated(ONE, env={f"FLAGSTONE_{name}": "" for name in names})[2] == ""
