-- Before every migration; the first one needs it.
CREATE SCHEMA IF NOT EXISTS :schema;
CREATE TABLE IF NOT EXISTS skipjack.migration (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
