-- Schedules with a slot that is due, by the database's clock, locked for this tick. Another scheduler's are skipped.
-- Plan: Index Scan on schedule_due, stopping at the limit.
SELECT s.id, now() AS now, s.job_type, s.cron, extract(epoch FROM s.every)::double precision, s.timezone,
       s.catch_up, extract(epoch FROM s.catch_up_window)::double precision, extract(epoch FROM s.spread)::double precision,
       s.next_run_at, s.last_slot,
       s.overlap = 'skip' AND EXISTS (
           SELECT 1 FROM skipjack.job AS j WHERE j.id = s.last_job_id AND j.status IN ('ready', 'running')) AS busy,
       s.overlap = 'skip' AS one_at_a_time
  FROM skipjack.schedule AS s
 WHERE s.enabled AND s.paused_at IS NULL AND s.error IS NULL AND s.next_run_at <= now()
 ORDER BY s.next_run_at
 LIMIT %(limit)s
   FOR UPDATE OF s SKIP LOCKED
