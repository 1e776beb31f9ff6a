-- In how many seconds the next job of each type is due (0 or less: now). No row for a type that has none, or is paused.
-- Plan: for each type one descent into job_ready.
SELECT t.type, extract(epoch FROM j.run_at - now())::double precision
  FROM unnest(%(types)s::text[]) AS t (type)
 CROSS JOIN LATERAL (
       SELECT r.run_at
         FROM skipjack.job AS r
        WHERE r.status = 'ready' AND r.type = t.type
        ORDER BY r.run_at, r.id
        LIMIT 1) AS j
 WHERE NOT EXISTS (SELECT FROM skipjack.paused_type AS p WHERE p.type = t.type)
