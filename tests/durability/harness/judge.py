"""Says whether what a killed writer left is old or new, for us and for other programs, and counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

FAULTS = ("torn", "lost", "unreadable by peers", "damaged", "unrecovered", "stuck")


class Judge:
    """Looks at what a killed writer left, and keeps the count."""

    def __init__(self, workload, place: Path, peers, every: int) -> None:
        self.workload, self.place, self.peers, self.every = workload, place, peers, every
        self.at = 0  # the state that is stored
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def fault(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.failures.append(f"{self.workload.name}: {what}")

    def found(self, what: str, candidates: range) -> int:
        try:
            state = self.workload.found(self.place, candidates)
        except Exception as error:
            self.fault("torn", f"{what}: {type(error).__name__}: {error}")
            return -1
        if state < 0:
            earlier = self.workload.found(self.place, range(max(0, candidates.start - 3), candidates.start))
            self.fault("lost" if earlier >= 0 else "torn", f"{what}: {earlier} found, {candidates} allowed")
        return state

    def look_with_peers(self, what: str, candidates: range) -> None:
        if self.counts["kills"] % self.every:
            return
        for name, peer in self.peers.items():
            if name in self.workload.slow_peers and self.counts["kills"] % (16 * self.every):
                continue
            try:
                agrees = self.workload.peers_agree(self.place, candidates, peer)
            except Exception as error:
                self.fault("unreadable by peers", f"{what}: {name}: {type(error).__name__}: {error}")
                continue
            self.counts["reads by peers"] += 1
            if not agrees:
                self.fault("torn", f"{what}: {name} reads what was never stored")

    def there(self) -> bool:
        """Say whether it can be read: between two steps it may be away until the next writer."""
        if self.workload.away(self.place):
            self.counts["away until the next writer"] += 1
            return False
        return True

    def after_kill(self, what: str, returned: int, recover) -> None:
        """Judge after a kill: commit `returned` had returned, the next one may have been under way."""
        self.counts["kills"] += 1
        candidates = range(returned, returned + 2)
        if self.there():
            before = self.found(what, candidates)
            if before < 0:
                recover()
                self.at = max(self.workload.found(self.place, range(returned + 2)), 0)
                return
            self.look_with_peers(f"{what}, before recovery", candidates)
            candidates = range(before, (returned + 1 if self.workload.advances else before) + 1)
        recover()
        self.at = self.found(f"{what}, after recovery", candidates)
        self.look_with_peers(f"{what}, after recovery", range(self.at, self.at + 1))
        if self.counts["kills"] % self.every == 0 and not self.workload.whole(self.place):
            self.fault("damaged", what)
