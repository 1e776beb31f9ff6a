-- Lets paused types go on; those that were paused come back.
DELETE FROM skipjack.paused_type WHERE type = ANY (%(types)s::text[]) RETURNING type
