# SPDX-License-Identifier: BSD-2-Clause
"""Prints gdb's stacks in the format of dwfl_stacks: gdb -p PID -x gdb_stacks.py. Frames that gdb
derives from debug information only (inlined functions, tail calls) are left out, because they have no
place on the stack."""
import json

import gdb

gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
MADE_UP = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)

for thread in gdb.selected_inferior().threads():
    thread.switch()
    addresses = []
    frame = gdb.newest_frame()
    while frame:
        if frame.type() not in MADE_UP:
            addresses.append(frame.pc())
        reason = frame.unwind_stop_reason()
        frame = frame.older()
    print(json.dumps({"tid": thread.ptid[1], "addresses": addresses, "whole": reason == gdb.FRAME_UNWIND_OUTERMOST}))
