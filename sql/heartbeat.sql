-- Extends the leases of the claims held, writes how far their jobs say they are, and hears whether somebody wants one
-- cancelled.
-- A claim that does not come back has been lost. `held` is sorted by id, as is everything that locks several rows.
-- Plan: Nested Loop over job_pkey (`= ANY (ARRAY ...)`: see settle_and_claim.sql). What it writes is in no index: a HOT update.
UPDATE skipjack.job AS j
   SET locked_until = now() + make_interval(secs => %(lease)s),
       progress = coalesce(h.progress, j.progress),
       progress_note = CASE WHEN h.progress IS NULL THEN j.progress_note ELSE h.note END,
       progress_at = CASE WHEN h.progress IS NULL THEN j.progress_at ELSE now() END
  FROM jsonb_to_recordset(%(held)s::jsonb) AS h (id bigint, token text, progress real, note text)
 WHERE j.id = ANY (ARRAY[h.id]) AND j.locked_by = h.token
RETURNING j.id, j.cancel_requested
