-- Before every migration; the first one needs it. CREATE SCHEMA IF NOT EXISTS would ask for the right to create one even
-- where an administrator has made it for us.
DO $$ BEGIN
    IF to_regnamespace(':schema') IS NULL THEN
        CREATE SCHEMA :schema;
    END IF;
END $$;
CREATE TABLE IF NOT EXISTS skipjack.migration (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
