-- The turn that a gloss explains, or that a fact was first taken from: ranking joins them to it.
ALTER TABLE memory_records ADD COLUMN turn_id TEXT NOT NULL DEFAULT '';

UPDATE memory_records SET turn_id = coalesce((
    SELECT json_extract(v.payload, '$.source_turn_ids[0]') FROM memory_versions v
    WHERE v.user_id = memory_records.user_id AND v.slot = memory_records.slot AND v.seq = memory_records.seq), '')
WHERE kind = 'Fact';
