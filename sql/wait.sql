-- This host has idle workers of these types, for so many seconds. A statement of its own, committed before the look at the
-- queue: who enqueues afterwards sees it, who did before is seen by the look.
INSERT INTO skipjack.waiter AS w (type, host, until)
SELECT t.type, %(host)s, now() + make_interval(secs => %(seconds)s)
  FROM unnest(%(types)s::text[]) AS t (type)
 ORDER BY t.type COLLATE "C"
    ON CONFLICT (type, host) DO UPDATE SET until = excluded.until
RETURNING type
