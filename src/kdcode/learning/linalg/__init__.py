"""Numerical parts of learning: k-means, principal directions, least squares, sums by label."""
