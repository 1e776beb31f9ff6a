"""An independent witness: a trigger that records every change of a job row, and a check that knows only the promises.

What became of a whole run is checked by `chaos/checker.py`.
"""

from harness import Jobs

AUDIT = """
CREATE TABLE audit (
    seq bigserial PRIMARY KEY,
    at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    id  bigint NOT NULL,
    old jsonb,
    new jsonb
);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit (id, old, new) VALUES (coalesce(NEW.id, OLD.id), to_jsonb(OLD), to_jsonb(NEW));
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON skipjack.job FOR EACH ROW EXECUTE FUNCTION audit();
"""


def audited(jobs: Jobs) -> None:
    """From now on every change of a job row is recorded, in the same transaction."""
    jobs.connection.execute(AUDIT)


def violations(jobs: Jobs) -> list[dict[str, object]]:
    """Claims without exactly one outcome, outcomes without a claim, and changes that are neither."""
    return jobs.sql("""
        WITH change AS (
            SELECT id, old->>'status' = 'running' AS was, new->>'status' = 'running' AS now,
                   old->>'locked_by' AS old_token, new->>'locked_by' AS new_token
              FROM audit WHERE old IS NOT NULL AND new IS NOT NULL
        ), event AS (
            SELECT id, coalesce(new_token, old_token) AS token,
                   CASE WHEN now AND NOT was THEN 'claim' WHEN was AND NOT now THEN 'outcome'
                        WHEN was AND old_token = new_token THEN 'renewal' ELSE 'illegal' END AS event
              FROM change
        )
        SELECT id, token, count(*) FILTER (WHERE event = 'claim') AS claims,
               count(*) FILTER (WHERE event = 'outcome') AS outcomes, count(*) FILTER (WHERE event = 'illegal') AS illegal
          FROM event GROUP BY id, token
        HAVING count(*) FILTER (WHERE event = 'claim') <> 1 OR count(*) FILTER (WHERE event = 'outcome') <> 1
            OR count(*) FILTER (WHERE event = 'illegal') <> 0""")
