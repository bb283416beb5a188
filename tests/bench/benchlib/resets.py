# SPDX-License-Identifier: Apache-2.0
"""Machines that are made new: how fast, and what they take."""

import contextlib
import pathlib
import random
import subprocess
import time

from .measures import Row, group
from .util import BenchError, log, settle
from .ways import ALTERNATIVES, SERVER, SLOW, SLOW_TURNS, WAYS

MINI = "mini"


@group("reset", "Reset of a warm, dirty systemd and nginx, to the end of the first /bin/true",
       Row("cold", "QEMU alone, started then"),
       Row("reset_socket", "postern, by its keeper's sockets", against="cold", most=1.15),
       Row("reset", "postern reset, postern exec -n", against="cold", most=1.15),
       Row("waiting", "QEMU alone, started before", against="cold"),
       Row("loadvm", "loadvm in place", against="reset", quick=False),
       Row("libvirt", "virsh destroy, virsh restore", against="reset", least=1.0, quick=False),
       Row("boot", "a boot, until all services run", against="reset", least=1.0, quick=False),
       Row("cold_reply", "first reply: QEMU alone, started then"),
       Row("reset_socket_reply", "first reply: postern, sockets", against="cold_reply"),
       Row("reset_reply", "first reply: postern reset", against="cold_reply"),
       Row("waiting_reply", "first reply: QEMU alone, before", against="cold_reply"),
       Row("loadvm_reply", "first reply: loadvm", against="reset_reply", quick=False),
       Row("libvirt_reply", "first reply: virsh restore", against="reset_reply", quick=False),
       Row("boot_reply", "first reply: a boot", against="reset_reply", quick=False))
def reset(bench):
    wanted = [name for name in WAYS if not bench.quick or name not in ALTERNATIVES]
    turns = 6 if bench.quick else 20
    samples = {}
    with contextlib.ExitStack() as stack:
        ways = {}
        for name in wanted:
            with without(name, ways, samples):
                ways[name] = WAYS[name](bench)
                stack.callback(ways[name].close)
        for turn in range(-1, turns):
            # In no order: none always follows the same other one.
            for name in random.sample(list(ways), len(ways)):
                if name in SLOW and turn % SLOW_TURNS:
                    continue
                with without(name, ways, samples):
                    reply, true = ways[name].once()
                    if turn >= 0:
                        samples.setdefault(f"{name}_reply", []).append(reply)
                        samples.setdefault(name, []).append(true)
    return samples


@contextlib.contextmanager
def without(name, ways, samples):
    """A way that fails is left out from then on, and has no figures."""
    try:
        yield
    except (BenchError, OSError, ValueError, subprocess.SubprocessError) as e:
        log(f"reset: {name}: FAILED: {e}")
        ways.pop(name, None)
        samples.pop(name, None)
        samples.pop(f"{name}_reply", None)


def by_hand(bench, image):
    """Milliseconds of a machine for one command; its client is there before."""
    machine = bench.bare(image)
    start = time.perf_counter()
    machine.start()
    machine.load()
    machine.wake()
    machine.guest.ask("true")
    machine.process.kill()
    machine.process.wait()
    took = time.perf_counter() - start
    machine.kill()
    return took * 1000


def by_exec(bench, image):
    start = time.perf_counter()
    bench.home.run("exec", "-i", image, "--", "true")
    return (time.perf_counter() - start) * 1000


@group("exec", "One command in a new machine, the whole program",
       Row("hand_mini", "mini, QEMU by hand"),
       Row("exec_mini", "postern exec -- true", against="hand_mini", most=1.5),
       Row("hand_server", "systemd and nginx, QEMU by hand"),
       Row("exec_server", "postern exec -i SERVER -- true", against="hand_server", most=1.5))
def exec_(bench):
    ways = {f"{how}_{name}": lambda _, function=function, image=image: [function(bench, image)]
            for name, image in (("mini", MINI), ("server", SERVER))
            for how, function in (("hand", by_hand), ("exec", by_exec))}
    for once in ways.values():
        once(1)
    return bench.in_turns(5 if bench.quick else 25, 1, **ways)


def memory_of(pid):
    """Proportional and private MiB of a process."""
    kib = {}
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    for line in text.splitlines()[1:]:
        key, value, _ = line.split()
        kib[key] = int(value)
    private = kib["Private_Clean:"] + kib["Private_Dirty:"]
    return kib["Pss:"] / 1024, private / 1024


