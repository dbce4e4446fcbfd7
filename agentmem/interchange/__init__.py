"""Memory in and out of files: turns of other programs, and our own export."""
