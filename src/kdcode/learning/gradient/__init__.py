"""Learning by gradient: the paper's Algorithm 1, an improved one, the encoder network, and exact refinement."""
