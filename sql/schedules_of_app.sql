-- What the file's schedules are compared with: those that have slots behind them.
SELECT s.name, s.cron, extract(epoch FROM s.every)::double precision, s.timezone, s.next_run_at, now() AS now
  FROM skipjack.schedule AS s
 WHERE s.app = %(app)s AND s.enabled AND s.paused_at IS NULL AND s.next_run_at <= now()
