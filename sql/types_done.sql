-- Every type that has done or dead jobs, and how long its done jobs are kept where a supervisor has announced it.
-- Plan: a descent into job_done and job_dead for each type (a loose index scan), however many rows each has.
WITH RECURSIVE done AS (
    (SELECT type FROM skipjack.job WHERE status = 'done' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT j.type FROM skipjack.job AS j WHERE j.status = 'done' AND j.type > d.type ORDER BY j.type LIMIT 1)
      FROM done AS d WHERE d.type IS NOT NULL
), dead AS (
    (SELECT type FROM skipjack.job WHERE status IN ('failed', 'dead') ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT j.type FROM skipjack.job AS j WHERE j.status IN ('failed', 'dead') AND j.type > d.type
             ORDER BY j.type LIMIT 1)
      FROM dead AS d WHERE d.type IS NOT NULL
)
SELECT n.type, extract(epoch FROM t.keep_done)::double precision
  FROM (SELECT type FROM done UNION SELECT type FROM dead) AS n
  LEFT JOIN skipjack.job_type AS t ON t.type = n.type
 WHERE n.type IS NOT NULL
