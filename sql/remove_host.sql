-- This supervisor stops in order.
DELETE FROM skipjack.host WHERE host = %(host)s AND name = %(name)s AND pid = %(pid)s
RETURNING host
