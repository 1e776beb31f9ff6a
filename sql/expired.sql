-- Ids of expired leases, for when they must be reaped one by one.
-- Plan: Index Scan on job_running; `id + 0` as in reap.sql.
SELECT id FROM skipjack.job WHERE status = 'running' AND locked_until < now() ORDER BY id + 0 LIMIT %(limit)s
