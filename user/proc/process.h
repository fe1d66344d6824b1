/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process as /proc shows it. Everything here tolerates a process that dies meanwhile: -ESRCH.
 */
#ifndef PERFX_PROC_PROCESS_H
#define PERFX_PROC_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_info {
	pid_t pid, ppid;
	char comm[64];	      /* of the main thread, raw bytes: escape before showing */
	uint64_t start_ticks; /* field 22 of /proc/PID/stat, clock ticks since boot */
	uint64_t start_ns;    /* the same in ns of CLOCK_BOOTTIME, ticks' resolution */
	char state;	      /* R S D Z T … */
	bool kernel_thread;
	bool is_32bit;	/* its executable is ELFCLASS32 */
	char exe[4096]; /* readlink of /proc/PID/exe, " (deleted)" taken off; "" unknown */
	bool exe_deleted;
};

int process_info(pid_t pid, struct process_info *info);

/* Whether it has ended: it is gone, or all of its threads are and its parent has not waited for it
 * yet (a main thread that is a zombie alone says nothing). */
bool process_has_ended(pid_t pid);

/* The same, after waiting for that end; timeout_ms -1: however long. */
bool process_ends_within(pid_t pid, int timeout_ms);

/* Reads a child's answer of `size` bytes from a pipe. False: the child ended without an answer, or
 * gave none within timeout_ms and was killed. */
bool process_answers(pid_t child, int pipe_fd, void *answer, size_t size, int timeout_ms);
/* Waits for a child to end and reaps it; kills it after timeout_ms. A child that hangs in the
 * kernel is left for init to reap. */
void process_reap(pid_t child, int timeout_ms);

/* The process that a thread belongs to; of a process it is the process itself. -errno. */
pid_t process_of_thread(pid_t tid);

/* The command line, NUL-separated as the kernel gives it, at most limit bytes. Returns the length;
 * *out is malloc'd. Secrets are not hidden here. */
ssize_t process_cmdline(pid_t pid, char **out, size_t limit);

/* The command line as text, with `between` between its arguments; secrets are hidden unless full.
 * "": the process has ended; NULL: out of memory. malloc'd. */
char *process_command(pid_t pid, const char *between, bool full);

/* Pids whose comm, executable's base name, first argument (with or without its folders) or whole
 * command line, which may be a title, is exactly name; all pids when name is NULL.
 * Ascending; kernel threads and zombies left out. Returns the count, *out is malloc'd. */
ssize_t process_find(const char *name, pid_t **out);

/* All pids, ascending, kernel threads and zombies too: nothing is read of them. As process_find. */
ssize_t process_list(pid_t **out);

/* All running descendants (children, their children, …), ascending. Those whose parent in between
 * has died are init's, and not found. */
ssize_t process_descendants(pid_t pid, pid_t **out);

/* Thread ids, ascending. */
ssize_t process_threads(pid_t pid, pid_t **out);
/* The id of a process or thread in the innermost of its pid namespaces; 0: not known. */
pid_t process_own_id(pid_t tid);
/* The thread that has this id in the process's own pid namespace, which may be a container's; 0:
 * there is none. */
pid_t process_thread_by_own_id(pid_t pid, pid_t own_id);
/* The task whose directory in /proc shows the process's mappings, files and environment, and
 * through whom its memory is read: the main thread, or, where that has left by pthread_exit,
 * another one. */
pid_t process_task(pid_t pid);

/* Copies memory of the process: all of it or -errno (-EFAULT: not mapped). What a stranger's memory
 * holds is not to be trusted, whatever it is. */
int process_read(pid_t pid, uint64_t address, void *to, size_t bytes);
/* The other way: all of it or -errno. */
int process_write(pid_t pid, uint64_t address, const void *from, size_t bytes);
/* The environment with which it began, "NAME=VALUE" NUL-separated, a NUL behind it; what is beyond
 * 64 KiB is left out. Its length or -errno; *out is malloc'd. It may hold secrets: only variables
 * that are asked for by name leave it. */
