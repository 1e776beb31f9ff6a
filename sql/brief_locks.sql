-- Until the transaction ends, nothing waits for somebody's lock for long.
SELECT set_config('lock_timeout', '200ms', true)
