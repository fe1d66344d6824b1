/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals by which processes end, for programs at signal:signal_generate. */
#ifndef PERFX_SIGNALS_BPF_H
#define PERFX_SIGNALS_BPF_H

#include "perfx.bpf.h"

#define BIT(signal) (1ull << ((signal)-1))
/* Signals that end a process by default. Of the others, a program handles some all the time, as
 * timers: these count only if it has no handler for them. */
#define SIGNALS_OF_NO_END \
	(BIT(17) | BIT(18) | BIT(19) | BIT(20) | BIT(21) | BIT(22) | BIT(23) | BIT(28))
#define SIGNALS_OF_AN_END                                                                 \
	(BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(9) | \
	 BIT(11) | BIT(15) | BIT(24) | BIT(25) | BIT(31))
#define FAULTS (BIT(4) | BIT(5) | BIT(7) | BIT(8) | BIT(11))

/* include/uapi/asm-generic/signal.h */
#define SIGKILL 9
/* include/trace/events/signal.h */
#define SIGNAL_DELIVERED  0
#define SIGNAL_LOSES_INFO 4
/* include/linux/sched/signal.h: not addresses */
#define SEND_SIG_NOINFO 0
#define SEND_SIG_PRIV	1
/* include/uapi/asm-generic/siginfo.h: codes of the kernel are above 0 */
#define SI_TIMER (-2)

/* By the tracepoint's arguments. */
static __always_inline bool may_end(int signal, int result)
{
	return !(BIT(signal) & SIGNALS_OF_NO_END) &&
	       (result == SIGNAL_DELIVERED || result == SIGNAL_LOSES_INFO);
}

static __always_inline bool is_handled(struct task_struct *task, int signal)
{
	__u64 actions, handler = 0;

	actions = (__u64)BPF_CORE_READ(task, sighand) +
		  bpf_core_field_offset(struct sighand_struct, action) +
		  (signal - 1) * bpf_core_type_size(struct k_sigaction) +
		  bpf_core_field_offset(struct k_sigaction, sa) +
		  bpf_core_field_offset(struct sigaction, sa_handler);
	bpf_probe_read_kernel(&handler, sizeof(handler), (const void *)actions);
	return handler > 1; /* SIG_DFL, SIG_IGN */
}

#endif
