-- One batch of the archive that has been kept long enough.
-- Plan: Bitmap Scan on job_archive_age, a BRIN index: rows come in order of their age.
WITH gone AS (
    DELETE FROM skipjack.job_archive
     WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM skipjack.job_archive
                WHERE archived_at < now() - make_interval(secs => %(keep)s)
                LIMIT %(limit)s))
 RETURNING id
)
SELECT count(*) FROM gone
