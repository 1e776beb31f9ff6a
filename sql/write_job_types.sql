-- What reapers on other hosts must know of our types. In order of the type, since ten hosts may start at once;
-- identical values write nothing.
INSERT INTO skipjack.job_type AS t (type, backoff_base, backoff_cap, max_attempts, keep_done, on_dead)
SELECT type, backoff_base, backoff_cap, max_attempts, keep_done, on_dead
  FROM jsonb_to_recordset(%(types)s::jsonb)
       AS n (type text, backoff_base interval, backoff_cap interval, max_attempts smallint, keep_done interval, on_dead text)
 ORDER BY type COLLATE "C"
    ON CONFLICT (type) DO UPDATE
   SET backoff_base = excluded.backoff_base, backoff_cap = excluded.backoff_cap,
       max_attempts = excluded.max_attempts, keep_done = excluded.keep_done, on_dead = excluded.on_dead, updated_at = now()
 WHERE (t.backoff_base, t.backoff_cap, t.max_attempts, t.keep_done, t.on_dead) IS DISTINCT FROM
       (excluded.backoff_base, excluded.backoff_cap, excluded.max_attempts, excluded.keep_done, excluded.on_dead)
