/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records about the life of processes, included by perfx_record.h: what they are, fork, exec, and
 * how they end.
 */
#ifndef PERFX_RECORD_PROCESS_H
#define PERFX_RECORD_PROCESS_H

/* Started by the tracer: perfx-trace run. */
#define PERFX_PROCESS_LAUNCHED 0x1

/* strings: comm, cmdline (arguments joined by \x1f, secrets already hidden) */
struct perfx_process {
	struct perfx_record hdr;
	__u64 time_ns;
	__u64 start_boot_ns; /* when the process started, CLOCK_BOOTTIME */
	__u32 process;
	__u32 pid, ppid;
	__u32 exec_count; /* execs seen while tracing */
	__u32 merged;	  /* MERGED record of the capture that it was recorded in; 0: this one */
	__u32 flags;	  /* PERFX_PROCESS_ */
};
#define PERFX_FIELDS_process        \
	IS_TIME(time_ns)            \
	IS_BOOT_TIME(start_boot_ns) \
	IS_ID(process, PROCESS)

/* A new traced process. The child has its own index from its first instruction. */
struct perfx_fork {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process, parent_process;
	__u32 pid, ppid; /* tgid */
};
#define PERFX_FIELDS_fork       \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS) \
	IS_ID(parent_process, PROCESS)

/* Executed by a thread other than the main one: links by pid do not follow. */
#define PERFX_EXEC_BY_THREAD 0x1

/* exec: the old process index ends, a new one begins for the same pid. */
struct perfx_exec {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process, old_process;
	__u32 pid;
	__u32 flags;			  /* PERFX_EXEC_ */
	__u64 net_rx_bytes, net_tx_bytes; /* of the old process, over internet sockets */
	/* The program's file, as /proc/PID/maps names it. */
	__u64 inode;
	__u32 dev_major, dev_minor;
	char comm[PERFX_COMM_BYTES]; /* the program's name; all 0: unknown */
};
#define PERFX_FIELDS_exec       \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS) \
	IS_ID(old_process, PROCESS)

#define PERFX_EXIT_USAGE  0x1 /* the record has the process's resource usage */
#define PERFX_EXIT_MEMORY 0x2 /* including memory: Linux 6.16 or later */
#define PERFX_EXIT_OOM	  0x4 /* the kernel's out-of-memory killer chose it */

struct perfx_exit {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process;
	__u32 pid;
	__s32 status; /* as wait(2) gives it: signal in the low 7 bits, exit code << 8 */
	__u32 flags;  /* PERFX_EXIT_ */
	/* CPU time of all its threads: run time by the scheduler; user and system by the clock
	 * tick, which only gives their proportion (kernel: cputime_adjust). */
	__u64 runtime_ns, user_tick_ns, system_tick_ns;
	__u64 net_rx_bytes, net_tx_bytes; /* over internet sockets */
	__u64 read_bytes, write_bytes;	  /* of storage */
	__u64 major_faults_count;
	/* Resident at the exit, in pages. Without MEMORY, the peak covers all programs that the
	 * process has executed. */
	__u64 anon_pages, file_pages, shmem_pages;
	__u64 peak_pages;
};
#define PERFX_FIELDS_exit \
	IS_TIME(time_ns)  \
	IS_ID(process, PROCESS)

/* Sent by a program: sender_pid, else by the kernel. */
#define PERFX_SIGNAL_SENT 0x1
/* The sender was ending itself: as the parent that the process wanted to die with, or as the first
 * process of its PID namespace. */
#define PERFX_SIGNAL_SENDER_ENDS 0x2
/* An instruction of thread `tid` caused it: `address` and `ip` are known. */
#define PERFX_SIGNAL_FAULT 0x4
/* The address is near the thread's stack pointer. */
#define PERFX_SIGNAL_NEAR_STACK 0x8
/* The address is mapped, and the mapping's permissions. */
#define PERFX_SIGNAL_MAPPED 0x10
#define PERFX_SIGNAL_READ   0x20
#define PERFX_SIGNAL_WRITE  0x40
#define PERFX_SIGNAL_EXEC   0x80
#define PERFX_SIGNAL_HEAP   0x100 /* of the kernel's brk */
#define PERFX_SIGNAL_STACK  0x200 /* of the main thread */
#define PERFX_SIGNAL_TMPFS  0x400 /* the mapped file is in memory: storage_bytes */
/* The process has a handler for it, so it need not end. */
#define PERFX_SIGNAL_HANDLED 0x800

/*
 * The last signal of an ended process that ends a process by default. Precedes its EXIT, and is the
 * cause of it if the status names the same signal. A signal that a handler raises again, after a
 * fault, does not replace the fault's.
 *
 * strings: comm of the sender, comm of the sender's parent, name of the mapped file; "": unknown
 */
struct perfx_signal {
	struct perfx_record hdr;
	__u64 time_ns; /* of the exit */
	__u32 process;
	__u32 pid;
	__u32 signal;
	__s32 code;  /* si_code; 0 if the sender gave none */
	__u32 tid;   /* to which it was sent */
	__u32 flags; /* PERFX_SIGNAL_ */
	__u32 sender_pid, sender_ppid;
	__u64 sent_ns;
	__u64 address, ip;
	__u64 mapping_start, mapping_end;
	__u64 file_offset, file_bytes; /* of the address in the mapped file; the file's size */
	__u32 dev_major, dev_minor;    /* of the mapped file */
	__u64 storage_bytes, storage_used_bytes; /* TMPFS: 0: no limit */
	/* The control group with the least memory left when the kernel killed the process: its
	 * inode number; 0: unknown. */
	__u64 cgroup, cgroup_limit_bytes, cgroup_used_bytes;
};
#define PERFX_FIELDS_signal \
	IS_TIME(time_ns)    \
	IS_TIME(sent_ns)    \
	IS_ID(process, PROCESS)

enum perfx_death_part {
	PERFX_DEATH_CGROUP = 1,	   /* path of SIGNAL's cgroup; value: its oom_kill count */
	PERFX_DEATH_NEIGHBOUR = 2, /* comm of a process in it; value: its resident bytes */
	PERFX_DEATH_STORAGE = 3,   /* mount point of SIGNAL's mapped file; value: 0 */
};

/* Surroundings of a process that was killed, read soon after its SIGNAL record. string: by part */
struct perfx_death {
	struct perfx_record hdr;
	__u64 time_ns;
	__u32 process;
	__u32 part; /* enum perfx_death_part */
	__u32 pid;  /* NEIGHBOUR */
	__u32 pad;
	__u64 value;
};
#define PERFX_FIELDS_death      \
	IS_TIME(time_ns)        \
	IS_ID(process, PROCESS) \
	IS_WITHIN(part, PERFX_DEATH_CGROUP, PERFX_DEATH_STORAGE)

#endif
