-- This supervisor lives; it counts as lost if it does not say so again in time. What has been lost for a day is forgotten.
-- Plan: a small table.
WITH forgotten AS (
    DELETE FROM skipjack.host WHERE expires_at < now() - interval '1 day'
)
INSERT INTO skipjack.host AS h (host, name, pid, version, pools, busy, expires_at)
VALUES (%(host)s, %(name)s, %(pid)s, %(version)s, %(pools)s::jsonb, %(busy)s, now() + make_interval(secs => %(seconds)s))
    ON CONFLICT (host, name) DO UPDATE
   SET pid = excluded.pid, version = excluded.version, pools = excluded.pools, busy = excluded.busy,
       started_at = CASE WHEN h.pid = excluded.pid AND h.expires_at > now() THEN h.started_at ELSE now() END,
       seen_at = now(), expires_at = excluded.expires_at
RETURNING seen_at
