-- A job of this schedule now, outside its slots; `overlap = 'skip'` sees it.
WITH fired AS (
    INSERT INTO skipjack.job (type, payload)
    SELECT job_type, payload FROM skipjack.schedule WHERE name = %(name)s AND app = %(app)s AND enabled
    RETURNING id
)
UPDATE skipjack.schedule AS s SET last_job_id = f.id FROM fired AS f WHERE s.name = %(name)s AND s.app = %(app)s
RETURNING f.id
