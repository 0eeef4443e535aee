"""Checks of scikit-learn that a class does not pass, and why; at most three a class."""

EXCUSED: dict[str, dict[str, str]] = {}
