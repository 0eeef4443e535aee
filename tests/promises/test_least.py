"""In a process that has done nothing yet the least limit of a plan works, and so does that of a refusal.

What a first call loads late (SciPy: 15 MiB) must be there before a limit is asked for, and a lazy operand is
computed as it is read: a pass of its own would be refused for itself, after the other was let through.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

CALLS = {"product": "fl.matmul, q, q", "sddmm": "fl.sddmm, q, x, x", "sort": "fl.sort, z * 2"}
CODE = """
os.chdir(given)
x, q, z = fl.open("x.npy"), fl.open("q.zarr"), fl.open("z.npy")
function, *arguments = eval(call)
if planned:
    least = function.plan(*arguments).least_memory
else:
    try:
        function(*arguments, memory=1 << 20)
    except fl.BudgetError as error:
        least = error.least
function(*arguments, memory=least)
result = least
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("least")
    np.save(folder / "x.npy", np.ones((6000, 4)))
    np.save(folder / "z.npy", np.random.default_rng(0).random(4_000_000))
    fl.from_blocks([sp.random(6000, 6000, 0.02, "csr", random_state=1)], str(folder / "q.zarr"))
    return str(folder)


@pytest.mark.parametrize("planned", [True, False], ids=["plan", "refusal"])
@pytest.mark.parametrize("call", CALLS)
def test_the_least_works_at_once(isolated, given, call, planned):
    least = isolated(CODE, given=given, call=CALLS[call], planned=planned)
    assert least > 1 << 20
