-- What is believed of each slot, as people query it; what rests on a slot that changed is worked out by the library alone.
CREATE VIEW current_beliefs WITH (security_invoker = true) AS
SELECT user_id, channel, payload ->> 'subject' AS subject, payload ->> 'slot' AS slot, payload ->> 'value' AS value,
       CASE WHEN coalesce((payload ->> 'is_denied')::boolean, false) THEN 'denied'
            WHEN moment(valid_to) <= now() THEN 'former'
            WHEN payload ->> 'temporal_context' = 'future' THEN CASE WHEN moment(valid_from) <= now() THEN 'due' ELSE 'planned' END
            WHEN moment(valid_from) > now() THEN 'planned'
            WHEN coalesce(payload ->> 'certainty', '') IN ('inferred', 'uncertain') OR coalesce(payload ->> 'source', '') = 'inferred'
                THEN 'guess'
            ELSE 'current' END AS standing,
       moment(valid_from) AS since, moment(valid_to) AS until, (payload ->> 'said_at')::timestamptz AS said_at,
       payload ->> 'claim' AS claim, id AS fact_id, coalesce(payload -> 'source_turn_ids', '[]') AS source_turn_ids
FROM current_records
WHERE kind = 'Fact' AND coalesce(payload ->> 'slot', '') <> '' AND superseded_at IS NULL
  AND status NOT IN ('forgotten', 'archived');

DO $$
DECLARE
    reader TEXT;
BEGIN
    FOR reader IN SELECT rolname FROM pg_roles WHERE rolname IN ('agentmem_app', 'agentmem_worker') LOOP
        EXECUTE format('GRANT SELECT ON current_beliefs TO %I', reader);
    END LOOP;
END $$;
