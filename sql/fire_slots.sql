-- One job a slot, with type and payload of its schedule. The key is made of schedule and slot, so that a slot that has its
-- job changes nothing.
INSERT INTO skipjack.job (type, payload, idempotency_key, run_at)
SELECT s.job_type, s.payload, f.key, f.run_at
  FROM jsonb_to_recordset(%(fires)s::jsonb) AS f (schedule bigint, key text, run_at timestamptz)
  JOIN skipjack.schedule AS s ON s.id = ANY (ARRAY[f.schedule])
    ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id, idempotency_key
