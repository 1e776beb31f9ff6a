"""An independent witness: a trigger that records every change of a job row, and a checker that knows only the promises."""

from harness import Jobs

AUDIT = """
CREATE TABLE audit (seq serial, id bigint, event text, token text, status text);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.status = 'running' AND OLD.status <> 'running' THEN
        INSERT INTO audit (id, event, token) VALUES (NEW.id, 'claim', NEW.locked_by);
    ELSIF OLD.status = 'running' AND NEW.status <> 'running' THEN
        INSERT INTO audit (id, event, token, status) VALUES (NEW.id, 'outcome', OLD.locked_by, NEW.status);
    ELSIF OLD.status <> 'running' OR OLD.locked_by <> NEW.locked_by THEN
        INSERT INTO audit (id, event, token, status) VALUES (NEW.id, 'illegal', NEW.locked_by, NEW.status);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON skipjack.job FOR EACH ROW EXECUTE FUNCTION audit();
"""


def audited(jobs: Jobs) -> None:
    jobs.connection.execute(AUDIT)


def violations(jobs: Jobs) -> list[dict[str, object]]:
    """Claims without exactly one outcome, outcomes without a claim, and changes that are neither."""
    return jobs.sql("""
        SELECT id, token, count(*) FILTER (WHERE event = 'claim') AS claims,
               count(*) FILTER (WHERE event = 'outcome') AS outcomes, count(*) FILTER (WHERE event = 'illegal') AS illegal
          FROM audit GROUP BY id, token
        HAVING count(*) FILTER (WHERE event = 'claim') <> 1 OR count(*) FILTER (WHERE event = 'outcome') <> 1
            OR count(*) FILTER (WHERE event = 'illegal') <> 0""")
