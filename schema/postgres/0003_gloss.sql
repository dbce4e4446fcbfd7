-- The turn that a gloss explains, or that a fact was first taken from: ranking joins them to it.
ALTER TABLE memory_records ADD COLUMN turn_id TEXT COLLATE "C" NOT NULL DEFAULT '';

-- Of all users: the owner of the tables, who migrates, is walled off as well.
ALTER TABLE memory_records NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_versions NO FORCE ROW LEVEL SECURITY;
UPDATE memory_records r SET turn_id = coalesce(v.payload::json #>> '{source_turn_ids,0}', '')
FROM memory_versions v
WHERE r.kind = 'Fact' AND v.user_id = r.user_id AND v.slot = r.slot AND v.seq = r.seq;
ALTER TABLE memory_records FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_versions FORCE ROW LEVEL SECURITY;
