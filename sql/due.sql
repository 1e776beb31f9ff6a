-- In how many seconds jobs of each type are due: one that is due now (0 or less), and the next one after it. No row where
-- there is none, nor for a paused type.
-- Plan: for each type two descents into job_ready.
SELECT t.type, extract(epoch FROM j.run_at - now())::double precision
  FROM unnest(%(types)s::text[]) AS t (type)
 CROSS JOIN LATERAL (
      (SELECT r.run_at
         FROM skipjack.job AS r
        WHERE r.status = 'ready' AND r.type = t.type AND r.run_at <= now()
        ORDER BY r.run_at, r.id
        LIMIT 1)
       UNION ALL
      (SELECT r.run_at
         FROM skipjack.job AS r
        WHERE r.status = 'ready' AND r.type = t.type AND r.run_at > now()
        ORDER BY r.run_at, r.id
        LIMIT 1)) AS j
 WHERE NOT EXISTS (SELECT FROM skipjack.paused_type AS p WHERE p.type = t.type)
