"""What the backends that keep vectors share: planes of int8, a user's matrix in memory, and searches in it; no I/O."""
