"""How many examples hypothesis draws: one factor for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: `make test` draws a quarter of what a test names; `make test-all` all of it (FLAGSTONE_TEST_EXAMPLES=1).
FACTOR = float(os.environ.get("FLAGSTONE_TEST_EXAMPLES", "0.25"))


def examples(full: int, *suppressed: HealthCheck) -> settings:
    """`@examples(60)`: the settings of a test. There is no deadline, since machines are shared."""
    drawn = max(1, round(full * FACTOR))
    return settings(max_examples=drawn, deadline=None, suppress_health_check=suppressed)
