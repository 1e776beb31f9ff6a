-- Gives back what a dead worker, or a claim whose reply was lost, still holds.
-- Each release names a range of tokens: [low, high) is every claim of an incarnation, or exactly one claim.
-- Only the job that ran, by its exact (id, token), gets the outcome given; the others were claimed and never started.
-- A row that somebody else has locked is not waited for, else it would hold up all the others: it comes back as `running`,
-- to be looked at again.
-- Plan: for each release a range of job_running (locked_by sorts bytewise), then job_pkey. LATERAL with FOR UPDATE, and
-- OFFSET 0, keep the planner from turning the range into a filter over the whole index.
WITH releases AS (
    SELECT * FROM jsonb_to_recordset(%(releases)s::jsonb)
        AS r (low text, high text, id bigint, token text, outcome text, cause text, delay double precision)
), held AS (
    SELECT j.id, r.low,
           CASE WHEN j.id = r.id AND j.locked_by = r.token THEN r.outcome ELSE 'unstarted' END AS outcome,
           CASE WHEN j.id = r.id AND j.locked_by = r.token THEN r.cause END AS cause,
           CASE WHEN j.id = r.id AND j.locked_by = r.token THEN r.delay END AS delay,
           coalesce(extract(epoch FROM t.backoff_base), 2)::double precision AS base,
           coalesce(extract(epoch FROM t.backoff_cap), 3600)::double precision AS cap,
           random() AS jitter
      FROM releases AS r
     CROSS JOIN LATERAL (
           SELECT j.id, j.type, j.locked_by
             FROM skipjack.job AS j
            WHERE j.status = 'running' AND j.locked_by >= r.low AND j.locked_by < r.high
              FOR UPDATE SKIP LOCKED) AS j
      LEFT JOIN skipjack.job_type AS t ON t.type = j.type
), released AS (
    UPDATE skipjack.job AS j
       SET (status, attempts, returns, losses, run_at, finished_at) = (
               SELECT l.* FROM skipjack.leave(h.outcome, h.delay, h.jitter, h.base, h.cap, j.attempts,
                    j.max_attempts, j.returns, j.losses, j.cancel_requested, j.run_at) AS l),
           last_error = coalesce(h.cause, j.last_error),
           locked_by = NULL,
           locked_until = NULL
      FROM held AS h
     WHERE j.id = ANY (ARRAY[h.id])
 RETURNING j.id, j.type, h.outcome, j.status, h.low, j.attempts
)
SELECT id, type, outcome, status, low, attempts FROM released
 UNION ALL
SELECT j.id, j.type, NULL, j.status, r.low, NULL
  FROM releases AS r
 CROSS JOIN LATERAL (
       SELECT j.id, j.type, j.status
         FROM skipjack.job AS j
        WHERE j.status = 'running' AND j.locked_by >= r.low AND j.locked_by < r.high
       OFFSET 0) AS j
 WHERE j.id NOT IN (SELECT id FROM held)
