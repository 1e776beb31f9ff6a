-- One statement, one commit: the outcomes of the jobs that ran, then the next claim.
--
-- Every outcome is fenced by (id, token) and found through the primary key. `AND status = 'running'` would let the
-- planner walk the dead entries of job_running instead: measured, ten times slower under an old snapshot.
-- The outcomes come first because the claim's LIMIT reads their count: as independent CTEs the two deadlock, since
-- FOR UPDATE follows update chains and briefly locks rows that other workers are finishing.
-- Plan: Nested Loop over job_pkey for the outcomes; Index Scan on job_ready (in order, stopping at the limit) for the
-- claim; job_pkey for the rows claimed. `= ANY (ARRAY ...)` in both places, because it can be looked up but not joined: as
-- joins the claim was planned with a sequential scan, and the settle, by a plan cached while the table was empty, with a
-- walk over all of job_pkey (10,800 pages for one row).
-- A paused type is looked up here, and not told to workers: once the pause is committed no claim takes another job. It costs
-- 3 % of the statement.
-- The claim begins at a floor, the last job that this worker claimed: while an old snapshot holds back the vacuum, what lies
-- below are dead entries, and each claim would walk over all of them. Rows can appear below it; see queue.py.
-- Settle only: limit 0. Claim only: no outcomes.
WITH settled AS (
    UPDATE skipjack.job AS j
       SET (status, attempts, returns, losses, run_at, finished_at) = (
               SELECT l.* FROM skipjack.leave(o.outcome, o.delay, o.jitter, %(base)s, %(cap)s, j.attempts,
                    j.max_attempts, j.returns, j.losses, j.cancel_requested, j.run_at) AS l),
           last_error = coalesce(o.error, j.last_error),
           locked_by = NULL,
           locked_until = NULL
      FROM jsonb_to_recordset(%(outcomes)s::jsonb)
           AS o (id bigint, token text, outcome text, delay double precision, jitter double precision, error text)
     WHERE j.id = ANY (ARRAY[o.id]) AND j.locked_by = o.token
 RETURNING j.id, j.status
), claimed AS (
    UPDATE skipjack.job AS j
       SET status = 'running',
           attempts = j.attempts + 1,
           max_attempts = coalesce(j.max_attempts, %(max_attempts)s::smallint),
           locked_by = %(token)s,
           locked_until = now() + make_interval(secs => %(lease)s),
           started_at = now()
     WHERE j.id = ANY (ARRAY(
               SELECT r.id
                 FROM skipjack.job AS r
                WHERE r.status = 'ready' AND r.type = %(type)s AND r.run_at <= now()
                  AND (r.run_at, r.id) >= (%(floor_at)s::timestamptz, %(floor_id)s::bigint)
                ORDER BY r.run_at, r.id
                LIMIT (SELECT CASE WHEN %(limit)s = 0 THEN 0
                                   WHEN EXISTS (SELECT FROM skipjack.paused_type AS p WHERE p.type = %(type)s) THEN 0
                                   ELSE %(limit)s::bigint + 0 * count(*) END FROM settled)
                  FOR UPDATE SKIP LOCKED))
 RETURNING j.id, j.attempts, j.losses, date_part('epoch', now() - j.run_at) AS waited,
           j.payload::text, j.idempotency_key, j.max_attempts, j.created_at, j.run_at
)
SELECT s.settled, c.*
  FROM (SELECT json_object_agg(id, status)::text AS settled FROM settled) AS s
  LEFT JOIN claimed AS c ON true
