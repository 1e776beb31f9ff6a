-- One batch of failed and dead jobs removed by hand. Locks and plan: see retry.sql.
WITH free AS (
    SELECT j.id
      FROM skipjack.job AS j
     WHERE j.id = ANY (%(ids)s::bigint[]) AND j.status || '' = ANY (%(statuses)s::text[])
     ORDER BY j.id
       FOR UPDATE SKIP LOCKED
)
DELETE FROM skipjack.job AS j WHERE j.id = ANY (ARRAY(SELECT id FROM free)) RETURNING j.id, j.type
