-- One batch of jobs cancelled by hand: who waits has failed, who runs is told by its next heartbeat. Locks and plan: see
-- retry.sql; a worker that settles one of these rows waits for this statement, some 10 ms.
WITH free AS (
    SELECT j.id
      FROM skipjack.job AS j
     WHERE j.id = ANY (%(ids)s::bigint[]) AND j.status || '' = ANY (%(statuses)s::text[])
     ORDER BY j.id
       FOR UPDATE SKIP LOCKED
)
UPDATE skipjack.job AS j
   SET cancel_requested = j.status = 'running',
       status = CASE WHEN j.status = 'running' THEN j.status ELSE 'failed' END,
       finished_at = CASE WHEN j.status = 'running' THEN j.finished_at ELSE now() END,
       last_error = CASE WHEN j.status = 'running' THEN j.last_error ELSE 'cancelled by hand' END
 WHERE j.id = ANY (ARRAY(SELECT id FROM free))
RETURNING j.id, j.type
