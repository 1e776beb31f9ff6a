-- All that is known of one job. Progress is that of the attempt that runs; an earlier one's counts for nothing.
SELECT id, type, status,
       CASE WHEN status = 'running' AND progress_at >= started_at THEN progress::double precision END AS progress,
       CASE WHEN status = 'running' AND progress_at >= started_at THEN progress_note END AS progress_note,
       attempts, max_attempts, idempotency_key, payload::text, run_at, created_at, started_at, finished_at,
       locked_by, locked_until, cancel_requested, returns, losses, last_error
  FROM skipjack.job
 WHERE id = %(id)s
