-- Jobs per second of one type, between two moments: when these parts of all that are done had been done.
WITH done AS (
    SELECT finished_at FROM skipjack.job WHERE type = %(type)s AND status = 'done'
), span AS (
    SELECT percentile_disc(%(since)s::double precision) WITHIN GROUP (ORDER BY finished_at) AS since,
           percentile_disc(%(until)s::double precision) WITHIN GROUP (ORDER BY finished_at) AS until
      FROM done
)
SELECT (count(*) / nullif(extract(epoch FROM s.until - s.since), 0))::double precision
  FROM span AS s
  JOIN done AS d ON d.finished_at > s.since AND d.finished_at <= s.until
 GROUP BY s.since, s.until
