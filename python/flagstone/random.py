"""Random numbers by place: the same ones whatever the chunks, the limit and the workers."""

from ._random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]
