-- Every attempt at a job, the first one first: those that did not end well, and the one that runs or was done. Plan: attempt_job,
-- job_pkey.
SELECT attempt, outcome, started_at, ended_at, extract(epoch FROM ended_at - started_at)::double precision AS seconds, worker, error
  FROM (SELECT attempt, outcome, started_at, ended_at, worker, error FROM skipjack.attempt WHERE job_id = %(id)s
         UNION ALL
        SELECT attempts, status, started_at, finished_at, locked_by, NULL FROM skipjack.job
         WHERE id = %(id)s AND status IN ('running', 'done')) AS a
 ORDER BY ended_at, attempt
