"""From text to what is searched: index terms, passages, features of a turn, the reading of a query, and names."""
