-- One host migrates at a time; the lock ends with the transaction. Per schema, and 1399548778 is "Skij".
SELECT pg_advisory_xact_lock(1399548778, hashtext(%(schema)s))
