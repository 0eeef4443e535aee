"""Spaces of nucleons, interactions, bases of good J."""
