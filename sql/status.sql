-- One row a type: jobs that can run now, that wait for their time, that run, that failed or died; age of the oldest that
-- could run; whether any supervisor has announced a pool for it.
-- Plan: three index-only scans of the partial indexes; `done` rows are not touched.
SELECT coalesce(c.type, t.type) AS type,
       coalesce(c.due, 0) AS due, coalesce(c.later, 0) AS later, coalesce(c.running, 0) AS running,
       coalesce(c.failed, 0) AS failed, coalesce(c.dead, 0) AS dead,
       extract(epoch FROM now() - c.oldest)::double precision AS oldest_seconds,
       t.type IS NOT NULL AS served
  FROM (SELECT type,
               count(*) FILTER (WHERE status = 'ready' AND run_at <= now()) AS due,
               count(*) FILTER (WHERE status = 'ready' AND run_at > now()) AS later,
               count(*) FILTER (WHERE status = 'running') AS running,
               count(*) FILTER (WHERE status = 'failed') AS failed,
               count(*) FILTER (WHERE status = 'dead') AS dead,
               min(run_at) FILTER (WHERE status = 'ready' AND run_at <= now()) AS oldest
          FROM (SELECT type, status, run_at FROM skipjack.job WHERE status = 'ready'
                 UNION ALL SELECT type, status, run_at FROM skipjack.job WHERE status = 'running'
                 UNION ALL SELECT type, status, run_at FROM skipjack.job WHERE status IN ('failed', 'dead')) AS counted
         GROUP BY type) AS c
  FULL JOIN skipjack.job_type AS t ON t.type = c.type
 ORDER BY 1
