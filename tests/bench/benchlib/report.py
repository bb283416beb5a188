# SPDX-License-Identifier: Apache-2.0
"""The table: medians, spread, ratios, budgets."""

import os
import pathlib
import platform
import re

from .measures import summary
from .util import run

KNOWN = pathlib.Path(__file__).resolve().parent.parent / "missed.txt"
HEAD = ["", "median", "p10", "p90", "max", "runs", "ratio", "to", "budget", ""]


def known():
    """Ids of the rows that are known to miss their budget."""
    lines = (line.split("#")[0].strip() for line in KNOWN.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


def number(value):
    """With a precision that suits its size."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def verdict(row, figures, values, quick):
    """Cells for ratio, reference and budget, and "ok", "MISSED", "known" (missed) or nothing."""
    value = figures[row.judge]
    cells = ["", ""]
    if row.against and not values.get(row.against):
        return ["", "", "", ""]
    if row.against:
        value /= summary(values[row.against])["median"]
        cells = [f"{value:.2f}", row.against.replace("_", " ")]
    limit = row.limit(quick)
    if limit is None:
        return [*cells, "", ""]
    kept = value <= limit if row.most is not None else value >= limit
    sign = "<=" if row.most is not None else ">="
    return [*cells, f"{sign} {limit:g}{'' if row.against else ' ' + row.unit}",
            "ok" if kept else "known" if quick and row.id in known() else "MISSED"]


def lines_of(group, values, quick):
    yield [group.title]
    for row in group.rows:
        if quick and not row.quick:
            continue
        if not values.get(row.id):
            yield [f"  {row.label}", "FAILED"]
            continue
        figures = summary(values[row.id])
        spread = [number(figures[k]) if figures["runs"] > 1 else "" for k in ("p10", "p90", "max")]
        yield [f"  {row.label}", f"{number(figures['median'])} {row.unit}", *spread,
               str(figures["runs"]), *verdict(row, figures, values, quick)]


def table(groups, values, quick):
    """The text, and how many rows missed their budget or failed."""
    lines = [HEAD]
    for group in groups:
        lines += lines_of(group, values, quick)
    widths = [max(len(line[i]) for line in lines if len(line) > max(i, 1))
              for i in range(len(HEAD))]
    text = []
    for line in lines:
        if len(line) == 1:
            text += ["", line[0]]
            continue
        cells = [cell.ljust(width) if i in (0, 7, 8, 9) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(line, widths))]
        text.append("  ".join(cells).rstrip())
    bad = sum(line[-1] in ("MISSED", "FAILED") for line in lines)
    return "\n".join(text), bad


def conditions(accelerator, image):
    """What has to be known to compare a run with another."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = re.search(r"^model name\s*:\s*(.*)$", f.read(), re.M)
    qemu = run("qemu-system-x86_64", "--version").splitlines()[0]
    kernel = image["inputs"]["kernel"]["package"].removeprefix("linux-image-")
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (f"{cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} CPUs, Linux "
            f"{platform.release()}, {qemu}; guest: {accelerator}, 1 CPU, {image['memory_mib']} MiB, "
            f"{kernel}; load {load}")
