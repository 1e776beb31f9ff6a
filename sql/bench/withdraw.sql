-- Time is up: what nobody has taken is no longer to be done; how many jobs that is.
WITH withdrawn AS (
    DELETE FROM skipjack.job WHERE status = 'ready' RETURNING id
)
SELECT count(*) FROM withdrawn
