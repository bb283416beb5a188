# SPDX-License-Identifier: Apache-2.0
"""The ways to make a used guest new: postern's, QEMU by hand, loadvm, libvirt, a boot."""

import socket
import time

from .bare import Client
from .channel import REPLY_TIMEOUT
from .libvirt import Libvirt
from .machine import BOOT_SECONDS
from .util import BenchError, settle, wait_until

SERVER = "bench"

DIRTY = "sh touch /run/dirty /var/lib/dirty && sync"
# Both traces are gone, and nginx serves.
CLEAN = ("sh test ! -e /run/dirty && test ! -e /var/lib/dirty && "
         "bash -c 'exec 3<>/dev/tcp/127.0.0.1/80; printf \"HEAD / HTTP/1.0\\r\\n\\r\\n\" >&3; "
         "head -n 1 <&3' | grep -q 200")
UP = "sh systemctl is-system-running --wait"


class Way:
    """One way to reset a guest. On the clock: reset(), which returns when the clean guest has
    replied, and true(). Off the clock: prepare(), before, and finish(), after."""

    def __init__(self, bench):
        self.bench = bench
        self.home = bench.home
        self.guest = None

    def ask(self, line):
        self.guest.ask(line)

    def prepare(self):
        pass

    def finish(self):
        pass

    def true(self):
        self.ask("true")

    def once(self):
        """Milliseconds to the reply, and to the end of the command."""
        self.ask(DIRTY)
        self.prepare()
        start = time.perf_counter()
        self.reset()
        replied = time.perf_counter()
        self.true()
        ended = time.perf_counter()
        self.finish()
        self.ask(CLEAN)
        return (replied - start) * 1000, (ended - start) * 1000


class Commands(Way):
    """postern reset NAME, then postern exec -n NAME: two programs, as typed."""
    name = "box"

    def __init__(self, bench):
        super().__init__(bench)
        self.home.up(self.name, SERVER)

    def ask(self, line):
        self.home.run("exec", "-n", self.name, "--", "sh", "-c", line.removeprefix("sh "))

    def reset(self):
        self.home.run("reset", self.name)

    def true(self):
        self.home.run("exec", "-n", self.name, "--", "/bin/true")

    def close(self):
        self.home.run("down", self.name)


class Sockets(Way):
    """The same keeper without the two programs: its control socket, then its channel."""
    name = "socket"

    def __init__(self, bench):
        super().__init__(bench)
        self.home.up(self.name, SERVER)
        self.folder = self.home.path / "machines" / self.name
        self.guest = Client(bench.client_program,
                            lambda: f"  its folder: {self.folder}")
        self.ask(f"attach {self.folder}/socket")

    def reset(self):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(REPLY_TIMEOUT)
            control.connect(str(self.folder / "control"))
            control.sendall(b"reset\n")
            said = b""
            while chunk := control.recv(65536):
                said += chunk
        if b'"done"' not in said:
            raise BenchError(f"the keeper does not reset: {said}")
        self.ask(f"attach {self.folder}/socket")

    def close(self):
        self.guest.close()
        self.home.run("down", self.name)


class Floor(Way):
    """QEMU alone, by postern's command line and template."""
    waiting = False  # started before, with all but the state

    def __init__(self, bench):
        super().__init__(bench)
        self.old = None
        self.next = self.current = bench.bare(SERVER)
        self._start()
        self._wake()

    def _wake(self):
        self.next.wake()
        self.old, self.current, self.guest = self.current, self.next, self.next.guest

    def _start(self):
        self.next.start()
        self.next.load()

    def prepare(self):
        self.next = self.bench.bare(SERVER)
        if self.waiting:
            self._start()

    def reset(self):
        if not self.waiting:
            self._start()
        self._wake()

    def finish(self):
        self.old.kill()

    def close(self):
        self.current.kill()


class Waiting(Floor):
    waiting = True


class Loadvm(Way):
    """A snapshot in the disk, loaded into the same QEMU."""

    def __init__(self, bench):
        super().__init__(bench)
        self.path = bench.directory / "loadvm"
        self.machine = bench.bare(SERVER, cold=True, listen=self.path)
        self.machine.start()
        self.machine.qmp.greet()
        self.guest = self.machine.guest
        self.ask(f"attach {self.path}")
        warm_up(self.guest, self.machine.process.pid)
        self.machine.qmp.monitor("savevm warm")

    def reset(self):
        self.machine.qmp.monitor("loadvm warm")
        self.ask(f"attach {self.path}")

    def close(self):
        self.machine.kill()


class Virsh(Way):
    """virsh destroy, virsh restore."""

    def __init__(self, bench):
        super().__init__(bench)
        self.libvirt = Libvirt(self.home.images / SERVER, bench.accelerator, bench.client_program)
        self.guest = self.libvirt.guest
        try:
            self.libvirt.boot()
            warm_up(self.guest, self.libvirt.pid)
            self.libvirt.save()
        except BaseException:
            self.libvirt.close()
            raise

    def reset(self):
        self.libvirt.reset()

    def close(self):
        self.libvirt.close()


class Boot(Way):
    """A boot, until systemd has started everything. Its agent replies long before."""

    def __init__(self, bench):
        super().__init__(bench)
        self.current = None
        self.prepare()
        self.reset()
        self.true()

    def prepare(self):
        self.next = self.bench.bare(SERVER, cold=True)

    def reset(self):
        self.old, self.current = self.current, self.next
        self.guest = self.current.guest
        self.current.start()
        self.ask("wait")

    def true(self):
        wait_up(self.guest)
        self.ask("true")

    def finish(self):
        self.old.kill()

    def close(self):
        self.current.kill()


def wait_up(guest):
    """systemd answers some time after the agent."""
    said = ""

    def answers():
        nonlocal said
        try:
            guest.ask(UP)
        except BenchError as e:
            said = str(e)
            return False
        return True

    wait_until(answers, BOOT_SECONDS, lambda: f"the guest's boot; it said last: {said}", 0.02)


def warm_up(guest, pid):
    """As a template is: booted, nginx and the agent used, idle."""
    wait_up(guest)
    for _ in range(10):
        guest.ask(CLEAN)
        guest.ask("true")
    settle(pid)


# A pool of postern's would be one more way here, its budget against "waiting".
WAYS = {"cold": Floor, "reset_socket": Sockets, "reset": Commands, "waiting": Waiting,
        "loadvm": Loadvm, "libvirt": Virsh, "boot": Boot}
ALTERNATIVES = ("loadvm", "libvirt", "boot")  # not in the quick form
SLOW = ("libvirt", "boot")
SLOW_TURNS = 4  # they have one turn in so many
