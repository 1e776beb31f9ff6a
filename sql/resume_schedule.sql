-- Goes on at the next slot; those of the pause are counted apart, when it is placed.
UPDATE skipjack.schedule
   SET paused_slot = CASE WHEN paused_at IS NULL THEN paused_slot ELSE coalesce(next_run_at, paused_slot) END,
       next_run_at = CASE WHEN paused_at IS NULL THEN next_run_at END,
       since = now(), paused_at = NULL, error = NULL, updated_at = now()
 WHERE name = %(name)s AND app = %(app)s AND enabled
RETURNING id
