# SPDX-License-Identifier: BSD-2-Clause
"""The tracer that pip installed: `python -m perfx_trace`. Annotations and profile() are in perfx."""
