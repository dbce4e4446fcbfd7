"""Data and rules without I/O: records, scopes, changes, time, scores."""
