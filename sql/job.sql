-- All that is known of one job.
SELECT id, type, status, attempts, max_attempts, idempotency_key, payload::text, run_at, created_at, started_at, finished_at,
       locked_by, locked_until, cancel_requested, returns, losses, last_error
  FROM skipjack.job
 WHERE id = %(id)s
