# SPDX-License-Identifier: Apache-2.0
"""Small helpers shared by all modules."""

import os
import re
import socket
import subprocess
import sys
import time


class BenchError(Exception):
    """Something the person running the tool should read; shown without a traceback."""


def log(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(*command, timeout=600, **popen):
    """Run a program to its end and return its output; a failure tells what it printed."""
    popen.setdefault("stdin", subprocess.DEVNULL)
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True,
                              timeout=timeout, **popen)
    except FileNotFoundError:
        raise BenchError(f"program '{command[0]}' is missing: run ./deps.sh bench") from None
    except subprocess.TimeoutExpired:
        raise BenchError(f"'{command[0]}' did not end within {timeout} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "(nothing printed)")[-2000:]
        raise BenchError(f"'{' '.join(map(str, command))[:200]}' ended with "
                         f"{done.returncode}:\n{said}")
    return done.stdout


def wait_until(condition, timeout, what, pause=0.01):
    """Poll until condition() is true; what() says what was missed."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {timeout} s in vain for {what()}")
        time.sleep(pause)


def settle(*pids, quiet=0.05, timeout=120):
    """Wait until each of some processes has used less than `quiet` of a CPU for a whole second."""
    tick = os.sysconf("SC_CLK_TCK")

    def used(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / tick

    def idle():
        before = [used(pid) for pid in pids]
        time.sleep(1)
        return all(used(pid) - was < quiet for pid, was in zip(pids, before))

    wait_until(idle, timeout, lambda: "the guest to become idle", pause=0)


def free_port():
    """A TCP port on loopback that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tail(path, limit=1500):
    """The end of a log file without colours, or an empty string."""
    try:
        with open(path, "rb") as f:
            text = f.read()[-limit:].decode(errors="replace")
    except OSError:
        return ""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).strip()
