-- Whether any migration was ever applied here.
SELECT to_regclass('skipjack.migration') IS NOT NULL
