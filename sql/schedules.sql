-- All schedules, for people.
SELECT app, name, job_type, cron, extract(epoch FROM every)::double precision AS every_seconds, timezone,
       CASE WHEN NOT enabled THEN 'retired' WHEN error IS NOT NULL THEN 'broken'
            WHEN paused_at IS NOT NULL THEN 'paused' ELSE 'active' END AS state,
       next_run_at AS next_slot, last_slot, fired, missed, skipped_paused, skipped_edited, skipped_overlap,
       last_missed_from, last_missed_until, last_missed_count, error, now() AS now
  FROM skipjack.schedule
 ORDER BY app, name
