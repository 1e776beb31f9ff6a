-- One job, as a client without enqueue() would write it.
INSERT INTO skipjack.job (type) VALUES (%(type)s)
