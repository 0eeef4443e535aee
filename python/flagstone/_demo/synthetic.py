"""A cells-like sparse matrix with structure to find, made by row blocks as fast as a disk takes it.

Counts are negative binomial. They are not drawn entry by entry (95 % would be zeros) but as the compound
Poisson distribution that a negative binomial is: a cell has Poisson-many bursts, each falls on a gene with
the probability of the cell's type and has a logarithmic-series size; the bursts of one gene add up to its
count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "Cells", "inverse"]

_BITS = 16  # of the tables that turn random bits into burst sizes
_LINEAGES = 3  # types of one lineage share markers
_BURST = 0.6  # parameter of the logarithmic series: mean size 1.64

Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]


@dataclass(frozen=True)
class Cells:
    """Cells by genes: `types` kinds of cells in three lineages, with marker genes of their own.

    Library sizes vary. The same fields give the same matrix, whatever was made before.

    Attributes
    ----------
    cells, genes, types : int
        Rows, columns, planted kinds of cells.
    density : float
        Share of stored values, nearly.
    seed : int
        Of everything random.
    dtype : str
        Of the values.
    rows : int
        Rows of one block.
    """

    cells: int
    genes: int = 5000
    types: int = 12
    density: float = 0.056
    seed: int = 0
    dtype: str = "float32"
    rows: int = 2048

    @property
    def nnz(self) -> int:
        """Stored values, nearly."""
        return int(self.cells * self.genes * self.density)

    def profiles(self) -> NDArray[np.float64]:
        """Return the share of every gene in every type (types x genes)."""
        rng = np.random.default_rng([self.seed, 1])
        shares = np.tile(rng.lognormal(0.0, 0.8, self.genes), (self.types, 1))
        of_lineage, of_type = max(1, self.genes * 6 // 100), max(1, self.genes // 20)
        for lineage in range(_LINEAGES):
            chosen = rng.choice(self.genes, of_lineage, replace=False)
            shares[lineage::_LINEAGES, chosen] *= rng.uniform(3.0, 6.0, of_lineage)
        for one in shares:
            chosen = rng.choice(self.genes, of_type, replace=False)
            one[chosen] *= rng.uniform(4.0, 10.0, of_type)
        profiles: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return profiles

    def labels(self) -> NDArray[np.uint8]:
        """Return the planted type of every cell."""
        parts = [self._types(b, self._length(b)) for b in range(self._blocks)]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint8)

    def blocks(self) -> Iterator[Block]:
        """Yield row blocks as (indptr, indices, data); columns are sorted, none is stored twice."""
        profiles = self.profiles()
        gene_bits = min(22, max(16, math.ceil(math.log2(self.genes)) + 3))
        narrow = np.uint16 if self.genes <= 1 << 16 else np.uint32
        genes = np.concatenate([inverse(one, gene_bits) for one in profiles]).astype(narrow)
        orders = np.arange(1, 200)
        sizes = (1 + inverse(_BURST**orders / orders, _BITS)).astype(np.uint8)
        bursts = self._bursts(profiles)
        for b in range(self._blocks):
            yield self._block(b, genes, gene_bits, sizes, bursts)

    @property
    def _blocks(self) -> int:
        return -(-self.cells // self.rows)

    def _length(self, b: int) -> int:
        return min(self.rows, self.cells - b * self.rows)

    def _types(self, b: int, length: int) -> NDArray[np.uint8]:
        return np.random.default_rng([self.seed, 2, b]).integers(0, self.types, length, dtype=np.uint8)

    def _bursts(self, shares: NDArray[np.float64]) -> float:
        """Return the bursts a cell that give the density: Σ (1 - exp(-λ p)) = density · genes."""
        low, high = 0.0, 1e3 * self.genes
        for _ in range(80):
            middle = (low + high) / 2
            if -np.expm1(-middle * shares).mean() < self.density:
                low = middle
            else:
                high = middle
        return high

    def _block(
        self, b: int, genes: NDArray[Any], gene_bits: int, sizes: NDArray[np.uint8], bursts: float
    ) -> Block:
        rng = np.random.default_rng([self.seed, 3, b])
        length = self._length(b)
        library = rng.lognormal(-0.5 * 0.2**2, 0.2, length)
        number = rng.poisson(bursts * library)
        row = np.repeat(np.arange(length, dtype=np.uint32), number)
        table = self._types(b, length).astype(np.uint32) << np.uint32(gene_bits)
        draw = np.uint16 if gene_bits == 16 else np.uint32
        gene = rng.integers(0, 1 << gene_bits, len(row), dtype=draw)
        gene = np.take(genes, np.take(table, row) + gene)
        wide: Any = np.uint32 if length * self.genes < 1 << 32 else np.uint64
        key: Any = np.sort(row.astype(wide) * wide(self.genes) + gene)
        # Sizes do not depend on the place, so they may be drawn after sorting.
        size = np.take(sizes, rng.integers(0, 1 << _BITS, len(key), dtype=np.uint16))
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else key.astype(int)
        data = np.add.reduceat(size, first, dtype=self.dtype) if len(key) else size.astype(self.dtype)
        key = key[first]
        pointers = np.searchsorted(key, np.arange(length + 1, dtype=wide) * wide(self.genes)).astype(np.int64)
        at = np.repeat(np.arange(length, dtype=wide) * wide(self.genes), np.diff(pointers))
        return pointers, (key - at).astype(np.int32), data


# Afterwards: a dataclass looks its module up, and nobody has imported the face when the demonstration starts.
Cells.__module__ = "flagstone.datasets"


def inverse(weights: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Return the table of 2^bits outcomes, equally likely, whose shares are the weights."""
    steps = (np.arange(1 << bits) + 0.5) / (1 << bits)
    return np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), steps), len(weights) - 1)
