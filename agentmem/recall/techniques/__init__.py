"""One file per way to recall, found by its place: see `agentmem.recall.technique`."""
