-- Ready, running and dead jobs by type; ready ones include those that are not due yet.
-- Plan: three index-only scans of the partial indexes; `done` rows are not touched.
SELECT type,
       count(*) FILTER (WHERE status = 'ready') AS ready,
       count(*) FILTER (WHERE status = 'running') AS running,
       count(*) FILTER (WHERE status IN ('failed', 'dead')) AS dead
  FROM (SELECT type, status FROM skipjack.job WHERE status = 'ready'
         UNION ALL SELECT type, status FROM skipjack.job WHERE status = 'running'
         UNION ALL SELECT type, status FROM skipjack.job WHERE status IN ('failed', 'dead')) AS counted
 GROUP BY type
 ORDER BY type
