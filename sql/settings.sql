-- What a session would keep, for one transaction: behind a pooler no session is ours (runtime/connection.py).
SELECT set_config(key, value, true) FROM json_each_text(%(settings)s::json)
