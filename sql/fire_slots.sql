-- One job a slot. The key is made of schedule and slot, so that a slot that has its job changes nothing.
INSERT INTO skipjack.job (type, payload, idempotency_key, run_at)
SELECT f.type, f.payload, f.key, f.run_at
  FROM jsonb_to_recordset(%(fires)s::jsonb) AS f (type text, payload jsonb, key text, run_at timestamptz)
    ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING id, idempotency_key
