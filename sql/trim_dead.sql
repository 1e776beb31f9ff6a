-- One batch of failed and dead jobs that nobody has decided about for long enough.
-- Plan: Index Scan on job_dead, then job_pkey.
WITH old AS (
    SELECT j.id
      FROM skipjack.job AS j
     WHERE j.status IN ('failed', 'dead') AND j.type = %(type)s AND j.finished_at < now() - make_interval(secs => %(keep)s)
     ORDER BY j.finished_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM skipjack.job AS j WHERE j.id = ANY (ARRAY(SELECT id FROM old)) RETURNING j.id
)
SELECT count(*) FROM gone
