-- In the caller's transaction; see skipjack.enqueue() in the migration.
SELECT id, is_new
  FROM skipjack.enqueue(%(type)s, %(payload)s::jsonb, %(key)s, make_interval(secs => %(delay)s), %(max_attempts)s)
