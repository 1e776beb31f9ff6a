-- The jobs of these types that failed or died last, the newest first.
-- Plan: for each type one descent into job_dead, backwards; the errors of the few that are left are read last.
SELECT d.id, d.type, d.status, split_part(j.last_error, E'\n', 1) AS error
  FROM (SELECT n.id, t.type, n.status, n.finished_at
          FROM unnest(%(types)s::text[]) AS t (type)
         CROSS JOIN LATERAL (
               SELECT r.id, r.status, r.finished_at
                 FROM skipjack.job AS r
                WHERE r.status IN ('failed', 'dead') AND r.type = t.type
                ORDER BY r.finished_at DESC NULLS LAST
                LIMIT %(limit)s) AS n
         ORDER BY n.finished_at DESC NULLS LAST, n.id DESC
         LIMIT %(limit)s) AS d
  JOIN skipjack.job AS j ON j.id = d.id
 ORDER BY d.finished_at DESC NULLS LAST, d.id DESC
