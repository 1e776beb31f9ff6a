-- A job of this schedule now, outside its slots.
INSERT INTO skipjack.job (type, payload)
SELECT job_type, payload FROM skipjack.schedule WHERE name = %(name)s AND app = %(app)s
RETURNING id
