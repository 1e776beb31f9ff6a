-- Every contender finds the table as new.
TRUNCATE skipjack.job
