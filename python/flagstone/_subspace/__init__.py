"""Projections of symmetric matrices on block-diagonal bases."""
