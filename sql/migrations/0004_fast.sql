-- Claims of several jobs, and wake-ups.

-- As before, with two rules for claims of several jobs:
--   shared      the lease of several jobs ran out together, and nobody knows which of them ran: uncharged, but a loss, after
--               which it is run alone; only a job that is lost alone dies of it
--   unstarted   keeps its run_at: given back after its time had come, it must not wait behind all who came later
CREATE OR REPLACE FUNCTION skipjack.leave(
    outcome text, delay double precision, jitter double precision, base double precision, cap double precision,
    was_attempts smallint, max_attempts smallint, was_returns smallint, was_losses smallint,
    cancel_requested boolean, was_run_at timestamptz
) RETURNS TABLE (status text, attempts smallint, returns smallint, losses smallint, run_at timestamptz, finished_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT s.status, a.attempts,
           CASE WHEN outcome IN ('unstarted', 'shared') THEN was_returns WHEN c.charged THEN 0 ELSE was_returns + 1 END::smallint,
           CASE WHEN outcome IN ('lost', 'shared') THEN was_losses + 1
                WHEN c.charged AND outcome <> 'returned' THEN 0 ELSE was_losses END::smallint,
           -- ten years at most: later than that is no time that can be added to now()
           CASE WHEN s.status = 'ready' AND outcome NOT IN ('unstarted', 'shared')
                THEN now() + make_interval(secs => least(315360000, coalesce(delay, CASE
                    WHEN n.nth = 0 THEN 0
                    ELSE least(cap, base * 2.0::double precision ^ least(n.nth - 1, 60)) * (0.5 + coalesce(jitter, 0) / 2) END)))
                ELSE was_run_at END,
           CASE WHEN s.status <> 'ready' THEN now() END
      FROM (SELECT CASE WHEN outcome IN ('unstarted', 'shared') THEN false
                        WHEN outcome = 'returned' THEN was_returns >= 20 ELSE true END) AS c (charged),
   LATERAL (SELECT greatest(CASE WHEN c.charged THEN was_attempts ELSE was_attempts - 1 END, 0)::smallint) AS a (attempts),
   LATERAL (SELECT CASE WHEN outcome IN ('done', 'failed') THEN outcome
                        WHEN cancel_requested THEN 'failed'
                        WHEN c.charged AND a.attempts >= max_attempts THEN 'dead'
                        ELSE 'ready' END) AS s (status),
   LATERAL (SELECT CASE outcome WHEN 'retry' THEN was_attempts WHEN 'returned' THEN was_returns + 1
                                WHEN 'lost' THEN was_losses ELSE 0 END::integer) AS n (nth)
$$;

-- Who wants to hear of new jobs: hosts with an idle worker of the type, until so long (they say so again and again). Without
-- it every commit of a job would notify, and commits that notify come one after the other, in the whole cluster: 6,700 a
-- second fell to 820. Unlogged: after a crash everybody says it anew.
CREATE UNLOGGED TABLE skipjack.waiter (
    type  text COLLATE "C" NOT NULL,
    host  text COLLATE "C" NOT NULL,          -- of an incarnation of a listener
    until timestamptz NOT NULL,
    PRIMARY KEY (type, host)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Tells the listeners of a job that is due, or will be within their poll: "milliseconds type". Only a hint.
CREATE FUNCTION skipjack.wake(type text, due timestamptz) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_notify(:'schema', greatest(0, ceil(extract(epoch FROM wake.due - now()) * 1000))::bigint || ' ' || wake.type)
     WHERE wake.due < now() + interval '5 seconds'
       AND EXISTS (SELECT FROM skipjack.waiter AS w WHERE w.type = wake.type AND w.until > now())
$$;

-- Once a statement and type, however many rows it adds, and once for those that are yet to come. With its owner's rights: who may INSERT need not read `waiter`.
CREATE FUNCTION skipjack.wake_for_new() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM skipjack.wake(n.type, n.due)
       FROM (SELECT j.type, min(j.run_at) AS due FROM new AS j
              WHERE j.status = 'ready' GROUP BY j.type, j.run_at > now()) AS n;
    RETURN NULL;
END $$;
CREATE TRIGGER job_wake AFTER INSERT ON skipjack.job
   REFERENCING NEW TABLE AS new FOR EACH STATEMENT EXECUTE FUNCTION skipjack.wake_for_new();
