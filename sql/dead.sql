-- Failed and dead jobs in groups of one type, status and kind of error, the biggest first; the newest stands for its group.
-- `groups`: how many there are, beyond the limit too.
-- Plan: job_dead for the groups, job_pkey for the examples.
SELECT g.count, g.type, g.status, split_part(j.last_error, E'\n', 1) AS error, g.newest, g.oldest, g.id, g.groups
  FROM (SELECT type, status, skipjack.error_group(last_error) AS error, count(*) AS count,
               max(finished_at) AS newest, min(finished_at) AS oldest, max(id) AS id, count(*) OVER () AS groups
          FROM skipjack.job
         WHERE status IN ('failed', 'dead') AND status = ANY (%(statuses)s::text[])
           AND (%(type)s::text IS NULL OR type = %(type)s::text)
           AND (%(error)s::text IS NULL OR strpos(skipjack.error_group(last_error), skipjack.error_group(%(error)s::text)) > 0)
           AND (%(older_than)s::double precision IS NULL
                OR coalesce(finished_at, created_at) < now() - make_interval(secs => %(older_than)s::double precision))
           AND (%(newer_than)s::double precision IS NULL
                OR coalesce(finished_at, created_at) > now() - make_interval(secs => %(newer_than)s::double precision))
         GROUP BY 1, 2, 3
         ORDER BY count DESC, id DESC
         LIMIT %(limit)s) AS g
  JOIN skipjack.job AS j ON j.id = g.id
 ORDER BY g.count DESC, g.id DESC
