# SPDX-License-Identifier: BSD-2-Clause
"""What dwfl_stacks prints, as gdb unwinds them: gdb -p PID -x gdb_stacks.py. Frames that gdb makes of debug
information alone, of what is inlined and of tail calls, are left out: nothing on the stack is theirs."""
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
