"""The additive learner: codes of sums by simulated annealing, codewords by least squares, a rotation by Procrustes."""
