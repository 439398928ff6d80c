"""A child process that says what it is told."""

import sys

from fedfleet.executors.child_process import read_message, send_message

while told := read_message():
    if "fail" in told:
        sys.stderr.write(told["fail"])
        sys.exit(3)
    if "quiet" not in told:
        send_message(told)
