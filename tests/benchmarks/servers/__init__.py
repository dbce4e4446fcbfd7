"""Time of recalls and writes on the three servers, with many users' data in them."""
