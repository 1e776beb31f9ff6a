-- How far running jobs say they are, the one that runs longest first. Plan: job_running (all running rows, few).
SELECT id, type, progress::double precision AS progress, progress_note AS note,
       extract(epoch FROM now() - started_at)::double precision AS seconds
  FROM skipjack.job
 WHERE status = 'running' AND progress_at >= started_at
 ORDER BY started_at
 LIMIT %(limit)s
