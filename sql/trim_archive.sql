-- One batch of the archive that has been kept long enough.
-- Plan: Index Scan on job_archive_age, oldest first, then by ctid.
WITH gone AS (
    DELETE FROM skipjack.job_archive
     WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM skipjack.job_archive
                WHERE archived_at < now() - make_interval(secs => %(keep)s)
                ORDER BY archived_at
                LIMIT %(limit)s))
 RETURNING id
)
SELECT count(*) FROM gone
