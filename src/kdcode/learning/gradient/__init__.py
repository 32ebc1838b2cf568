"""Learning by gradient: the paper's Algorithm 1, the encoder network, and exact refinement after either."""
