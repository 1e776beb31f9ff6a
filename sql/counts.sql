-- The figures of the whole fleet, one a row: its name in the metrics, the job type or schedule it is about ('' for none), and
-- its value. Types: those that have jobs which are not done, that are paused, or that a supervisor has announced.
-- Jobs are counted up to `most` of a type, so that a backlog of any depth costs the same; failed and dead ones are counted
-- together, newest first, since `status` is not in their index.
-- Plan: a loose index scan of job_ready and job_dead for the types; then for each type two Index Only Scans of job_ready and an
-- Index Scan of job_dead, each stopping at `most`; an Index Scan of all of job_running (few rows). `done` rows are not touched.
WITH RECURSIVE waiting AS (
    (SELECT type FROM skipjack.job WHERE status = 'ready' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT j.type FROM skipjack.job AS j WHERE j.status = 'ready' AND j.type > w.type ORDER BY j.type LIMIT 1)
      FROM waiting AS w WHERE w.type IS NOT NULL
), ended AS (
    (SELECT type FROM skipjack.job WHERE status IN ('failed', 'dead') ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (SELECT j.type FROM skipjack.job AS j WHERE j.status IN ('failed', 'dead') AND j.type > e.type
             ORDER BY j.type LIMIT 1)
      FROM ended AS e WHERE e.type IS NOT NULL
), running AS (
    SELECT type, count(*) AS jobs FROM skipjack.job WHERE status = 'running' GROUP BY type
), types AS (
    SELECT type FROM waiting WHERE type IS NOT NULL
     UNION SELECT type FROM ended WHERE type IS NOT NULL
     UNION SELECT type FROM running
     UNION SELECT type FROM skipjack.paused_type
     UNION SELECT type FROM skipjack.job_type
)
SELECT f.name, t.type AS label, f.value::double precision
  FROM types AS t
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs, extract(epoch FROM now() - min(run_at)) AS age
         FROM (SELECT j.run_at FROM skipjack.job AS j
                WHERE j.status = 'ready' AND j.type = t.type AND j.run_at <= now()
                ORDER BY j.run_at LIMIT %(most)s) AS counted) AS due
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM skipjack.job AS j
                WHERE j.status = 'ready' AND j.type = t.type AND j.run_at > now()
                ORDER BY j.run_at LIMIT %(most)s) AS counted) AS later
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status = 'dead') AS dead
         FROM (SELECT j.status FROM skipjack.job AS j
                WHERE j.status IN ('failed', 'dead') AND j.type = t.type
                ORDER BY j.finished_at DESC LIMIT %(most)s) AS counted) AS over
 CROSS JOIN LATERAL (VALUES
       ('oldest_ready_seconds', coalesce(due.age, 0)),
       ('ready_jobs', due.jobs),
       ('delayed_jobs', later.jobs),
       ('running_jobs', coalesce((SELECT r.jobs FROM running AS r WHERE r.type = t.type), 0)),
       ('failed_jobs', over.failed),
       ('dead_jobs', over.dead),
       ('type_paused', (SELECT count(*) FROM skipjack.paused_type AS p WHERE p.type = t.type))) AS f (name, value)
 UNION ALL
SELECT f.name, s.name, f.value::double precision
  FROM skipjack.schedule AS s
 CROSS JOIN LATERAL (VALUES
       ('schedule_slots_fired_total', s.fired),
       ('schedule_slots_missed_total', s.missed),
       ('schedule_broken', (s.error IS NOT NULL)::integer)) AS f (name, value)
 WHERE s.app = %(app)s AND s.enabled
 UNION ALL
SELECT f.name, '', f.value::double precision
  FROM (SELECT count(*) FILTER (WHERE expires_at > now()) AS alive, count(*) FILTER (WHERE expires_at <= now()) AS lost
          FROM skipjack.host) AS h
 CROSS JOIN LATERAL (VALUES ('hosts', h.alive), ('hosts_lost', h.lost)) AS f (name, value)
