-- Expired leases, in one statement that rechecks locked_until: a job that is finished or renewed between a look and a
-- write is never touched.
-- A lease that ran out before the server started, or while this reaper had no database, is nobody's fault: returned. Any
-- other cannot be told apart from a job that kills its host: lost, and charged. All times are the database's: `last` is when
-- the reaper's last look took place (null: never), outage_from .. outage_until an outage that it knows of.
-- `only`: this job alone.
-- Plan: Index Scan on job_running (all running rows, few), then job_pkey. `id + 0` keeps the order from being had by a walk
-- over all of job_pkey; `status` is left out of the write for the reason given in settle_and_claim.sql.
WITH expired AS (
    SELECT j.id, j.locked_by,
           CASE WHEN j.locked_until < pg_postmaster_start_time() THEN 'returned'
                WHEN j.locked_until BETWEEN %(outage_from)s::timestamptz AND %(outage_until)s::timestamptz THEN 'returned'
                -- this very statement may have waited on a line that stood still
                WHEN %(last)s::timestamptz < now() - make_interval(secs => %(gap)s) AND j.locked_until > %(last)s::timestamptz THEN 'returned'
                -- one of several claimed together: nobody knows which of them ran
                WHEN EXISTS (SELECT FROM skipjack.job AS o
                              WHERE o.status = 'running' AND o.locked_by = j.locked_by AND o.id <> j.id) THEN 'shared'
                ELSE 'lost' END AS outcome,
           coalesce(extract(epoch FROM t.backoff_base), 2)::double precision AS base,
           coalesce(extract(epoch FROM t.backoff_cap), 3600)::double precision AS cap,
           random() AS jitter
      FROM skipjack.job AS j
      LEFT JOIN skipjack.job_type AS t ON t.type = j.type
     WHERE j.status = 'running' AND j.locked_until < now() AND (%(only)s::bigint IS NULL OR j.id = %(only)s::bigint)
       -- whole claims: of one that is reaped in two turns the last job would seem to have been alone
       AND j.locked_by = ANY (ARRAY(
               SELECT f.locked_by FROM skipjack.job AS f
                WHERE f.status = 'running' AND f.locked_until < now() ORDER BY f.id + 0 LIMIT %(limit)s))
     ORDER BY j.id + 0
       FOR UPDATE OF j SKIP LOCKED
), reaped AS (
    UPDATE skipjack.job AS j
       SET (status, attempts, returns, losses, run_at, finished_at) = (
               SELECT l.* FROM skipjack.leave(e.outcome, NULL, e.jitter, e.base, e.cap, j.attempts,
                    j.max_attempts, j.returns, j.losses, j.cancel_requested, j.run_at) AS l),
           last_error = format('lease expired: %%s did not renew it', j.locked_by),
           locked_by = NULL,
           locked_until = NULL
      FROM expired AS e
     WHERE j.id = ANY (ARRAY[e.id]) AND j.locked_by = e.locked_by AND j.locked_until < now()
    RETURNING j.id, j.type, e.locked_by, e.outcome, j.status, j.attempts
)
SELECT now(), r.* FROM (SELECT) AS always LEFT JOIN reaped AS r ON true
