"""Measures recall, latency and size of a memory, on files given by path and on made-up turns."""
