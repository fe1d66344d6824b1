# SPDX-License-Identifier: BSD-2-Clause
"""FLOPs of calls by their arguments: hand-written cost programs, run on calls with known shapes."""
import subprocess

import pytest

from conftest import BUILD, LINKS


@pytest.mark.kernel
@pytest.mark.parametrize("link", LINKS)
def test_programs(link, links):
    """Each case contains its expectation and ends the program if it does not hold."""
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    done = subprocess.run([BUILD / "e2e" / "cost", link], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all right\n")
