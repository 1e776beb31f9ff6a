-- How many jobs are in somebody's hand.
SELECT count(*) FROM skipjack.job WHERE status = 'running'
