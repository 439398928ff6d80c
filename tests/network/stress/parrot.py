"""A child process that says what it is told."""

import sys

from fedfleet.network.stress.child_processes import heard, say

while told := heard():
    if "fail" in told:
        sys.stderr.write(told["fail"])
        sys.exit(3)
    if "quiet" not in told:
        say(told)
