# SPDX-License-Identifier: BSD-2-Clause
"""What a call computes by its arguments: programs written by hand, run on calls with known shapes."""
import subprocess

import pytest

from conftest import BUILD, LINKS


@pytest.mark.kernel
@pytest.mark.parametrize("link", LINKS)
def test_programs(link, links):
    """Each case says itself what it expects and ends the program where it is not so."""
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    done = subprocess.run([BUILD / "e2e" / "cost", link], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all right\n")
