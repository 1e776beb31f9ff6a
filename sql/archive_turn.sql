-- One host at a time, without a leader: the lock ends with the batch's transaction.
SELECT pg_try_advisory_xact_lock(1399548780, hashtext(%(schema)s))
