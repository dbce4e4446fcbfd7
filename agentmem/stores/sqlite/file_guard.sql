-- Which store a file is, and how many commits it has taken.

-- name: is_guarded
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'store_guard'

-- name: guard
SELECT store_id, commits FROM store_guard

-- name: count_commit
INSERT INTO store_guard (id, store_id, commits) SELECT 1, value, 1 FROM store_meta WHERE name = 'store_id'
ON CONFLICT (id) DO UPDATE SET commits = commits + 1 RETURNING store_id, commits
