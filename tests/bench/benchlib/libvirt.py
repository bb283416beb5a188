# SPDX-License-Identifier: Apache-2.0
"""A private libvirt session daemon, run as an ordinary user, and its one domain.

It has a configuration, folders and a socket of its own, so no daemon of the system takes part.
Where the guest is emulated that user must not reach /dev/kvm: libvirt would probe and prefer it.
"""

import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from .bare import Client, overlay_on
from .util import BenchError, run, tail, wait_until

DOMAIN = "bench"
USER = "nobody"

# libvirtd leaves the QEMU processes that it starts to process 1 and waits for them to vanish, which
# is slow where process 1 is slow to reap. This parent adopts and reaps them at once.
REAPER = """
import ctypes, json, os, signal, subprocess, sys
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None)
libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
daemon = subprocess.Popen(sys.argv[2:], **json.loads(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: os.kill(daemon.pid, signal.SIGTERM))
while True:
    pid, status = os.wait()
    if pid == daemon.pid:
        sys.exit(abs(os.waitstatus_to_exitcode(status)))
"""

# One daemon less: otherwise libvirt starts virtlogd for QEMU's messages.
QEMU_CONF = 'stdio_handler = "file"\n'

CPU = {"tcg": "<cpu mode='custom' match='exact' check='none'><model>Westmere</model>"
              "<feature policy='require' name='rdrand'/></cpu>",
       "kvm": "<cpu mode='host-passthrough'/>"}
DOMAIN_XML = """\
<domain type='{type}'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{dir}/kernel</kernel>
    <initrd>{dir}/initramfs</initrd>
    <cmdline>{append}</cmdline>
  </os>
  <features><acpi/></features>
  {cpu}
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>{emulator}</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe'/>
      <source file='{dir}/disk.qcow2'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <channel type='unix'>
      <source mode='bind' path='{dir}/channel'/>
      <target type='virtio' name='channel.0'/>
    </channel>
    <serial type='file'><source path='{dir}/console'/></serial>
    <controller type='usb' model='none'/>
    <video><model type='none'/></video>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def identity():
    """Who runs the daemon, as arguments of subprocess; nothing when that is who we are."""
    if os.geteuid():
        return {}
    entry = pwd.getpwnam(USER)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class Libvirt:
    """The daemon and its domain. All files are in a folder with a short name: a UNIX socket's path
    has 107 bytes at most."""

    def __init__(self, image, accelerator, program):
        self.user = identity()
        self.daemon = None
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="bench-virt-"))
        self.disk = self.dir / "disk.qcow2"
        self.frozen = self.dir / "frozen.qcow2"
        self.saved = self.dir / "saved"
        self.channel = self.dir / "channel"
        self.log = self.dir / "daemon"
        self._fill(image, accelerator)
        self.environment = {
            "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "LC_ALL": "C",
            "HOME": str(self.dir), "XDG_CONFIG_HOME": str(self.dir / "config"),
            "XDG_CACHE_HOME": str(self.dir / "cache"), "XDG_RUNTIME_DIR": str(self.dir / "run")}
        self.socket = self.dir / "run/libvirt/libvirt-sock"
        self.guest = Client(program, self.explain)
        try:
            self._start(accelerator)
        except BaseException:
            self.close()
            raise

    def _fill(self, image, accelerator):
        """The user may not be able to read the image where it is, so these are copies."""
        about = json.loads((image / "image.json").read_text(encoding="utf-8"))
        for name in ("config/libvirt", "run", "cache"):
            (self.dir / name).mkdir(parents=True)
        (self.dir / "config/libvirt/libvirtd.conf").touch()
        (self.dir / "config/libvirt/qemu.conf").write_text(QEMU_CONF, encoding="ascii")
        for part, name in (("kernel", "kernel"), ("initramfs", "initramfs"),
                           ("disk", "base.qcow2")):
            shutil.copyfile(image / about[part], self.dir / name)
        overlay_on(self.dir / "base.qcow2", self.disk)
        (self.dir / "domain.xml").write_text(DOMAIN_XML.format(
            type="qemu" if accelerator == "tcg" else accelerator, cpu=CPU[accelerator],
            name=DOMAIN, memory=about["memory_mib"], append=about["append"], dir=self.dir,
            emulator=shutil.which("qemu-system-x86_64")), encoding="ascii")
        for path in [self.dir, *self.dir.rglob("*")]:
            self._own(path)

    def _own(self, path):
        if self.user:
            os.chown(path, self.user["user"], self.user["group"])

    def _start(self, accelerator):
        command = ["libvirtd", "--config", self.dir / "config/libvirt/libvirtd.conf",
                   "--pid-file", self.dir / "run/libvirtd.pid"]
        command[0] = shutil.which(command[0], path=self.environment["PATH"])
        if not command[0]:
            raise BenchError("the program libvirtd is missing: run ./deps.sh bench")
        if accelerator == "tcg" and not subprocess.run(["test", "-r", "/dev/kvm"], check=False,
                                                       **self.user).returncode:
            raise BenchError(f"libvirt would use /dev/kvm: run this as a user who can't open it "
                             f"(root's daemon is run as {USER})")
        with open(self.log, "wb") as output:
            self.daemon = subprocess.Popen(
                [sys.executable, "-c", REAPER, json.dumps(self.user), *map(str, command)],
                cwd=self.dir, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)

        def up():
            if self.daemon.poll() is not None:
                raise BenchError(f"libvirtd ended at once:\n{tail(self.log)}")
            return self.socket.exists()

        wait_until(up, 60, lambda: "libvirtd's socket")

    def virsh(self, *words):
        return run("virsh", "-q", "-c", f"qemu:///session?socket={self.socket}", *words,
                   env=self.environment, cwd=self.dir, **self.user)

    def boot(self):
        self.virsh("create", self.dir / "domain.xml")
        self.guest.ask(f"attach {self.channel}")

    def save(self):
        """To be restored from, on overlays of the disk as it was then."""
        self.virsh("save", DOMAIN, self.saved)
        self.disk.rename(self.frozen)
        self._restore()

    def _restore(self):
        self._own(overlay_on(self.frozen, self.disk))
        self.virsh("restore", self.saved)
        self.guest.ask(f"attach {self.channel}")

    def reset(self):
        self.virsh("destroy", DOMAIN)
        self._restore()

    @property
    def pid(self):
        """The domain's QEMU."""
        return int((self.dir / f"run/libvirt/qemu/run/{DOMAIN}.pid").read_text(encoding="ascii"))

    def explain(self):
        return f"  libvirtd said: {tail(self.log) or '(nothing)'}"

    def close(self):
        self.guest.close()
        if self.daemon and self.daemon.poll() is None:
            try:
                self.virsh("destroy", DOMAIN)
            except BenchError:
                pass  # it does not run
            self.daemon.terminate()
            self.daemon.wait(timeout=30)
        self._kill_left()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _kill_left(self):
        """The domain's QEMU, if libvirtd failed without ending it."""
        try:
            pid = self.pid
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return
        if str(self.dir).encode() in command:
            os.kill(pid, signal.SIGKILL)
