-- What people see: the attempts of a job, how far it is, the hosts that are alive; and the hook for what failed or died.

-- Attempts that did not end well. The one that did is the job's own row. No foreign key: its lock would hold up those who
-- settle, and it would forbid TRUNCATE. Rows go with their job.
CREATE TABLE skipjack.attempt (
    job_id     bigint NOT NULL,
    attempt    smallint NOT NULL,                  -- as it was counted then: one given back uncharged comes again
    started_at timestamptz,
    ended_at   timestamptz NOT NULL,
    worker     text COLLATE "C",                   -- the claim's token
    outcome    text COLLATE "C" NOT NULL,          -- retry, returned, lost, shared (see leave()), failed or dead
    error      text
);
CREATE INDEX attempt_job ON skipjack.attempt (job_id);

-- What long jobs say of themselves; written by the heartbeat, in no index, so that it stays a HOT update. It belongs to the
-- newest claim if progress_at is not before started_at: nothing need be cleared at a claim.
ALTER TABLE skipjack.job ADD COLUMN progress real, ADD COLUMN progress_note text, ADD COLUMN progress_at timestamptz;
ALTER TABLE skipjack.job_archive ADD COLUMN progress real, ADD COLUMN progress_note text, ADD COLUMN progress_at timestamptz;

-- The type of the jobs that tell of a failed or dead one of this type; null for none.
ALTER TABLE skipjack.job_type ADD COLUMN on_dead text COLLATE "C",
      ADD CONSTRAINT job_type_on_dead CHECK (octet_length(on_dead) BETWEEN 1 AND 200 AND on_dead <> type);

-- Supervisors that are alive, each written by its reaper every few seconds; one whose row has expired is lost. One that
-- stops in order takes its row away.
CREATE TABLE skipjack.host (
    host       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,          -- of the supervisor: several may run on one host
    pid        integer NOT NULL,
    version    text NOT NULL,
    pools      jsonb NOT NULL,                     -- workers by job type
    busy       integer NOT NULL,                   -- workers that have a job
    started_at timestamptz NOT NULL DEFAULT now(), -- since when this process reports without a gap
    seen_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (host, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- One row for each attempt that was begun and did not end well, whoever ended it: a worker, a reaper, or a person with SQL.
-- What happened shows in the counters, see leave(); a return that is charged, after twenty that were not, is a retry. A claim that was never begun gives its attempt back, and nothing else.
-- And for what failed or died, unless by somebody's wish, a job of the hook's type, in the same transaction: as many as
-- there are deaths. It is shut off against its own errors (a constraint of somebody's, say): an alert must not keep a job
-- from ending. With its owner's rights, as wake_for_new().
CREATE FUNCTION skipjack.attempt_ended() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF OLD.status <> 'running' OR (NEW.attempts < OLD.attempts AND NEW.returns = OLD.returns AND NEW.losses = OLD.losses) THEN
        RETURN NULL;
    END IF;
    INSERT INTO skipjack.attempt (job_id, attempt, started_at, ended_at, worker, outcome, error)
    VALUES (OLD.id, OLD.attempts, OLD.started_at, now(), OLD.locked_by,
            CASE WHEN NEW.losses > OLD.losses AND NEW.attempts < OLD.attempts THEN 'shared'
                 WHEN NEW.losses > OLD.losses THEN 'lost'
                 WHEN NEW.attempts < OLD.attempts THEN 'returned'
                 WHEN NEW.status = 'ready' THEN 'retry'
                 ELSE NEW.status END,
            NEW.last_error);
    IF NEW.status <> 'ready' AND NOT OLD.cancel_requested THEN
        BEGIN
            INSERT INTO skipjack.job (type, payload)
            SELECT t.on_dead, jsonb_build_object('job', NEW.id, 'type', NEW.type, 'key', NEW.idempotency_key, 'status', NEW.status,
                                                 'attempts', NEW.attempts, 'error', left(NEW.last_error, 2000))
              FROM skipjack.job_type AS t
             WHERE t.type = NEW.type AND t.on_dead IS NOT NULL;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'no on_dead job for job %: %', NEW.id, SQLERRM;
        END;
    END IF;
    RETURN NULL;
END $$;
-- Of the hot path, the claim and the settle of a done job, it costs the look at WHEN: measured, 3 to 4 % of the statement. As
-- long as the rest of the condition stood here, too, it was 10 %.
CREATE TRIGGER job_attempt AFTER UPDATE OF status ON skipjack.job FOR EACH ROW
    WHEN (NEW.locked_by IS NULL AND NEW.status <> 'done')
    EXECUTE FUNCTION skipjack.attempt_ended();

CREATE FUNCTION skipjack.forget_attempts() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM skipjack.attempt; -- a TRUNCATE of both tables at once forbids another one
    ELSE
        DELETE FROM skipjack.attempt AS a WHERE a.job_id = ANY (ARRAY(SELECT g.id FROM gone AS g));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER job_forget AFTER DELETE ON skipjack.job
   REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION skipjack.forget_attempts();
CREATE TRIGGER job_forget_all AFTER TRUNCATE ON skipjack.job
   FOR EACH STATEMENT EXECUTE FUNCTION skipjack.forget_attempts();
