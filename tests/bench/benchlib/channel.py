# SPDX-License-Identifier: Apache-2.0
"""The other ways into a guest: the raw port, the QEMU guest agent and ssh."""

import base64
import json
import os
import random
import socket
import subprocess
import tempfile
import time

from .util import BenchError, run, wait_until

REPLY_TIMEOUT = 120


class Channel:
    """A connected stream socket read in lines or counted bytes."""

    def __init__(self, sock, name, explain):
        self.sock = sock
        self.name = name
        self.explain = explain
        self.buffer = bytearray()
        sock.settimeout(REPLY_TIMEOUT)

    def close(self):
        self.sock.close()

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as e:
            raise BenchError(f"{self.name}: cannot send ({e})\n{self.explain()}") from None

    def _receive(self):
        try:
            data = self.sock.recv(1 << 20)
        except OSError as e:
            raise BenchError(f"{self.name}: cannot receive ({e})\n{self.explain()}") from None
        if not data:
            raise BenchError(f"{self.name}: closed by the other end\n{self.explain()}")
        self.buffer += data

    def line(self):
        start = 0
        while (end := self.buffer.find(b"\n", start)) < 0:
            start = len(self.buffer)
            self._receive()
        line = bytes(self.buffer[:end])
        del self.buffer[:end + 1]
        return line

    def take(self, count):
        while len(self.buffer) < count:
            self._receive()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data


class RawPort(Channel):
    """Host end of guest.c, for what is not measured."""

    def sh(self, command):
        """Output of a shell command in the guest that must succeed."""
        self.send(f"sh {command}\n".encode())
        status, length = map(int, self.line().split())
        output = self.take(length).decode(errors="replace").strip()
        if status:
            raise BenchError(f"in the guest, '{command}' ended with {status}: {output}")
        return output


class GuestAgent(Channel):
    """Client of the QEMU guest agent."""

    def call(self, command, **arguments):
        request = {"execute": command}
        if arguments:
            request["arguments"] = {k.replace("_", "-"): v for k, v in arguments.items()}
        self.send(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.line())
        if "error" in answer:
            raise BenchError(f"qemu-ga refused {command}: {answer['error'].get('desc')}")
        return answer["return"]

    def sync(self):
        """Discard what may be in the stream."""
        number = random.getrandbits(31)
        request = {"execute": "guest-sync-delimited", "arguments": {"id": number}}
        self.send(b"\xff" + json.dumps(request).encode() + b"\n")
        while json.loads(self.line().rpartition(b"\xff")[2]).get("return") != number:
            pass

    def true(self):
        """Run it and ask for its end every 10 ms; to ask without a pause takes twice as long."""
        pid = self.call("guest-exec", path="/bin/true")["pid"]
        status = {"exited": False}
        while not status["exited"]:
            time.sleep(0.010)
            status = self.call("guest-exec-status", pid=pid)
        if status.get("exitcode") != 0:
            raise BenchError(f"qemu-ga: /bin/true ended with {status}")

    def read_file(self, path, chunk):
        handle = self.call("guest-file-open", path=path)
        data = bytearray()
        eof = False
        while not eof:
            part = self.call("guest-file-read", handle=handle, count=chunk)
            data += base64.b64decode(part["buf-b64"])
            eof = part["eof"]
        self.call("guest-file-close", handle=handle)
        return data

    def write_file(self, path, data, chunk):
        handle = self.call("guest-file-open", path=path, mode="w")
        for at in range(0, len(data), chunk):
            part = base64.b64encode(data[at:at + chunk]).decode()
            self.call("guest-file-write", handle=handle, buf_b64=part)
        self.call("guest-file-close", handle=handle)


class Ssh:
    """OpenSSH client for the guest behind a forwarded loopback port."""

    def __init__(self, directory, port):
        self.port = port
        self.master = None
        self.control_dir = None
        self.key = directory / "key"
        self.known_hosts = directory / "known_hosts"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", self.key)
        self.public = self.key.with_suffix(".pub").read_text(encoding="ascii").strip()
        self.options = [
            "-F", "none", "-i", self.key, "-o", "BatchMode=yes",
            "-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias=guest",
            "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "ConnectTimeout=60"]

    def trust(self, host_key):
        self.known_hosts.write_text(f"guest {host_key}\n", encoding="ascii")

    def true(self):
        run("ssh", *self.options, "-p", self.port, "root@127.0.0.1", "/bin/true")

    def copy(self, source, target):
        run("scp", "-q", *self.options, "-P", self.port, source, target)

    @staticmethod
    def remote(path):
        return f"root@127.0.0.1:{path}"

    def start_master(self):
        """From now on commands go through one open connection."""
        # In a directory of its own with a short name: a Unix socket's path has 107 bytes at most.
        self.control_dir = tempfile.TemporaryDirectory(prefix="bench-ssh-")
        control = os.path.join(self.control_dir.name, "control")
        self.options += ["-o", f"ControlPath={control}"]
        self.master = subprocess.Popen(
            [*map(str, ["ssh", *self.options, "-M", "-N", "-p", self.port, "root@127.0.0.1"])],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def ready():
            if self.master.poll() is not None:
                raise BenchError("the ssh master connection ended early")
            return os.path.exists(control)

        wait_until(ready, REPLY_TIMEOUT, lambda: "the ssh control socket")

    def stop_master(self):
        if self.master:
            self.master.terminate()
            self.master.wait()
            self.master = None
            self.control_dir.cleanup()
            del self.options[-2:]

