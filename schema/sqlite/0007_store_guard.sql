-- One row: which store this is, and how many commits it has taken. The file `memory.db-guard` says the same from outside.
-- Every commit writes the page of this row, so each write-ahead log of a store names the store.
CREATE TABLE store_guard (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    store_id TEXT NOT NULL,
    commits INTEGER NOT NULL
) STRICT;
