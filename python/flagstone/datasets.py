"""Data to try things on, made by blocks as fast as a disk takes it."""

from ._demo.synthetic import Cells

__all__ = ["Cells"]
