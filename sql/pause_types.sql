-- Stops types on all hosts, until they are resumed; sorted, so that two who pause the same types do not deadlock.
-- `known`: whether any supervisor has announced it or any job has it.
-- Plan: a descent into each partial index. ORDER BY with LIMIT sees to that, and not EXISTS, which drops both: it was planned
-- with scans of the whole table, and a pause is wanted at once.
WITH paused AS (
    INSERT INTO skipjack.paused_type (type) SELECT t.type FROM unnest(%(types)s::text[]) AS t (type) ORDER BY 1
        ON CONFLICT (type) DO NOTHING
)
SELECT t.type,
       coalesce((SELECT true FROM skipjack.job_type AS k WHERE k.type = t.type),
                (SELECT true FROM skipjack.job AS j WHERE j.status = 'ready' AND j.type = t.type
                  ORDER BY j.type, j.run_at, j.id LIMIT 1),
                (SELECT true FROM skipjack.job AS j WHERE j.status IN ('failed', 'dead') AND j.type = t.type
                  ORDER BY j.type, j.finished_at LIMIT 1),
                (SELECT true FROM skipjack.job AS j WHERE j.status = 'done' AND j.type = t.type
                  ORDER BY j.type, j.finished_at LIMIT 1),
                (SELECT true FROM skipjack.job AS j WHERE j.status = 'running' AND j.type = t.type LIMIT 1),
                false) AS known
  FROM unnest(%(types)s::text[]) AS t (type)
