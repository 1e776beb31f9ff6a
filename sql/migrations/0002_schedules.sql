-- Schedules, and where finished jobs go.

CREATE TABLE skipjack.schedule (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app               text COLLATE "C" NOT NULL,        -- supervisors of one app own its schedules
    name              text COLLATE "C" NOT NULL,
    job_type          text COLLATE "C" NOT NULL,
    payload           jsonb NOT NULL DEFAULT '{}',
    cron              text,
    every             interval,                         -- slots at whole multiples of it since the epoch
    timezone          text NOT NULL DEFAULT 'UTC',
    catch_up          text NOT NULL DEFAULT 'last',
    catch_up_window   interval NOT NULL DEFAULT '24 hours',
    spread            interval,                         -- null: a tenth of the gap, at most 5 minutes
    overlap           text NOT NULL DEFAULT 'allow',
    enabled           boolean NOT NULL DEFAULT true,    -- false: retired, because it went from the file
    paused_at         timestamptz,
    error             text,                             -- why it cannot be placed; such a schedule is skipped
    tzdata            text,                             -- the version that next_run_at was placed with
    next_run_at       timestamptz,                      -- the next slot; null: to be placed, later than `since`
    since             timestamptz NOT NULL DEFAULT now(),
    paused_slot       timestamptz,                      -- what the next slot was when it was resumed
    last_slot         timestamptz,                      -- no slot up to here is ever fired again
    last_job_id       bigint,
    fired             bigint NOT NULL DEFAULT 0,
    missed            bigint NOT NULL DEFAULT 0,
    skipped_paused    bigint NOT NULL DEFAULT 0,
    skipped_edited    bigint NOT NULL DEFAULT 0,
    skipped_overlap   bigint NOT NULL DEFAULT 0,
    last_missed_from  timestamptz,
    last_missed_until timestamptz,
    last_missed_count bigint,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schedule_name UNIQUE (app, name),
    CONSTRAINT schedule_when CHECK ((cron IS NULL) <> (every IS NULL)),
    CONSTRAINT schedule_catch_up CHECK (catch_up IN ('none', 'last', 'all')),
    CONSTRAINT schedule_overlap CHECK (overlap IN ('allow', 'skip'))
) WITH (fillfactor = 70);

-- NULLS FIRST: what is to be placed is seen by the same look as what is due.
CREATE INDEX schedule_due ON skipjack.schedule (next_run_at NULLS FIRST) WHERE enabled AND paused_at IS NULL AND error IS NULL;

-- Done jobs by age, for the archive.
CREATE INDEX job_done ON skipjack.job (type, finished_at) WHERE status = 'done';

CREATE TABLE skipjack.job_archive (
    LIKE skipjack.job,
    archived_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX job_archive_id ON skipjack.job_archive (id);
CREATE INDEX job_archive_age ON skipjack.job_archive USING brin (archived_at);
