"""`RESULTS.md`: one section for each benchmark, replaced when it runs again.

Belongs here: the page, and the line that says on which machine a section was measured.
"""

import datetime
import os
import platform
import re
from pathlib import Path

PAGE = Path(__file__).with_name("RESULTS.md")
_HEAD = "# Results\n\nWritten by `make bench`. Ratios hold from machine to machine better than times.\n"


def replace_section(name: str, section: str) -> None:
    """Put a section in the place of its predecessor, or at the end of the page. What people add below a section's
    end mark stays."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else _HEAD
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    marked = f"{begin}\n{section.strip()}\n{end}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    page = pattern.sub(lambda _: marked, page) if pattern.search(page) else f"{page.rstrip()}\n\n{marked}\n"
    PAGE.write_text(page, encoding="utf-8")


def machine() -> str:
    """Processor, cores, Python, date."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{_processor()}, {cores} cores, {platform.system()}, Python {platform.python_version()}, {date}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
