-- Ready, running and dead jobs by type; ready ones include those that are not due yet.
-- Plan: Index Only Scans of job_ready and job_dead in their order, which needs no Sort, and an Index Scan of job_running
-- (few rows); `done` rows are not touched.
SELECT type, sum(ready)::bigint AS ready, sum(running)::bigint AS running, sum(dead)::bigint AS dead
  FROM (SELECT type, count(*), 0, 0 FROM skipjack.job WHERE status = 'ready' GROUP BY type
         UNION ALL SELECT type, 0, count(*), 0 FROM skipjack.job WHERE status = 'running' GROUP BY type
         UNION ALL SELECT type, 0, 0, count(*) FROM skipjack.job WHERE status IN ('failed', 'dead') GROUP BY type)
       AS counted (type, ready, running, dead)
 GROUP BY type
 ORDER BY type
