-- What the file's schedules are compared with. Locked, and hosts of one app one after the other: they write the same rows.
SELECT s.name, s.cron, extract(epoch FROM s.every)::double precision, s.timezone, s.next_run_at, now() AS now
  FROM skipjack.schedule AS s,
       (SELECT pg_advisory_xact_lock(1399548779, hashtext(%(app)s))) AS one_after_the_other
 WHERE s.app = %(app)s AND s.enabled AND s.paused_at IS NULL AND s.next_run_at <= now()
   FOR UPDATE OF s
