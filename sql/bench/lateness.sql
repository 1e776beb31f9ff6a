-- How much later than their time jobs were started, in milliseconds, by the database's clock.
SELECT extract(epoch FROM started_at - run_at)::double precision * 1000 FROM skipjack.job
 WHERE type = %(type)s AND started_at IS NOT NULL
