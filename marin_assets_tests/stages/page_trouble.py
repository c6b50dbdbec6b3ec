"""Stands in for `extract_page` where a test is about what is around it. Imports little: child processes import it."""

import os
import signal
import time

from marin_assets.stages.page_extraction import Extraction, PageRequest, Status


def extract_with_trouble(request: PageRequest) -> Extraction:
    """The page as it is, but for pages that ask for trouble."""
    page = str(request.html)
    if "kill" in page:
        os.kill(os.getpid(), signal.SIGKILL)
    if "hang" in page:
        time.sleep(60)
    if "raise" in page:
        raise ValueError("no way")
    return Extraction(Status.ok, None, page)


def extract_when_cheaper(request: PageRequest) -> Extraction:
    """Trouble, unless a cheaper method is asked for."""
    return Extraction(Status.ok, None, "all of its text") if request.cheaper else extract_with_trouble(request)
