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
    -- whatever is accepted here must be storable as a job and readable by every client: one bad row must not stop the others
    CONSTRAINT schedule_job CHECK (octet_length(job_type) BETWEEN 1 AND 200 AND pg_column_size(payload) <= 1048576),
    CONSTRAINT schedule_times CHECK (
        (next_run_at IS NULL OR next_run_at BETWEEN '0001-01-02' AND '9999-12-30')
        AND (last_slot IS NULL OR last_slot BETWEEN '0001-01-02' AND '9999-12-30')
        AND (paused_slot IS NULL OR paused_slot BETWEEN '0001-01-02' AND '9999-12-30')
        AND since BETWEEN '0001-01-02' AND '9999-12-30'),
    CONSTRAINT schedule_durations CHECK (
        (every IS NULL OR (every BETWEEN '1 second' AND '3650 days' AND extract(month FROM every) = 0 AND extract(year FROM every) = 0))
        AND (spread IS NULL OR spread BETWEEN '0' AND '3650 days')
        AND catch_up_window BETWEEN '1 minute' AND '3650 days'),
    CONSTRAINT schedule_catch_up CHECK (catch_up IN ('none', 'last', 'all')),
    CONSTRAINT schedule_overlap CHECK (overlap IN ('allow', 'skip'))
) WITH (fillfactor = 70);

-- NULLS FIRST: what is to be placed is seen by the same look as what is due.
CREATE INDEX schedule_due ON skipjack.schedule (next_run_at NULLS FIRST) WHERE enabled AND paused_at IS NULL AND error IS NULL;

-- Done jobs by age, for the archive.
CREATE INDEX job_done ON skipjack.job (type, finished_at) WHERE status = 'done';

-- A migration that adds a column to job adds it here, too; archived_at stands first, so that it goes on to fit by position.
CREATE TABLE skipjack.job_archive (
    archived_at timestamptz NOT NULL DEFAULT now(),
    LIKE skipjack.job
);
CREATE INDEX job_archive_id ON skipjack.job_archive (id);
CREATE INDEX job_archive_age ON skipjack.job_archive (archived_at);
