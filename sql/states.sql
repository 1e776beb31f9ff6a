-- Where the jobs of these ids stand.
-- Plan: job_pkey.
SELECT id, type, status FROM skipjack.job WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id
