-- One host migrates at a time; the lock ends with the transaction. Per schema, and 1399548778 is "Skij".
-- No lock, not a table's either, is waited for longer than this: who waits for one holds up all who come after.
SELECT set_config('lock_timeout', '5s', true), pg_advisory_xact_lock(1399548778, hashtext(%(schema)s))
