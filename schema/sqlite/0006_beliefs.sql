-- What is believed of each slot, as people query it; what rests on a slot that changed is worked out by the library alone.
CREATE VIEW current_beliefs AS
SELECT user_id, channel, payload ->> 'subject' AS subject, payload ->> 'slot' AS slot, payload ->> 'value' AS value,
       CASE WHEN coalesce(payload ->> 'is_denied', 0) THEN 'denied'
            WHEN valid_to <= now THEN 'former'
            WHEN payload ->> 'temporal_context' = 'future' THEN iif(valid_from <= now, 'due', 'planned')
            WHEN valid_from > now THEN 'planned'
            WHEN coalesce(payload ->> 'certainty', '') IN ('inferred', 'uncertain') OR coalesce(payload ->> 'source', '') = 'inferred'
                THEN 'guess'
            ELSE 'current' END AS standing,
       strftime('%Y-%m-%dT%H:%M:%fZ', valid_from / 1000000.0, 'unixepoch') AS since,
       strftime('%Y-%m-%dT%H:%M:%fZ', valid_to / 1000000.0, 'unixepoch') AS until, payload ->> 'said_at' AS said_at,
       payload ->> 'claim' AS claim, id AS fact_id, coalesce(payload -> 'source_turn_ids', '[]') AS source_turn_ids
FROM (SELECT *, (julianday('now') - 2440587.5) * 86400000000.0 AS now FROM current_records)
WHERE kind = 'Fact' AND coalesce(payload ->> 'slot', '') <> '' AND superseded_at IS NULL
  AND status NOT IN ('forgotten', 'archived');
