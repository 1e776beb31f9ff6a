-- In the caller's transaction; see skipjack.enqueue_many() in the migration.
SELECT id, is_new FROM skipjack.enqueue_many(%(jobs)s::jsonb)
