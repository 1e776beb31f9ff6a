-- Schedules that a person watches: the broken and paused ones, then the nearest. Plan: a small table.
SELECT CASE WHEN app = 'main' THEN name ELSE app || '/' || name END AS name,
       CASE WHEN error IS NOT NULL THEN 'broken' WHEN paused_at IS NOT NULL THEN 'paused' ELSE 'active' END AS state,
       extract(epoch FROM next_run_at - now())::double precision AS next_in,
       extract(epoch FROM now() - last_slot)::double precision AS last_ago,
       missed
  FROM skipjack.schedule
 WHERE enabled
 ORDER BY error IS NULL, paused_at IS NULL, next_run_at, name
 LIMIT %(limit)s
