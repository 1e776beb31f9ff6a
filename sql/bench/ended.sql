-- Whether this job has ended. Through the primary key, because it is asked again and again while others are measured.
SELECT finished_at IS NOT NULL FROM skipjack.job WHERE id = %(id)s
