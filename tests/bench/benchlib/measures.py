# SPDX-License-Identifier: Apache-2.0
"""What is measured, and the budgets of docs/design.md, section 10.

A group is a function that fills rows. Rows that are compared with each other are measured in
turns, so that other work on the host hits all of them alike.
"""

import dataclasses
import os
import statistics
import time

from .bare import Bare, kill_all
from .home import Home
from .machine import Machine, accelerator, stripped_size
from .util import BenchError, log

MIB = 1 << 20
BULK = 64 * MIB  # as in port.c
GUEST_FILE = "/dev/shm/bulk"
# qemu-ga reads at most 48 MiB at once and its parser takes strings of less than 64 MiB, which is a
# little less than 48 MiB in base64; chunks of 1 MiB are faster in both directions.
CHUNK = MIB


@dataclasses.dataclass
class Row:
    """One line of the table. With `against`, the budget limits the ratio to that row's median."""
    id: str
    label: str
    unit: str = "ms"
    against: str = ""
    most: float = None
    least: float = None
    exact: bool = False    # no slack in the quick form
    judge: str = "median"  # or "p90"
    quick: bool = True     # in the quick form too

    def limit(self, quick):
        """The budget; the quick form has twice the slack."""
        if self.most is not None:
            spare = self.most - 1 if self.against else self.most
            return self.most + (spare if quick and not self.exact else 0)
        if self.least is not None:
            return self.least - (1 - self.least if quick and not self.exact else 0)
        return None


@dataclasses.dataclass
class Group:
    name: str
    title: str
    rows: list
    function: object
    quick: bool


GROUPS = []


def group(name, title, *rows, quick=True):
    """Register function(bench), which returns samples by the id of the row."""
    def register(function):
        GROUPS.append(Group(name, title, list(rows), function, quick))
        return function
    return register


def summary(values):
    deciles = (statistics.quantiles(values, n=10, method="inclusive") if len(values) > 1
               else [values[0]] * 9)
    return {"median": statistics.median(values), "p10": deciles[0], "p90": deciles[-1],
            "max": max(values), "runs": len(values)}


class Bench:
    """What the groups use: machines, made when they are first wanted, and how often they measure."""

    def __init__(self, image, build, directory, quick):
        self.image = image
        self.build = build
        self.directory = directory
        self.quick = quick
        self.accelerator = accelerator(build / "postern")
        self.client_program = build / "tests/bench/client"
        self.home = Home(directory, build / "postern", image.parent)
        self._machine = None
        self._recipes = {}

    @property
    def machine(self):
        """The one guest that is talked with, by postern and by the other ways in."""
        if not self._machine:
            self._machine = Machine(self.image, self.accelerator, self.build / "tests/bench/port",
                                    self.build / "tests/bench/guest", self.directory)
            log("the guest is warm")
        return self._machine

    def bare(self, image, cold=False, listen=None):
        """QEMU by hand, as postern starts it from its template, or for a boot."""
        if image not in self._recipes:
            self._recipes[image] = self.home.recipe(image)
        recipe = self._recipes[image]
        backing = self.home.disk(image) if cold else recipe.disk
        return Bare(recipe, self.directory, self.client_program, backing, cold, listen)

    def close(self):
        if self._machine:
            self._machine.kill()
        kill_all()
        self.home.close()

    @staticmethod
    def in_turns(rounds, runs, **functions):
        """Samples of each function(runs), called by turns. Many short rounds: what else the host
        does comes and goes within seconds."""
        samples = {name: [] for name in functions}
        for _ in range(rounds):
            for name, function in functions.items():
                samples[name] += function(runs)
        return samples

    def file(self):
        """BULK random bytes on the host and, put there by postern, in the guest."""
        path = self.directory / "source"
        if not path.exists():
            path.write_bytes(os.urandom(BULK))
            self.machine.measure("postern", "put", 1, path)
        return path

    def port(self, end, name, *file):
        return lambda runs: self.machine.measure(end, name, runs, *file)[0]


def timed(function, runs, warm_up=1):
    """Milliseconds of each call."""
    values = []
    for number in range(-warm_up, runs):
        start = time.perf_counter()
        function()
        if number >= 0:
            values.append((time.perf_counter() - start) * 1000)
    return values


def rates(samples):
    """MiB/s of transfers of BULK bytes."""
    return {name: [BULK / MIB / (ms / 1000) for ms in values] for name, values in samples.items()}


@group("trip", "Round trips on a warm guest",
       Row("raw_echo", "raw port, echo"),
       Row("ping", "postern, ping", against="raw_echo", most=1.3))
def trip(bench):
    return bench.in_turns(8 if bench.quick else 20, 25,
                          raw_echo=bench.port("raw", "echo"), ping=bench.port("postern", "ping"))


@group("true", "/bin/true, from request to exit status",
       Row("raw_true", "raw port, fork and exec"),
       Row("true", "postern", against="raw_true", most=1.15),
       Row("guest_agent_true", "QEMU guest agent, asked every 10 ms", against="true", least=1.0),
       Row("ssh_master_true", "ssh, connection open", against="true", least=1.0))
def true(bench):
    machine = bench.machine
    machine.ssh.start_master()
    try:
        return bench.in_turns(
            10 if bench.quick else 50, 4, raw_true=bench.port("raw", "true"),
            true=bench.port("postern", "true"),
            guest_agent_true=lambda n: timed(machine.guest_agent.true, n),
            ssh_master_true=lambda n: timed(machine.ssh.true, 1))
    finally:
        machine.ssh.stop_master()


