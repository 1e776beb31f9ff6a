"""Text that PostgreSQL can keep."""

ERROR_BYTES = 8000
"""What is kept of an error: its head, which names it, and its tail, which says where."""


def storable(text: str) -> str:
    """`text` without what a PostgreSQL text or jsonb cannot hold (NUL, lone surrogates), cut in the middle."""
    data = text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace")
    if len(data) > ERROR_BYTES:
        half = ERROR_BYTES // 2
        data = data[:half] + b"\n... cut ...\n" + data[-half:]
    return data.decode("utf-8", "ignore")
