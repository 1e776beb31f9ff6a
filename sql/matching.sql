-- The ids of the jobs that an operator's filters name, by type and in order.
-- Plan: for each status asked for its own partial index (the others' branches fall away when the parameters are put in);
-- an error is compared with every failed and dead job of the type: some 3 s for a million.
SELECT j.type, array_agg(j.id ORDER BY j.id) AS ids
  FROM (SELECT id, type, last_error, created_at, finished_at FROM skipjack.job
         WHERE status = 'ready' AND 'ready' = ANY (%(statuses)s::text[])
         UNION ALL
        SELECT id, type, last_error, created_at, finished_at FROM skipjack.job
         WHERE status = 'running' AND 'running' = ANY (%(statuses)s::text[])
         UNION ALL
        SELECT id, type, last_error, created_at, finished_at FROM skipjack.job
         WHERE status IN ('failed', 'dead') AND status = ANY (%(statuses)s::text[])) AS j
 WHERE (%(type)s::text IS NULL OR j.type = %(type)s::text)
   AND (%(error)s::text IS NULL OR strpos(skipjack.error_group(j.last_error), skipjack.error_group(%(error)s::text)) > 0)
   AND (%(older_than)s::double precision IS NULL
        OR coalesce(j.finished_at, j.created_at) < now() - make_interval(secs => %(older_than)s::double precision))
   AND (%(newer_than)s::double precision IS NULL
        OR coalesce(j.finished_at, j.created_at) > now() - make_interval(secs => %(newer_than)s::double precision))
 GROUP BY j.type
 ORDER BY j.type
