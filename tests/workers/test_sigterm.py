import subprocess
import sys

_PROGRAM = """
from workers.sigterm import leave_quietly_on_sigterm
leave_quietly_on_sigterm()
print("listening", flush=True)
import time
time.sleep(60)
"""


def test_sigterm_before_anything_was_read_is_no_failure() -> None:
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        process.terminate()
        assert process.wait(10) == 0
