-- What a tick, or the placing, made of each schedule.
UPDATE skipjack.schedule AS s
   SET next_run_at = coalesce(a.next_run_at, s.next_run_at),
       last_slot = coalesce(a.last_slot, s.last_slot),
       last_job_id = coalesce(a.last_job_id, s.last_job_id),
       fired = s.fired + coalesce(a.fired, 0),
       missed = s.missed + coalesce(a.missed, 0),
       skipped_overlap = s.skipped_overlap + coalesce(a.overlapped, 0),
       skipped_paused = s.skipped_paused + coalesce(a.paused, 0),
       last_missed_from = coalesce(a.missed_from, s.last_missed_from),
       last_missed_until = coalesce(a.missed_until, s.last_missed_until),
       last_missed_count = CASE WHEN a.missed > 0 THEN a.missed ELSE s.last_missed_count END,
       paused_slot = CASE WHEN a.error IS NULL THEN NULL ELSE s.paused_slot END,
       error = a.error,
       tzdata = %(tzdata)s
  FROM jsonb_to_recordset(%(advances)s::jsonb) AS a (
           id bigint, next_run_at timestamptz, last_slot timestamptz, last_job_id bigint, fired bigint, missed bigint,
           overlapped bigint, paused bigint, missed_from timestamptz, missed_until timestamptz, error text)
 WHERE s.id = ANY (ARRAY[a.id])
