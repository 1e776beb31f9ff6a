-- One batch of finished jobs of one type that have been kept long enough: to the archive, or away. One statement, so that an
-- interruption neither loses nor doubles a row.
-- Plan: Index Scan on job_done, oldest first, then job_pkey.
WITH old AS (
    SELECT j.id
      FROM skipjack.job AS j
     WHERE j.status = 'done' AND j.type = %(type)s AND j.finished_at < now() - make_interval(secs => %(keep)s)
     ORDER BY j.finished_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM skipjack.job AS j WHERE j.id = ANY (ARRAY(SELECT id FROM old)) RETURNING j.*
), kept AS (
    INSERT INTO skipjack.job_archive SELECT now(), g.* FROM gone AS g WHERE %(archive)s
)
SELECT count(*) FROM gone
