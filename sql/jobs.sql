-- The newest jobs, by type, status, error and age (since the end, or since it was enqueued) if given.
SELECT id, type, status, attempts, max_attempts, run_at, started_at, finished_at, locked_by,
       split_part(last_error, E'\n', 1) AS last_error
  FROM skipjack.job
 WHERE (%(type)s::text IS NULL OR type = %(type)s::text)
   AND status = ANY (%(statuses)s::text[])
   AND (%(error)s::text IS NULL OR strpos(skipjack.error_group(last_error), skipjack.error_group(%(error)s::text)) > 0)
   AND (%(older_than)s::double precision IS NULL
        OR coalesce(finished_at, created_at) < now() - make_interval(secs => %(older_than)s::double precision))
   AND (%(newer_than)s::double precision IS NULL
        OR coalesce(finished_at, created_at) > now() - make_interval(secs => %(newer_than)s::double precision))
 ORDER BY id DESC
 LIMIT %(limit)s
