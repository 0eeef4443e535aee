"""What the tests of the crash harness share."""

from __future__ import annotations

import pytest

from tests.durability.harness import file_steps


@pytest.fixture(scope="session")
def with_steps(tmp_path_factory) -> dict[str, str]:
    """The environment of the harness's programs: the interposer is built once, not by each of them."""
    environment = file_steps.environment(tmp_path_factory.mktemp("steps"))
    if environment is None:
        pytest.skip("file_steps: a C++ compiler is needed")
    return environment
