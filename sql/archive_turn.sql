-- One host at a time, without a leader: the lock ends with the batch's transaction. A batch waits for nobody's lock and is
-- bounded: leases are not looked at meanwhile.
SELECT pg_try_advisory_xact_lock(1399548780, hashtext(%(schema)s)),
       set_config('lock_timeout', '100ms', true), set_config('statement_timeout', '5s', true)
