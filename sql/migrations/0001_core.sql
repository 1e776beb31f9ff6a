-- The core: jobs, job types, the rules by which a job leaves `running`, and enqueue().
-- People write SQL against these names; see the README. `skipjack` stands for the configured schema.

CREATE TABLE skipjack.job (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_at           timestamptz NOT NULL DEFAULT now(),
    created_at       timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,                       -- of the newest claim
    finished_at      timestamptz,                       -- done, failed or dead
    locked_until     timestamptz,                       -- the lease; in no index, so that a heartbeat stays a HOT update
    attempts         smallint NOT NULL DEFAULT 0,       -- charged at the claim, so that a job that kills its worker still dies
    max_attempts     smallint,                          -- null: filled from the pool at the first claim
    returns          smallint NOT NULL DEFAULT 0,       -- uncharged returns in a row
    losses           smallint NOT NULL DEFAULT 0,       -- workers lost in a row
    cancel_requested boolean NOT NULL DEFAULT false,
    status           text COLLATE "C" NOT NULL DEFAULT 'ready',
    type             text COLLATE "C" NOT NULL,
    idempotency_key  text COLLATE "C",
    locked_by        text COLLATE "C",                  -- the claim's token, host:pid:nonce:seq
    last_error       text,
    payload          jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT job_status CHECK (status IN ('ready', 'running', 'done', 'failed', 'dead')),
    CONSTRAINT job_lease CHECK ((status = 'running') = (locked_by IS NOT NULL)
                            AND (locked_by IS NULL) = (locked_until IS NULL)),
    -- what clients of every language can read back
    CONSTRAINT job_times CHECK (run_at BETWEEN '0001-01-02' AND '9999-12-30' AND created_at BETWEEN '0001-01-02' AND '9999-12-30'),
    CONSTRAINT job_attempts CHECK (attempts >= 0 AND max_attempts >= 1),
    CONSTRAINT job_type_length CHECK (octet_length(type) BETWEEN 1 AND 200),
    CONSTRAINT job_key_length CHECK (octet_length(idempotency_key) BETWEEN 1 AND 1000),
    -- pg_column_size reads the stored size and detoasts nothing: CHECKs run again at every update of the row
    CONSTRAINT job_payload_size CHECK (pg_column_size(payload) <= 1048576)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX job_ready ON skipjack.job (type, run_at, id) WHERE status = 'ready';
CREATE INDEX job_running ON skipjack.job (locked_by) WHERE status = 'running';
CREATE INDEX job_dead ON skipjack.job (type, finished_at) WHERE status IN ('failed', 'dead');
CREATE UNIQUE INDEX job_key ON skipjack.job (type, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- What a reaper on any host must know of a type. Written at boot from the configuration of the hosts that serve it.
CREATE TABLE skipjack.job_type (
    type         text COLLATE "C" PRIMARY KEY,
    backoff_base interval NOT NULL,
    backoff_cap  interval NOT NULL,
    max_attempts smallint NOT NULL,
    keep_done    interval NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now()
);

-- The one way out of `running`, for the worker's settle, the reaper and the fast release alike. Outcomes:
--   done, failed   the handler said so
--   retry          the handler raised; charged
--   lost           the worker died or its lease ran out; charged, since a poison job looks the same
--   returned       cannot be the job's fault; uncharged, but after 20 in a row the next is charged: nothing loops unseen
--   unstarted      claimed and never begun; uncharged
-- `delay` (seconds) overrides the backoff; `jitter` is a random number in [0, 1). A retry waits base * 2^(n-1) seconds,
-- capped, and of that between half and all: jitter only shortens, so that the cap is a promise. The first loss retries at
-- once. One SELECT, so that the planner inlines it (STABLE, hence jitter is an argument); scalars, since a whole row as an
-- argument would be detoasted, payload and all.
CREATE FUNCTION skipjack.leave(
    outcome text, delay double precision, jitter double precision, base double precision, cap double precision,
    was_attempts smallint, max_attempts smallint, was_returns smallint, was_losses smallint,
    cancel_requested boolean, was_run_at timestamptz
) RETURNS TABLE (status text, attempts smallint, returns smallint, losses smallint, run_at timestamptz, finished_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT s.status, a.attempts,
           CASE WHEN outcome = 'unstarted' THEN was_returns WHEN c.charged THEN 0 ELSE was_returns + 1 END::smallint,
           CASE WHEN outcome = 'lost' THEN was_losses + 1 WHEN c.charged AND outcome <> 'returned' THEN 0 ELSE was_losses END::smallint,
           -- ten years at most: later than that is no time that can be added to now()
           CASE WHEN s.status = 'ready' THEN now() + make_interval(secs => least(315360000, coalesce(delay, CASE
                    WHEN n.nth = 0 THEN 0
                    ELSE least(cap, base * 2.0::double precision ^ least(n.nth - 1, 60)) * (0.5 + coalesce(jitter, 0) / 2) END)))
                ELSE was_run_at END,
           CASE WHEN s.status <> 'ready' THEN now() END
      FROM (SELECT CASE outcome WHEN 'unstarted' THEN false WHEN 'returned' THEN was_returns >= 20 ELSE true END) AS c (charged),
   LATERAL (SELECT greatest(CASE WHEN c.charged THEN was_attempts ELSE was_attempts - 1 END, 0)::smallint) AS a (attempts),
   LATERAL (SELECT CASE WHEN outcome IN ('done', 'failed') THEN outcome
                        WHEN cancel_requested THEN 'failed'
                        WHEN c.charged AND a.attempts >= max_attempts THEN 'dead'
                        ELSE 'ready' END) AS s (status),
   LATERAL (SELECT CASE outcome WHEN 'retry' THEN was_attempts WHEN 'returned' THEN was_returns + 1
                                WHEN 'lost' THEN was_losses ELSE 0 END::integer) AS n (nth)
$$;

-- For every language: SELECT skipjack.enqueue('email', '{"to": "a@example.com"}', key => 'welcome-42', delay => '5 min').
-- A key that exists (per type) changes nothing: the id of the job that has it comes back, with is_new = false.
-- Without enable_seqscan = off a session that first enqueued into a small table would keep scanning it when it has grown.
CREATE FUNCTION skipjack.enqueue(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, delay interval DEFAULT '0', max_attempts integer DEFAULT NULL,
    OUT id bigint, OUT is_new boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    LOOP
        INSERT INTO skipjack.job AS j (type, payload, idempotency_key, run_at, max_attempts)
        VALUES (enqueue.type, enqueue.payload, enqueue.key, now() + greatest(enqueue.delay, '0'), enqueue.max_attempts)
        ON CONFLICT (type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING j.id INTO enqueue.id;
        is_new := FOUND;
        EXIT WHEN FOUND;
        SELECT j.id INTO enqueue.id FROM skipjack.job AS j
         WHERE j.type = enqueue.type AND j.idempotency_key = enqueue.key;
        EXIT WHEN FOUND; -- else the job that had the key went away between the two statements
    END LOOP;
END $$;
