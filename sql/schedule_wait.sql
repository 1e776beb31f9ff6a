-- In how many seconds the next slot is due; null: a schedule is to be placed; no row: there is none. The one query of an
-- idle scheduler.
-- Plan: the first entry of schedule_due.
SELECT extract(epoch FROM next_run_at - now())::double precision
  FROM skipjack.schedule
 WHERE enabled AND paused_at IS NULL AND error IS NULL
 ORDER BY next_run_at NULLS FIRST
 LIMIT 1