@contextlib.contextmanager
def machines(bench, image, count):
    """So many named machines, started at once: their names, and how many milliseconds it took."""
    names = [f"side{i}" for i in range(count)]
    bench.home.template(image)
    start = time.perf_counter()
    ups = [bench.home.start("up", name, "-i", image) for name in names]
    try:
        for process in ups:
            bench.home.end(process)
        yield names, (time.perf_counter() - start) * 1000
    finally:
        bench.home.run("down", "--all")


def idle_memory(bench, image, count, used=True):
    """Proportional and private MiB of each of so many idle machines, keeper and QEMU. used: after a
    command each."""
    with machines(bench, image, count) as (names, _):
        if used:
            check_answers(bench, names)
        processes = [bench.home.processes(name) for name in names]
        settle(*[qemu for _, qemu in processes])
        return [tuple(map(sum, zip(memory_of(keeper), memory_of(qemu))))
                for keeper, qemu in processes]


def floor_memory(bench, count):
    """The same sum for QEMU alone."""
    with contextlib.ExitStack() as stack:
        clones = []
        for _ in range(count):
            clones.append(bench.bare(SERVER))
            stack.callback(clones[-1].kill)
            clones[-1].start()
            clones[-1].load()
            clones[-1].wake()
            clones[-1].guest.ask("true")
        settle(*[clone.process.pid for clone in clones])
        return sum(memory_of(clone.process.pid)[0] for clone in clones)


@group("memory", "Memory of idle clones: 4 with what they share, then what each has alone",
       Row("floor_pss", "4 servers, QEMU alone", "MiB"),
       Row("pss", "4 servers, postern and keepers", "MiB", against="floor_pss", most=1.1),
       Row("mini_new", "one of mini, just up", "MiB"),
       Row("mini_256", "one of mini, of 256 MiB", "MiB", most=40, exact=True),
       Row("mini_1024", "one of mini, of 1 GiB", "MiB", against="mini_256", most=1.1),
       Row("server_256", "one server, of 256 MiB", "MiB", quick=False),
       Row("server_1024", "one server, of 1 GiB", "MiB", against="server_256", most=1.1,
           quick=False))
def memory(bench):
    count, rounds = 4, 1 if bench.quick else 3
    samples = {"floor_pss": [], "pss": []}
    for _ in range(rounds):
        samples["floor_pss"].append(floor_memory(bench, count))
        samples["pss"].append(sum(pss for pss, _ in idle_memory(bench, SERVER, count)))
    new = idle_memory(bench, bench.home.image(MINI, 256), count, used=False)
    samples["mini_new"] = [private for _, private in new]
    for name, image in (("mini", MINI),) if bench.quick else (("mini", MINI), ("server", SERVER)):
        for mib in (256, 1024):
            found = idle_memory(bench, bench.home.image(image, mib), count)
            samples[f"{name}_{mib}"] = [private for _, private in found]
    return samples


@group("side", "Servers side by side: until all are up, and their memory when idle",
       Row("up_1", "1"), Row("up_8", "8", against="up_1"),
       Row("up_32", "32", against="up_1", quick=False),
       Row("pss_1", "1", "MiB"), Row("pss_8", "8", "MiB", against="pss_1"),
       Row("pss_32", "32", "MiB", against="pss_1", quick=False))
def side(bench):
    samples = {}
    for count in (1, 8) if bench.quick else (1, 8, 32):
        for _ in range(1 if bench.quick else 3):
            with machines(bench, SERVER, count) as (names, ms):
                check_answers(bench, names)
                processes = [bench.home.processes(name) for name in names]
                settle(*[qemu for _, qemu in processes])
                total = sum(memory_of(pid)[0] for pair in processes for pid in pair)
            samples.setdefault(f"up_{count}", []).append(ms)
            samples.setdefault(f"pss_{count}", []).append(total)
    return samples


def check_answers(bench, names):
    """All at once, each with what it was asked."""
    asked = [(name, bench.home.start("exec", "-n", name, "--", "echo", name)) for name in names]
    for name, process in asked:
        said = bench.home.end(process).strip()
        if said != name:
            raise BenchError(f"the machine {name} answered '{said}'")


@group("build", "The first command of an image, which makes its template",
       Row("build_mini", "mini", "s"), Row("build_server", "systemd and nginx", "s"))
def build(bench):
    for image in (MINI, SERVER):
        bench.home.template(image)
    return {"build_mini": [bench.home.built[MINI]], "build_server": [bench.home.built[SERVER]]}
