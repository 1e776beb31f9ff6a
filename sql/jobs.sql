-- The newest jobs, by type and status if given.
SELECT id, type, status, attempts, max_attempts, run_at, started_at, finished_at, locked_by,
       split_part(last_error, E'\n', 1) AS last_error
  FROM skipjack.job
 WHERE (%(type)s::text IS NULL OR type = %(type)s::text)
   AND (%(status)s::text IS NULL OR status = %(status)s::text)
 ORDER BY id DESC
 LIMIT %(limit)s
