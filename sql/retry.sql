-- One batch of jobs put back by hand: as new, but for what went wrong last, which stays to be read. A job that is ready
-- keeps its attempts and has only its wait cut short.
-- A row that somebody else has locked is not waited for, and none is waited for while others are locked.
-- Plan: job_pkey, twice. `status || ''` keeps job_dead out of it: it may hold a million of them, for each batch anew.
WITH free AS (
    SELECT j.id
      FROM skipjack.job AS j
     WHERE j.id = ANY (%(ids)s::bigint[]) AND j.status || '' = ANY (%(statuses)s::text[])
     ORDER BY j.id
       FOR UPDATE SKIP LOCKED
)
UPDATE skipjack.job AS j
   SET status = 'ready',
       run_at = CASE WHEN j.status = 'ready' THEN least(j.run_at, now()) ELSE now() END,
       attempts = CASE WHEN j.status = 'ready' THEN j.attempts ELSE 0 END,
       returns = CASE WHEN j.status = 'ready' THEN j.returns ELSE 0 END,
       losses = CASE WHEN j.status = 'ready' THEN j.losses ELSE 0 END,
       cancel_requested = false,
       finished_at = NULL
 WHERE j.id = ANY (ARRAY(SELECT id FROM free))
RETURNING j.id, j.type
