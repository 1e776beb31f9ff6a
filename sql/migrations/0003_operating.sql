-- What operators need: types that are paused, retries that can be counted, and enqueueing in bulk.

-- A type in here is claimed by nobody, on any host. Of its own, and not a column of job_type: a type can be paused before
-- any supervisor has announced it, and every claim looks here, into an index that is nearly always empty.
CREATE TABLE skipjack.paused_type (
    type      text COLLATE "C" PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- Jobs that wait for another attempt, to be counted; one that never failed has no entry.
CREATE INDEX job_retry ON skipjack.job (type) WHERE status = 'ready' AND attempts > 0;

-- What makes errors one group: their first line, every run of digits as '#'. Addresses, ids and counts differ; the fault does
-- not. One expression, so that the planner inlines it.
CREATE FUNCTION skipjack.error_group(error text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_replace(split_part(error, E'\n', 1), '[0-9]+', '#', 'g')
$$;

-- Many jobs at once: an array of objects with type and, if need be, payload, key, delay (seconds) and max_attempts.
-- One row comes back for each, in order: its id, and whether it is new. A key that exists changes nothing, and does not
-- keep the others out.
-- The ids are drawn beforehand, in the order given, because RETURNING does not say which row of the input one belongs to.
-- Rows go in by type and key: two that add the same keys at once would deadlock in any other order.
CREATE FUNCTION skipjack.enqueue_many(jobs jsonb) RETURNS TABLE (id bigint, is_new boolean)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    ids CONSTANT regclass := pg_get_serial_sequence('skipjack.job', 'id');
    added record;
BEGIN
    FOR added IN
        WITH given AS MATERIALIZED (
            SELECT g.*, nextval(ids) AS id
              FROM ROWS FROM (jsonb_to_recordset(jobs) AS (
                       type text, payload jsonb, key text, delay double precision, max_attempts integer))
                   WITH ORDINALITY AS g (type, payload, key, delay, max_attempts, nth)
        ), new AS (
            INSERT INTO skipjack.job AS j (id, type, payload, idempotency_key, run_at, max_attempts)
            OVERRIDING SYSTEM VALUE
            SELECT g.id, g.type, coalesce(g.payload, '{}'), g.key,
                   now() + make_interval(secs => greatest(coalesce(g.delay, 0), 0)), g.max_attempts
              FROM given AS g
             ORDER BY g.type COLLATE "C", g.key COLLATE "C", g.nth
                ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING j.id
        )
        SELECT g.type, g.payload, g.key, g.delay, g.max_attempts, n.id IS NOT NULL AS is_new,
               coalesce(n.id, (SELECT j.id FROM skipjack.job AS j WHERE j.type = g.type AND j.idempotency_key = g.key)) AS id
          FROM given AS g
          LEFT JOIN new AS n ON n.id = g.id
         ORDER BY g.nth
    LOOP
        id := added.id;
        is_new := added.is_new;
        IF id IS NULL THEN
            -- the key stands twice in the input, or its job was committed or removed meanwhile
            SELECT e.id, e.is_new INTO id, is_new
              FROM skipjack.enqueue(added.type, coalesce(added.payload, '{}'), added.key,
                                    make_interval(secs => coalesce(added.delay, 0)), added.max_attempts) AS e;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
