"""The weights of all-MiniLM-L6-v2 for agentmem, in the folder `model`."""
