-- The schedules of the file, for one app. Identical values write nothing; a changed expression starts after now; one that
-- went from the file is retired, and only by supervisors of its own app.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(schedules)s::jsonb) AS g (
        name text, job_type text, payload jsonb, cron text, every interval, timezone text, catch_up text,
        catch_up_window interval, spread interval, overlap text, skipped bigint)
), retired AS (
    UPDATE skipjack.schedule AS s SET enabled = false, updated_at = now()
     WHERE s.app = %(app)s AND s.enabled AND s.name NOT IN (SELECT name FROM given)
)
INSERT INTO skipjack.schedule AS s (
       app, name, job_type, payload, cron, every, timezone, catch_up, catch_up_window, spread, overlap)
SELECT %(app)s, name, job_type, payload, cron, every, timezone, catch_up, catch_up_window, spread, overlap
  FROM given
 ORDER BY name COLLATE "C"
    ON CONFLICT (app, name) DO UPDATE
   SET job_type = excluded.job_type, payload = excluded.payload, cron = excluded.cron, every = excluded.every,
       timezone = excluded.timezone, catch_up = excluded.catch_up, catch_up_window = excluded.catch_up_window,
       spread = excluded.spread, overlap = excluded.overlap, enabled = true, error = NULL, updated_at = now(),
       next_run_at = CASE WHEN s.enabled AND (s.cron, s.every, s.timezone) IS NOT DISTINCT FROM
                               (excluded.cron, excluded.every, excluded.timezone) THEN s.next_run_at END,
       since = now(),
       -- the slots of a pause, or of a time out of the file, are counted apart when it is placed again
       paused_slot = CASE WHEN s.paused_at IS NOT NULL OR NOT s.enabled THEN coalesce(s.next_run_at, s.paused_slot)
                     ELSE s.paused_slot END,
       skipped_edited = s.skipped_edited + coalesce((SELECT g.skipped FROM given AS g WHERE g.name = excluded.name), 0)
 WHERE NOT s.enabled OR s.error IS NOT NULL
    OR (s.job_type, s.payload, s.cron, s.every, s.timezone, s.catch_up, s.catch_up_window, s.spread, s.overlap)
       IS DISTINCT FROM (excluded.job_type, excluded.payload, excluded.cron, excluded.every, excluded.timezone,
                         excluded.catch_up, excluded.catch_up_window, excluded.spread, excluded.overlap)
