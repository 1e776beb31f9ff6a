-- One row a type: jobs that can run now, that wait for their time, that run, that failed or died; age of the oldest that
-- could run; whether any supervisor has announced a pool for it.
-- Plan: an Index Only Scan of job_ready, Index Scans of job_running and job_dead; `done` rows are not touched.
SELECT coalesce(c.type, t.type) AS type,
       coalesce(c.due, 0) AS due, coalesce(c.later, 0) AS later, coalesce(c.running, 0) AS running,
       coalesce(c.failed, 0) AS failed, coalesce(c.dead, 0) AS dead,
       extract(epoch FROM now() - c.oldest)::double precision AS oldest_seconds,
       t.type IS NOT NULL AS served
  FROM (SELECT type, sum(due)::bigint AS due, sum(later)::bigint AS later, sum(running)::bigint AS running,
               sum(failed)::bigint AS failed, sum(dead)::bigint AS dead, min(oldest) AS oldest
          FROM (SELECT type, count(*) FILTER (WHERE run_at <= now()), count(*) FILTER (WHERE run_at > now()), 0, 0, 0,
                       min(run_at) FILTER (WHERE run_at <= now())
                  FROM skipjack.job WHERE status = 'ready' GROUP BY type
                 UNION ALL
                SELECT type, 0, 0, count(*), 0, 0, NULL FROM skipjack.job WHERE status = 'running' GROUP BY type
                 UNION ALL
                SELECT type, 0, 0, 0, count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'dead'), NULL
                  FROM skipjack.job WHERE status IN ('failed', 'dead') GROUP BY type)
               AS counted (type, due, later, running, failed, dead, oldest)
         GROUP BY type) AS c
  FULL JOIN skipjack.job_type AS t ON t.type = c.type
 ORDER BY 1