@group("ssh", "The same by a new ssh connection", Row("ssh_true", "ssh, connection new"))
def ssh(bench):
    return {"ssh_true": timed(bench.machine.ssh.true, 3 if bench.quick else 10)}


@group("bulk", "64 MiB, from memory to memory",
       Row("raw_out", "to the host, raw port", "MiB/s"),
       Row("raw_pipe_out", "the same, from a command's pipe", "MiB/s", against="raw_out"),
       Row("out", "postern, a command's output", "MiB/s", against="raw_pipe_out", least=0.85),
       Row("raw_in", "to the guest, raw port", "MiB/s"),
       Row("raw_pipe_in", "the same, into a command's pipe", "MiB/s", against="raw_in"),
       Row("in", "postern, a command's input", "MiB/s", against="raw_pipe_in", least=0.85))
def bulk(bench):
    rounds = 3 if bench.quick else 10
    outward = bench.in_turns(rounds, 1, raw_out=bench.port("raw", "out"),
                             raw_pipe_out=bench.port("raw", "pipe-out"),
                             out=bench.port("postern", "out"))
    inward = bench.in_turns(rounds, 1, raw_in=bench.port("raw", "in"),
                            raw_pipe_in=bench.port("raw", "pipe-in"),
                            **{"in": bench.port("postern", "in")})
    return rates(outward | inward)


@group("files", "A file of 64 MiB between the host and the guest's memory",
       Row("get", "postern, get", "MiB/s", against="raw_out"),
       Row("put", "postern, put", "MiB/s", against="raw_in"))
def files(bench):
    source, target = bench.file(), bench.directory / "target"
    samples = bench.in_turns(2 if bench.quick else 5, 1, get=bench.port("postern", "get", target),
                             put=bench.port("postern", "put", source))
    if target.read_bytes() != source.read_bytes():
        raise BenchError("the file that came back from the guest differs from the one that went")
    return rates(samples)


@group("others", "The same file by other means",
       Row("guest_agent_out", "QEMU guest agent, to the host", "MiB/s", against="get", most=1.0),
       Row("guest_agent_in", "QEMU guest agent, to the guest", "MiB/s", against="put", most=1.0),
       Row("scp_out", "scp, to the host", "MiB/s", against="get", most=1.0),
       Row("scp_in", "scp, to the guest", "MiB/s", against="put", most=1.0), quick=False)
def others(bench):
    machine = bench.machine
    source, target = bench.file(), bench.directory / "copy"
    remote = machine.ssh.remote(GUEST_FILE)
    data = source.read_bytes()

    def read():
        if machine.guest_agent.read_file(GUEST_FILE, CHUNK) != data:
            raise BenchError("the file in the guest differs from the one on the host")

    return rates({
        "guest_agent_out": timed(read, 2, warm_up=0),
        "guest_agent_in":
            timed(lambda: machine.guest_agent.write_file(GUEST_FILE, data, CHUNK), 2, warm_up=0),
        "scp_out": timed(lambda: machine.ssh.copy(remote, target), 2, warm_up=0),
        "scp_in": timed(lambda: machine.ssh.copy(source, remote), 2, warm_up=0)})


@group("flood", "While `yes` floods an output of another command",
       Row("idle_ping", "ping, no flood"),
       Row("flood_ping", "ping", against="idle_ping", most=5.0),
       Row("idle_true", "/bin/true, no flood"),
       Row("flood_true", "/bin/true", against="idle_true"),
       Row("flood_rate", "the flood meanwhile", "MiB/s"))
def flood(bench):
    rate = []

    def under_flood(name):
        def measured(runs):
            values, said = bench.machine.measure("postern", name, runs)
            rate.append(said["flood_mib_s"])
            return values
        return measured

    samples = bench.in_turns(
        4 if bench.quick else 20, 10,
        idle_ping=bench.port("postern", "ping"), flood_ping=under_flood("flood-ping"),
        idle_true=bench.port("postern", "true"), flood_true=under_flood("flood-true"))
    return samples | {"flood_rate": rate}


@group("idle", "CPU time of the agent that has nothing to do, of one CPU",
       Row("alone", "no host attached", "%", most=1.0),
       Row("attached", "an idle host attached", "%"))
def idle(bench):
    """Read by the raw port's agent, which wakes nothing of postern's."""
    machine = bench.machine
    agent = machine.command("/bin/sh", "-c", "echo $PPID")
    seconds = 10 if bench.quick else 60

    def cpu_ns():
        return int(machine.raw.sh(f"cat /proc/{agent}/schedstat").split()[0])

    def share():
        before, start = cpu_ns(), time.monotonic()
        time.sleep(seconds)
        return [(cpu_ns() - before) / (time.monotonic() - start) / 1e7]

    alone = share()
    host = machine.hold()
    try:
        return {"alone": alone, "attached": share()}
    finally:
        host.communicate()


@group("attach", "From a host's connection to the answer to its greeting",
       Row("attach", "postern", most=20.0))
def attach(bench):
    return {"attach": bench.port("postern", "attach")(20 if bench.quick else 100)}


@group("size", "Programs without symbols",
       Row("agent_size", "postern-agent", "KiB", most=100, exact=True),
       Row("host_size", "postern", "KiB", most=1024, exact=True))
def size(bench):
    return {"agent_size": [stripped_size(bench.build / "postern-agent", bench.directory)],
            "host_size": [stripped_size(bench.build / "postern", bench.directory)]}
