-- Attempts at a job that did not end well, the first one first. Plan: attempt_job.
SELECT attempt, outcome, started_at, ended_at, extract(epoch FROM ended_at - started_at)::double precision AS seconds, worker, error
  FROM skipjack.attempt
 WHERE job_id = %(id)s
 ORDER BY ended_at, attempt
