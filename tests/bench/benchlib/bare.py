# SPDX-License-Identifier: Apache-2.0
"""QEMU by hand: with the command line of a machine of postern's, and the files of its template."""

import atexit
import json
import os
import pathlib
import re
import socket
import subprocess

from .channel import Channel, RawPort
from .util import BenchError, run, tail

CAPABILITIES = [{"capability": name, "state": True} for name in ("events", "x-ignore-shared")]


class Client(RawPort):
    """client.c, which drives postern's agent."""

    def __init__(self, program, explain, channel=None):
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [program, *([str(channel.fileno())] if channel else [])],
                pass_fds=[channel.fileno()] if channel else [], stdin=theirs, stdout=theirs)
        super().__init__(ours, "client", explain)

    def ask(self, line):
        self.send(line.encode() + b"\n")
        status, length = map(int, self.line().split())
        said = self.take(length).decode(errors="replace")
        if status:
            raise BenchError(f"'{line}' ended with {status}: {said}\n{self.explain()}")

    def close(self):
        super().close()
        self.process.wait()


class Qmp(Channel):
    """QEMU's control socket."""

    def __init__(self, sock, explain):
        super().__init__(sock, "QMP", explain)
        self.events = []

    def call(self, command, fd=None, **arguments):
        request = {"execute": command,
                   "arguments": {k.replace("_", "-"): v for k, v in arguments.items()}}
        data = json.dumps(request).encode() + b"\n"
        if fd is None:
            self.send(data)
        else:
            socket.send_fds(self.sock, [data], [fd])
        while True:
            message = json.loads(self.line())
            if "event" in message:
                self.events.append(message)
            elif "error" in message:
                raise BenchError(f"QMP refused {command}: {message['error'].get('desc')}")
            elif "return" in message:
                return message["return"]

    def greet(self):
        self.line()
        self.call("qmp_capabilities")

    def monitor(self, line):
        """A command of the human monitor, which prints only when something is wrong."""
        said = self.call("human-monitor-command", command_line=line)
        if said.strip():
            raise BenchError(f"monitor command '{line}' failed: {said.strip()}")

    def loaded(self):
        """Wait for the end of a migration."""
        while True:
            message = self.events.pop(0) if self.events else json.loads(self.line())
            status = message.get("data", {}).get("status")
            if message.get("event") == "MIGRATION" and status == "completed":
                return
            if message.get("event") == "MIGRATION" and status == "failed":
                raise BenchError(f"the state can't be loaded\n{self.explain()}")


class Recipe:
    """How postern starts a clone of an image, taken from one that runs, and what it starts from."""

    def __init__(self, qemu_pid, template):
        command = pathlib.Path(f"/proc/{qemu_pid}/cmdline").read_bytes()
        self.words = command.decode().split("\0")[:-1]
        identity = json.loads((template / "template.json").read_text(encoding="utf-8"))["id"]
        self.state = (template / f"{identity}.state").read_bytes()
        self.disk = template / f"{identity}.qcow2" if "-blockdev" in self.words else None

    def command(self, fds, overlay, cold):
        """The same for other descriptors and another overlay; cold: for a boot, with memory of its
        own."""
        words = [re.sub(r"^(socket,id=(control|console|port),fd=)\d+$",
                        lambda m: m.group(1) + str(fds[m.group(2)]), word) for word in self.words]
        if overlay:
            at = words.index("-blockdev") + 1
            node = json.loads(words[at])
            node["file"]["filename"] = str(overlay)
            words[at] = json.dumps(node)
        if cold:
            for option in ("-object", "-incoming"):
                at = words.index(option)
                del words[at:at + 2]
            words = [word.replace(",memory-backend=ram", "") for word in words]
        return words


def overlay_on(backing, path):
    path.unlink(missing_ok=True)
    run("qemu-img", "create", "-q", "-f", "qcow2", "-b", backing, "-F", "qcow2", path)
    return path


_alive = set()


@atexit.register
def kill_all():
    """What a measurement that failed left."""
    for machine in list(_alive):
        machine.kill()


class Bare:
    """One QEMU of a recipe, with a client of its agent that is there before it. A clone waits for
    load() and wake(); with `cold` it boots. With `listen` the channel is a socket at that path, for
    hosts that come and go."""

    def __init__(self, recipe, directory, program, backing=None, cold=False, listen=None):
        self.recipe, self.backing, self.cold = recipe, backing, cold
        stem = directory / os.urandom(4).hex()
        self.errors, self.overlay = stem.with_suffix(".qemu"), stem.with_suffix(".qcow2")
        self.process = None
        self.ours, self.theirs = {}, {}
        for name in ("control", "console", "port"):
            self.ours[name], self.theirs[name] = socket.socketpair()
        self.qmp = Qmp(self.ours["control"], self.explain)
        self.guest = Client(program, self.explain, None if listen else self.ours["port"])
        self.ours["port"].close()
        self.fds = {name: str(s.fileno()) for name, s in self.theirs.items()}
        if listen:
            self._listen(str(listen))

    def _listen(self, path):
        self.theirs["port"].close()
        self.theirs["port"] = socket.socket(socket.AF_UNIX)
        self.theirs["port"].bind(path)
        self.theirs["port"].listen(1)
        self.fds["port"] = f"{self.theirs['port'].fileno()},server=on,wait=off"

    def start(self):
        if self.backing:
            overlay_on(self.backing, self.overlay)
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                self.recipe.command(self.fds, self.overlay if self.backing else None, self.cold),
                pass_fds=[s.fileno() for s in self.theirs.values()],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        _alive.add(self)
        for s in self.theirs.values():
            s.close()

    def load(self):
        """Everything but the state."""
        self.qmp.greet()
        self.qmp.call("migrate-set-capabilities", capabilities=CAPABILITIES)
        self.pipe, theirs = socket.socketpair()
        with theirs:
            self.qmp.call("getfd", fd=theirs.fileno(), fdname="state")
        self.qmp.call("migrate-incoming", uri="fd:state")

    def wake(self):
        with self.pipe:
            self.pipe.sendall(self.recipe.state)
            self.pipe.shutdown(socket.SHUT_WR)
            self.qmp.loaded()
        self.qmp.call("cont")
        self.guest.ask("wait")

    def explain(self):
        """What is known about this machine, for an error message."""
        state = self.process and self.process.poll()
        return (f"  QEMU {'still runs' if state is None else f'ended with {state}'}\n"
                f"  QEMU said: {tail(self.errors) or '(nothing)'}")

    def kill(self):
        if self in _alive:
            _alive.discard(self)
            self.process.kill()
            self.process.wait()
            self.guest.close()
            self.qmp.close()
            self.ours["console"].close()
            self.overlay.unlink(missing_ok=True)
            self.errors.unlink(missing_ok=True)