ssize_t environment_read(pid_t pid, char **out);
/* NULL: it has none of this name. The environment ends with a NUL. */
const char *environment_value(const char *environment, size_t bytes, const char *name);
/* As whom it acts on files: its file system ids, in our user namespace. 0 or -errno. */
int process_owner(pid_t pid, uid_t *uid, gid_t *gid);

/* What the process has used so far, for the report's process facts. Fields that this kernel or
 * privilege does not give are left UINT64_MAX: absent means not measured, never 0. */
struct process_usage {
	uint64_t cpu_user_ns,
		cpu_system_ns; /* all threads, dead ones included; ticks' resolution */
	uint64_t rss_bytes, rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	uint64_t rss_peak_bytes;	  /* since the program's start */
	uint64_t read_bytes, write_bytes; /* /proc/PID/io: storage, not page cache */
	uint64_t threads_count;
	uint64_t minor_faults, major_faults;
	uint64_t voluntary_switches, involuntary_switches; /* main thread only */
};
int process_usage(pid_t pid, struct process_usage *usage);

/* CPU time so far; UINT64_MAX: not known. */
uint64_t process_cpu_ns(pid_t pid);

/* Resident memory that is of no file and not shared; UINT64_MAX: not known. Cheaper than all of
 * struct process_usage. */
uint64_t process_anon_bytes(pid_t pid);

/* The time that a thread has been on a CPU so far, and the time that it has waited for one. False:
 * the kernel does not say. */
struct cpu_times {
	uint64_t on_cpu_ns, runnable_ns;
};
bool thread_cpu_times(pid_t pid, pid_t tid, struct cpu_times *times);

/* One thread's time: /proc/PID/task/TID/schedstat. Blocked = wall - on CPU - runnable. */
struct thread_usage {
	pid_t tid;
	char comm[64];
	char state;
	uint64_t start_ticks;		 /* clock ticks since boot */
	uint64_t on_cpu_ns, runnable_ns; /* UINT64_MAX when the kernel does not keep them */
};
int thread_usage(pid_t pid, pid_t tid, struct thread_usage *usage);

/* /proc/PID/stat and /proc/PID/task/TID/stat, see proc(5). */
struct process_stat {
	char comm[64];
	char state;
	pid_t ppid;
	bool kernel_thread;
	uint64_t minor_faults, major_faults;
	uint64_t user_ticks, system_ticks, start_ticks;
};

/* 0 or -EINVAL. The name may hold anything: spaces, brackets, newlines. */
int process_stat_parse(const char *text, struct process_stat *stat);

/* Time of all CPUs since boot; 0: not known. */
struct host_cpu {
	uint64_t busy_ns;  /* by programs, the kernel and interrupts */
	uint64_t steal_ns; /* the hypervisor ran something else */
};

/* The first line of /proc/stat; 0 or -EINVAL. */
int host_cpu_parse(const char *text, struct host_cpu *cpu);
/* All 0 where it cannot be read. */
struct host_cpu host_cpu_read(void);

uint64_t ticks_to_ns(uint64_t ticks);

/* The number behind "key" at the start of a line ("VmRSS:", "read_bytes:", "nr_periods");
 * UINT64_MAX when there is no such line, or the text is NULL. */
uint64_t keyed_number(const char *text, const char *key);
/* The same, in kB, as bytes. */
uint64_t keyed_kilobytes(const char *text, const char *key);

/* A whole file of /proc, NUL added behind it, in *out (free it). Stops at limit bytes; 0: no limit.
 * Returns the length; -ESRCH where a path under /proc/PID is gone. */
ssize_t proc_read(const char *path, char **out, size_t limit);

/* The same of an open file, from where it stands. */
ssize_t proc_read_fd(int fd, char **out, size_t limit);

/* The same for "/proc/PID/name". */
ssize_t proc_read_pid(pid_t pid, const char *name, char **out, size_t limit);

#endif
