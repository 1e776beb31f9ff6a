-- Stops a schedule, on all hosts, until it is resumed.
UPDATE skipjack.schedule SET paused_at = coalesce(paused_at, now()), updated_at = now()
 WHERE name = %(name)s AND app = %(app)s AND enabled
RETURNING id
