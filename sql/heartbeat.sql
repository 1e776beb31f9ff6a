-- Extends the leases of the claims held, and hears whether somebody wants one cancelled.
-- A claim that does not come back has been lost. `held` is sorted by id, as is everything that locks several rows.
-- Plan: Nested Loop over job_pkey (`= ANY (ARRAY ...)`: see settle_and_claim.sql). locked_until is in no index: a HOT update.
UPDATE skipjack.job AS j
   SET locked_until = now() + make_interval(secs => %(lease)s)
  FROM jsonb_to_recordset(%(held)s::jsonb) AS h (id bigint, token text)
 WHERE j.id = ANY (ARRAY[h.id]) AND j.locked_by = h.token
RETURNING j.id, j.cancel_requested
