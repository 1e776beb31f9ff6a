"""The program of the chaos suite's command pool: does as `handlers.chaos`, in the ledger under its worker's pid."""

import json
import os
import sys
import time
from pathlib import Path

PAYLOAD = json.load(sys.stdin)
WORKER = os.getppid()


def witness(event: str) -> None:
    uptime = Path("/proc/uptime").read_text().split()[0]
    job, attempt = os.environ["SKIPJACK_JOB_ID"], os.environ["SKIPJACK_JOB_ATTEMPT"]
    with Path(os.environ["LEDGER"]).open("ab", buffering=0) as ledger:
        ledger.write(f"{event} {job} {attempt} {WORKER} {uptime} {PAYLOAD.get('mark', '-')}\n".encode())


witness("start")
end = time.monotonic() + PAYLOAD.get("seconds", 0)
while (left := end - time.monotonic()) > 0:
    time.sleep(min(0.05, left))
    witness("tick")
witness("end")
