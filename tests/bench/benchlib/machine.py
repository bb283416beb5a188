# SPDX-License-Identifier: Apache-2.0
"""The one guest of a run: QEMU with three ports and a network card, and what is set up in it."""

import atexit
import json
import os
import pathlib
import socket
import subprocess

from .channel import GuestAgent, RawPort, Ssh
from .util import BenchError, free_port, run, settle, tail, wait_until

# As postern starts its machines (host/machine/qemu.c).
COMMON = [
    "-nodefaults", "-no-user-config", "-display", "none", "-smp", "1", "-action", "panic=none",
    "-machine", "q35,usb=off,hpet=off,vmport=off,sata=off,smbus=off",
    "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]
CPU = {"tcg": "Westmere,+rdrand", "kvm": "host"}

BOOT_SECONDS = 240

SET_UP = """
cat >/usr/local/sbin/bench-guest
chmod 0755 /usr/local/sbin/bench-guest
systemd-run -q --unit=bench-raw /usr/local/sbin/bench-guest serve
systemctl start qemu-guest-agent
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
mkdir -p -m 0700 /root/.ssh
echo "$1" >/root/.ssh/authorized_keys
"""


class Machine:
    """A warm guest. Postern's port listens, so that every measurement attaches anew; the other
    two are socketpairs. All three are stream sockets to QEMU."""

    def __init__(self, image, accelerator, port_program, guest_program, directory):
        self.directory = pathlib.Path(directory)
        self.port_program = port_program
        self.log = self.directory / "console"
        self.errors = self.directory / "qemu"
        self.path = str(self.directory / "channel.0")
        self.process = None
        self.ssh = Ssh(self.directory, free_port())
        self._start(pathlib.Path(image), accelerator)
        atexit.register(self.kill)
        self._set_up(guest_program)

    def _start(self, image, accelerator):
        about = json.loads((image / "image.json").read_text(encoding="utf-8"))
        overlay = self.directory / "overlay.qcow2"
        run("qemu-img", "create", "-q", "-f", "qcow2", "-b", (image / about["disk"]).resolve(),
            "-F", "qcow2", overlay)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(1)
        raw, raw_theirs = socket.socketpair()
        guest_agent, guest_agent_theirs = socket.socketpair()
        theirs = {"channel.0": listener, "bench.raw": raw_theirs,
                  "org.qemu.guest_agent.0": guest_agent_theirs}
        command = [
            "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", *COMMON,
            "-accel", accelerator, "-cpu", CPU[accelerator], "-m", str(about["memory_mib"]),
            "-kernel", str(image / about["kernel"]), "-initrd", str(image / about["initramfs"]),
            "-append", about["append"], "-serial", f"file:{self.log}",
            "-drive", f"if=none,id=disk,file={overlay},format=qcow2,cache=unsafe",
            "-device", "virtio-blk-pci,drive=disk",
            "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.ssh.port}-:22",
            "-device", "virtio-net-pci,netdev=net,romfile=",
            "-device", "virtio-serial-pci,max_ports=4"]
        for number, (name, sock) in enumerate(theirs.items()):
            listens = ",server=on,wait=off" if sock is listener else ""
            command += ["-chardev", f"socket,id=port{number},fd={sock.fileno()}{listens}",
                        "-device", f"virtserialport,chardev=port{number},name={name}"]
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                command, pass_fds=[s.fileno() for s in theirs.values()],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        for sock in theirs.values():
            sock.close()
        self.raw = RawPort(raw, "raw port", self.explain)
        self.guest_agent = GuestAgent(guest_agent, "qemu-ga", self.explain)

    def _wait_booted(self):
        """systemd answers some time after the agent."""
        said = ""

        def answers():
            nonlocal said
            try:
                said = self.command("/bin/sh", "-c", "systemctl is-system-running --wait || :")
            except BenchError as e:
                said = str(e)
            return said in ("running", "degraded")

        wait_until(answers, BOOT_SECONDS, lambda: f"the guest's boot; it said last: {said}", 0.5)
        if said != "running":
            raise BenchError("units of the guest failed:\n"
                             + self.command("/bin/systemctl", "--failed", "--plain"))

    def _set_up(self, guest_program):
        """Through postern itself; what is measured comes after it."""
        self._wait_booted()
        with open(guest_program, "rb") as program:
            self.command("/bin/sh", "-euc", SET_UP, "set-up", self.ssh.public, stdin=program)
        self.ssh.trust(self.command("/bin/cat", "/etc/ssh/ssh_host_ed25519_key.pub"))
        self.raw.sh("true")
        self.guest_agent.sync()
        self.ssh.true()
        settle(self.process.pid)

    def explain(self):
        """What is known about this machine, for an error message."""
        state = self.process.poll()
        return (f"  QEMU {'still runs' if state is None else f'ended with {state}'}\n"
                f"  QEMU said: {tail(self.errors) or '(nothing)'}\n"
                f"  guest console: {tail(self.log) or '(nothing)'}")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.ssh.stop_master()
            self.process.kill()
            self.process.wait()

    def _port(self, *arguments, **popen):
        try:
            return run(self.port_program, *arguments, **popen)
        except BenchError as e:
            raise BenchError(f"{e}\n{self.explain()}") from None

    def command(self, *argv, stdin=subprocess.DEVNULL):
        """Output of a command in the guest, run by postern."""
        return self._port("postern", self.path, "run", *argv, stdin=stdin).strip()

    def measure(self, end, name, runs, *file):
        """Milliseconds of each run, and all else that the measuring program says."""
        if end == "raw":
            fd = self.raw.sock.fileno()
            said = self._port("raw", fd, name, runs, pass_fds=[fd])
        else:
            said = self._port("postern", self.path, name, runs, *file)
        lines = [json.loads(line) for line in said.splitlines()]
        return ([line["ms"] for line in lines if "ms" in line],
                {k: v for line in lines for k, v in line.items() if k != "ms"})

    def hold(self):
        """A host that is attached and does nothing; it goes when its standard input ends."""
        process = subprocess.Popen([self.port_program, "postern", self.path, "hold"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not process.stdout.readline():
            process.wait()
            raise BenchError(f"no session with the idle guest\n{self.explain()}")
        return process


def accelerator(postern):
    """What postern itself would choose on this host."""
    done = subprocess.run([postern, "doctor", "--json"], capture_output=True, text=True,
                          timeout=300, stdin=subprocess.DEVNULL, check=False)
    try:
        found = {f["what"]: f["found"] for f in json.loads(done.stdout)["findings"]}
        return found["accelerator"].partition(":")[0]
    except (ValueError, KeyError):
        raise BenchError("'postern doctor' does not say which accelerator this host has: "
                         f"{done.stderr.strip()}") from None


def stripped_size(program, directory):
    """KiB of a program without its symbols."""
    target = os.path.join(directory, "stripped")
    run("strip", "-o", target, program)
    return os.path.getsize(target) / 1024
