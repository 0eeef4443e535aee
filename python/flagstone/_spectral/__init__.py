"""Eigenpairs and singular triplets of matrices that are larger than memory, and of operators."""
