-- One row a type: jobs that can run now, that wait for their time, that run, that failed or died; of those that wait, how
-- many for another attempt; age of the oldest that could run; whether it is paused, and whether any supervisor has
-- announced a pool for it.
-- Plan: Index Only Scans of job_ready and job_retry, Index Scans of job_running and job_dead, each in its order; `done`
-- rows are not touched.
SELECT type,
       sum(due)::bigint AS due, sum(later)::bigint AS later, sum(retries)::bigint AS retries,
       sum(running)::bigint AS running, sum(failed)::bigint AS failed, sum(dead)::bigint AS dead,
       extract(epoch FROM now() - min(oldest))::double precision AS oldest_seconds,
       bool_or(paused) AS paused, bool_or(served) AS served
  FROM (SELECT type, count(*) FILTER (WHERE run_at <= now()), count(*) FILTER (WHERE run_at > now()), 0, 0, 0, 0,
               min(run_at) FILTER (WHERE run_at <= now()), false, false
          FROM skipjack.job WHERE status = 'ready' GROUP BY type
         UNION ALL
        SELECT type, 0, 0, count(*), 0, 0, 0, NULL, false, false
          FROM skipjack.job WHERE status = 'ready' AND attempts > 0 GROUP BY type
         UNION ALL
        SELECT type, 0, 0, 0, count(*), 0, 0, NULL, false, false
          FROM skipjack.job WHERE status = 'running' GROUP BY type
         UNION ALL
        SELECT type, 0, 0, 0, 0, count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'dead'),
               NULL, false, false
          FROM skipjack.job WHERE status IN ('failed', 'dead') GROUP BY type
         UNION ALL
        SELECT type, 0, 0, 0, 0, 0, 0, NULL, true, false FROM skipjack.paused_type
         UNION ALL
        SELECT type, 0, 0, 0, 0, 0, 0, NULL, false, true FROM skipjack.job_type)
       AS counted (type, due, later, retries, running, failed, dead, oldest, paused, served)
 GROUP BY type
 ORDER BY type
