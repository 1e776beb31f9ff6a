-- Schedules whose next slot is to be found: new, edited or resumed ones. %(outdated)s: also those that were placed by an
-- older version of the tz database and are not due yet.
SELECT s.id, s.cron, extract(epoch FROM s.every)::double precision, s.timezone,
       -- a resumed one goes on from when it is placed: what passed until then belongs to the pause
       CASE WHEN s.next_run_at IS NULL AND s.paused_slot IS NULL THEN s.since ELSE now() END AS since,
       s.last_slot, s.paused_slot, CASE WHEN s.next_run_at IS NOT NULL THEN s.tzdata END AS tzdata
  FROM skipjack.schedule AS s
 WHERE s.enabled AND s.paused_at IS NULL AND s.error IS NULL
   AND (s.next_run_at IS NULL OR (%(outdated)s AND s.tzdata IS DISTINCT FROM %(tzdata)s AND s.next_run_at > now()))
 ORDER BY s.id
   FOR UPDATE SKIP LOCKED
