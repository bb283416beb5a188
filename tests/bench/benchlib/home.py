# SPDX-License-Identifier: Apache-2.0
"""A POSTERN_HOME of this run: images, with other sizes of memory too, templates, named machines."""

import json
import os
import pathlib
import subprocess
import time

from .bare import Recipe
from .util import BenchError, run


class Home:
    """Nothing of the user's own home is touched: images are linked."""

    def __init__(self, directory, postern, images):
        self.path = pathlib.Path(directory) / "home"
        self.postern = pathlib.Path(postern).resolve()
        self.images = pathlib.Path(images).resolve()
        self.environment = os.environ | {"POSTERN_HOME": str(self.path)}
        self.built = {}  # seconds that the making of a template took, by image
        (self.path / "images").mkdir(parents=True)
        (self.path / "images/toolbox").symlink_to(self.images / "toolbox")

    def image(self, name, memory_mib=None):
        """The name of an image, or of the same with another size of memory."""
        made = f"{name}-{memory_mib}" if memory_mib else name
        folder = self.path / "images" / made
        if not folder.exists():
            about = json.loads((self.images / name / "image.json").read_text(encoding="utf-8"))
            folder.mkdir()
            for part in filter(None, (about["kernel"], about["initramfs"], about["disk"])):
                (folder / part).symlink_to(self.images / name / part)
            about["memory_mib"] = memory_mib or about["memory_mib"]
            (folder / "image.json").write_text(json.dumps(about), encoding="utf-8")
        return made

    def disk(self, image):
        folder = self.path / "images" / self.image(image)
        return (folder / "disk.qcow2").resolve()

    def template(self, image):
        """Make it, if it is not there yet."""
        if image not in self.built:
            self.image(image)
            start = time.monotonic()
            self.run("exec", "-i", image, "--", "true")
            self.built[image] = time.monotonic() - start
        return self.path / "templates" / image

    def run(self, *words):
        return run(self.postern, *words, env=self.environment)

    def start(self, *words):
        """A command of postern that runs beside others; end() waits for it."""
        return subprocess.Popen([str(self.postern), *words], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    @staticmethod
    def end(process):
        said = process.communicate(timeout=600)[0]
        if process.returncode:
            raise BenchError(f"'{' '.join(process.args)}' ended with {process.returncode}: {said}")
        return said

    def up(self, name, image):
        self.template(image)
        self.run("up", name, "-i", image)

    def processes(self, name):
        """Of a named machine: its keeper and its QEMU."""
        machines = json.loads(self.run("ls", "--json"))["machines"]
        keeper = next(m["keeper"] for m in machines if m["name"] == name)
        children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text(
            encoding="ascii").split()
        if len(children) != 1:
            raise BenchError(f"the keeper of {name} has {len(children)} children instead of one")
        return keeper, int(children[0])

    def recipe(self, image):
        """How postern starts a clone of it."""
        self.up("recipe", image)
        try:
            return Recipe(self.processes("recipe")[1], self.path / "templates" / image)
        finally:
            self.run("down", "recipe")

    def close(self):
        if (self.path / "machines").exists():
            self.run("down", "--all")
