-- So many jobs of one type, ready now, in one commit; the id of the last one.
WITH new AS (
    INSERT INTO skipjack.job (type)
    SELECT %(type)s FROM generate_series(1, %(jobs)s::bigint)
    RETURNING id
)
SELECT max(id) FROM new
