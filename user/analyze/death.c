// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/death.h"

#include "analyze/location.h"
#include "analyze/rules_ctx.h"
#include "base/escape.h"
#include "base/units.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Within so much of a cgroup's limit its memory is full: the kernel charges huge pages, and keeps
 * up to 64 pages for each CPU. */
#define FULL_BYTES (8ull << 20)

/* A program that handles a signal by which it is asked to end does so soon. */
#define ASKED_NS 30000000000u

/* Addresses of small members of a structure that a null pointer names. */
#define NULL_BYTES 65536

const char *signal_words(int signal)
{
	static _Thread_local char words[32];
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(words, sizeof(words), "SIG%s", name);
	else
		snprintf(words, sizeof(words), "signal %d", signal);
	return words;
}

const struct perfx_signal *death_signal(const struct profile_process *process)
{
	const struct perfx_signal *signal = &process->end.signal;
	bool asks = signal->signal == SIGTERM || signal->signal == SIGINT ||
		    signal->signal == SIGHUP || signal->signal == SIGQUIT ||
		    signal->signal == SIGXCPU;

	if (!process->exited || !signal->signal)
		return NULL;
	if (WIFSIGNALED(process->status))
		return WTERMSIG(process->status) == (int)signal->signal ? signal : NULL;
	return process->status && asks && signal->time_ns - signal->sent_ns < ASKED_NS ? signal
										       : NULL;
}

static bool is_full(const struct perfx_signal *signal)
{
	return signal->cgroup_limit_bytes &&
	       signal->cgroup_used_bytes + FULL_BYTES >= signal->cgroup_limit_bytes;
}

static bool is_sent(const struct perfx_signal *signal)
{
	return signal->flags & PERFX_SIGNAL_SENT;
}

static bool is_of_memory(const struct profile_process *process, const struct perfx_signal *signal)
{
	if (!WIFSIGNALED(process->status) || WTERMSIG(process->status) != SIGKILL)
		return false;
	if (!signal)
		return process->end.out_of_memory;
	return !is_sent(signal) && (process->end.out_of_memory || is_full(signal));
}

/* Did its parent, one above that, or the terminal end it? */
static bool is_asked(const struct profile *profile, const struct profile_process *process,
		     const struct perfx_signal *signal)
{
	const struct profile_process *above = process;

	if (signal->flags & PERFX_SIGNAL_FAULT)
		return false;
	if (!is_sent(signal))
		return signal->signal == SIGINT || signal->signal == SIGQUIT ||
		       signal->signal == SIGHUP;
	if (signal->flags & PERFX_SIGNAL_SENDER_ENDS || signal->sender_pid == process->ppid)
		return true;
	if (signal->sender_pid == process->pid)
		return signal->signal == SIGTERM || signal->signal == SIGKILL ||
		       signal->signal == SIGINT || signal->signal == SIGHUP ||
		       signal->signal == SIGPIPE;
	for (size_t depth = 0; depth < profile->processes_count && above; depth++) {
		if (above->ppid == signal->sender_pid)
			return true;
		above = profile_parent(profile, above);
	}
	return false;
}

enum death death_of(const struct profile *profile, const struct profile_process *process)
{
	const struct perfx_signal *signal = death_signal(process);

	if (!process->exited || !process->status)
		return DEATH_NONE;
	if (is_of_memory(process, signal))
		return DEATH_OF_MEMORY;
	if (signal && is_asked(profile, process, signal))
		return DEATH_ASKED;
	if (!WIFSIGNALED(process->status))
		return signal ? DEATH_KILLED : DEATH_STATUS;
	switch (WTERMSIG(process->status)) {
	case SIGILL:
	case SIGTRAP:
	case SIGABRT:
	case SIGBUS:
	case SIGFPE:
	case SIGSEGV:
	case SIGSYS:
		return signal && is_sent(signal) && signal->sender_pid != process->pid
			       ? DEATH_KILLED
			       : DEATH_CRASHED;
	default:
		return DEATH_KILLED;
	}
}

/* Statuses of their subshells are conditions: "(exit 1) || …". */
static bool is_shell(const struct profile_process *process)
{
	static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "busybox"};

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (!strcmp(process->comm, shells[i]))
			return true;
	return false;
}

/* Is it a part of the job and no program that the job only calls? */
static bool is_of_job(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_process *parent = profile_parent(profile, process);
	size_t size = strcspn(process->cmdline, (const char[]){PROFILE_ARGUMENT_END, '\0'});

	if (!parent || process->rank.world_size || process->rows_count)
		return true;
	if (is_shell(process) || !is_of_job(profile, parent))
		return false;
	/* forked, or the same interpreter again, as multiprocessing's spawn */
	return (!process->exec_count && !strcmp(process->comm, parent->comm)) ||
	       (size && !strncmp(process->cmdline, parent->cmdline, size) &&
		strcspn(parent->cmdline, (const char[]){PROFILE_ARGUMENT_END, '\0'}) == size);
}

bool death_is_failure(const struct profile *profile, const struct profile_process *process)
{
	switch (death_of(profile, process)) {
	case DEATH_NONE:
	case DEATH_ASKED:
		return false;
	case DEATH_STATUS:
		return is_of_job(profile, process);
	case DEATH_KILLED:
	case DEATH_CRASHED:
	case DEATH_OF_MEMORY:
		break;
	}
	return true;
}

const struct profile_process *death_first(const struct profile *profile)
{
	const struct profile_process *first = NULL;

	FOR_EACH (process, profile->processes)
		if (process->status && (!first || process->to_ns < first->to_ns) &&
		    death_is_failure(profile, process))
			first = process;
	return first;
}

/* " from pkill (pid 4711) of bash (pid 4700)" */
static void add_sender(struct text *text, const struct profile_process *process,
		       const struct perfx_signal *signal)
{
	const struct profile_end *end = &process->end;

	if (signal->sender_pid == process->pid) {
		text_add(text, " from itself");
		return;
	}
	text_printf(text, signal->sender_pid == process->ppid ? " from its parent " : " from ");
	escape_name(text, end->sender);
	text_printf(text, " (pid %u)", signal->sender_pid);
	if (signal->sender_ppid > 1 && signal->sender_pid != process->ppid) {
		text_add(text, " of ");
		escape_name(text, end->sender_parent);
		text_printf(text, " (pid %u)", signal->sender_ppid);
	}
	if (signal->flags & PERFX_SIGNAL_SENDER_ENDS)
		text_add(text, ", which ended");
}

static void add_full(struct text *text, const struct profile_process *process,
		     const struct perfx_signal *signal)
{
	const struct profile_end *end = &process->end;

	if (!signal)
		return;
	if (!is_full(signal)) {
		text_add(text, ": the machine had no memory left");
		return;
	}
	text_add(text, ": its control group ");
	if (*end->cgroup) {
		escape_name(text, end->cgroup);
		text_add(text, " ");
	}
	text_printf(text, "used %s", as_bytes(signal->cgroup_used_bytes));
	text_printf(text, " of its limit of %s", as_bytes(signal->cgroup_limit_bytes));
	if (process->rss_peak_bytes != PROFILE_ABSENT)
		text_printf(text, ", the process at most %s", as_bytes(process->rss_peak_bytes));
	for (size_t i = 0; i < end->neighbours_count && i < 3; i++) {
		text_add(text, i ? ", " : "; then in it: ");
		escape_name(text, end->neighbours[i].comm);
		text_printf(text, " (pid %u) %s", end->neighbours[i].pid,
			    as_bytes(end->neighbours[i].rss_bytes));
	}
}

/* "the heap, rw-", "libfoo.so at 0x1000, r-x" */
static void add_mapping(struct text *text, const struct profile_process *process,
			const struct perfx_signal *signal)
{
	if (*process->end.file) {
		escape_name(text, process->end.file);
		text_printf(text, " at 0x%llx", (unsigned long long)signal->file_offset);
	} else if (signal->flags & PERFX_SIGNAL_HEAP) {
		text_add(text, "the heap");
	} else if (signal->flags & PERFX_SIGNAL_STACK) {
		text_add(text, "the main thread's stack");
	} else {
		text_printf(text, "memory of no file, %s",
			    as_bytes(signal->mapping_end - signal->mapping_start));
	}
	text_printf(text, ", mapped %c%c%c", signal->flags & PERFX_SIGNAL_READ ? 'r' : '-',
		    signal->flags & PERFX_SIGNAL_WRITE ? 'w' : '-',
		    signal->flags & PERFX_SIGNAL_EXEC ? 'x' : '-');
}

#define PERMISSIONS (PERFX_SIGNAL_READ | PERFX_SIGNAL_WRITE | PERFX_SIGNAL_EXEC)

static void add_segfault(struct text *text, const struct profile_process *process,
			 const struct perfx_signal *signal)
{
	bool unmapped = signal->code == SEGV_MAPERR;
	bool guarded =
		unmapped || (signal->flags & PERFX_SIGNAL_MAPPED && !(signal->flags & PERMISSIONS));

	if (signal->code != SEGV_MAPERR && signal->code != SEGV_ACCERR && !signal->address) {
		text_add(text, ": an address that no memory can have, or a privileged instruction");
		return;
	}
	text_printf(text, " at address 0x%llx", (unsigned long long)signal->address);
	if (signal->address < NULL_BYTES && unmapped)
		text_add(text, ": a null pointer");
	else if (signal->flags & PERFX_SIGNAL_NEAR_STACK && guarded)
		text_add(text, ", just beyond its stack: the stack overflowed");
	else if (unmapped)
		text_add(text, ", where nothing is mapped");
	else if (!(signal->flags & PERFX_SIGNAL_MAPPED))
		text_add(text, ", which it may not access in this way");
	else {
		text_add(text, ", in ");
		add_mapping(text, process, signal);
	}
}

/* Is the file system of the mapped file full? Another process may have freed some since. */
static bool is_storage_full(const struct perfx_signal *signal)
{
	return signal->storage_bytes &&
	       signal->storage_used_bytes + signal->storage_bytes / 64 >= signal->storage_bytes;
}

static void add_bus_error(struct text *text, const struct profile_process *process,
			  const struct perfx_signal *signal)
{
	const char *storage = process->end.storage;
	bool beyond = signal->file_offset >= (signal->file_bytes + 4095) / 4096 * 4096;

	if (signal->code == BUS_MCEERR_AR || signal->code == BUS_MCEERR_AO) {
		text_add(text, ": the machine's memory is faulty there");
		return;
	}
	if (!*process->end.file) {
		text_printf(text, " at address 0x%llx", (unsigned long long)signal->address);
		return;
	}
	text_add(text, ": in the mapped file ");
	escape_name(text, process->end.file);
	if (beyond) {
		text_printf(text, " at %s", as_bytes(signal->file_offset));
		text_printf(text, ", beyond its end at %s: it was truncated, or is too short",
			    as_bytes(signal->file_bytes));
	} else if (signal->flags & PERFX_SIGNAL_TMPFS && is_storage_full(signal)) {
		text_add(text, ", for which ");
		escape_name(text, *storage ? storage : "its file system in memory");
		text_printf(text, " has no room: %s", as_bytes(signal->storage_used_bytes));
		text_printf(text, " of %s are used", as_bytes(signal->storage_bytes));
	} else {
		text_printf(text, " at 0x%llx, which could not be read or has no room on its disk",
			    (unsigned long long)signal->file_offset);
	}
}

static void add_crash(struct text *text, const struct profile_process *process,
		      const struct perfx_signal *signal)
{
	int number = WTERMSIG(process->status);

	text_printf(text, "crashed by %s", signal_words(number));
	if (!signal)
		return;
	if (number == SIGSEGV && signal->flags & PERFX_SIGNAL_FAULT)
		add_segfault(text, process, signal);
	else if (number == SIGBUS && signal->flags & PERFX_SIGNAL_FAULT)
		add_bus_error(text, process, signal);
	else if (number == SIGFPE && signal->code == FPE_INTDIV)
		text_add(text, ": an integer division by zero");
	else if (number == SIGILL && signal->flags & PERFX_SIGNAL_FAULT)
		text_add(text, ": this CPU does not have the instruction");
	else if (number == SIGABRT)
		text_add(text, ": it called abort(), for a reason that it wrote on stderr");
	else if (number == SIGSYS)
		text_add(text, ": a seccomp filter forbids the system call");
	else if (is_sent(signal))
		add_sender(text, process, signal);
}

static void add_killed(struct text *text, const struct profile_process *process,
		       const struct perfx_signal *signal)
{
	int number = WTERMSIG(process->status);

	text_printf(text, "was killed by %s", signal_words(number));
	if (!signal)
		return;
	if (number == SIGPIPE && signal->sender_pid == process->pid)
		text_add(text, ": it wrote to a pipe or socket that nobody reads");
	else if (number == SIGXCPU)
		text_add(text, " from the kernel: its limit of CPU time");
	else if (number == SIGXFSZ)
		text_add(text, ": a file reached its limit of size");
	else if (number == SIGALRM || number == SIGPROF || number == SIGVTALRM)
		text_add(text, is_sent(signal) ? "" : ": its own timer");
	else if (is_sent(signal))
		add_sender(text, process, signal);
	else if (number == SIGINT || number == SIGQUIT || number == SIGHUP)
		text_add(text, " from its terminal");
	else
		text_add(text, " from the kernel");
}

void death_add(struct text *text, const struct profile *profile,
	       const struct profile_process *process)
{
	const struct perfx_signal *signal = death_signal(process);
	enum death death = death_of(profile, process);

	if (!process->exited)
		return;
	if (!WIFSIGNALED(process->status)) {
		text_printf(text, "exited with status %d", WEXITSTATUS(process->status));
		if (!signal)
			return;
		text_printf(text, ", %s after ", as_ns(signal->time_ns - signal->sent_ns));
		text_add(text, signal_words((int)signal->signal));
		if (is_sent(signal))
			add_sender(text, process, signal);
		else
			text_add(text, " from its terminal");
		return;
	}
	if (death == DEATH_OF_MEMORY) {
		text_add(text, "was killed for lack of memory (SIGKILL by the kernel)");
		add_full(text, process, signal);
	} else if (death == DEATH_CRASHED) {
		add_crash(text, process, signal);
	} else {
		add_killed(text, process, signal);
	}
	if (WCOREDUMP(process->status))
		text_add(text, "; it left a core dump");
}

void death_add_brief(struct text *text, const struct profile *profile,
		     const struct profile_process *process, bool whole)
{
	const struct perfx_signal *signal = death_signal(process);

	if (death_of(profile, process) == DEATH_OF_MEMORY)
		text_add(text, "out of memory");
	else if (WIFSIGNALED(process->status))
		text_add(text, signal_words(WTERMSIG(process->status)));
	if (WIFSIGNALED(process->status) && whole && signal && is_sent(signal)) {
		text_add(text, " from ");
		escape_name(text, process->end.sender);
		text_printf(text, " (pid %u)", signal->sender_pid);
	}
	if (!WIFSIGNALED(process->status))
		text_printf(text, "status %d", WEXITSTATUS(process->status));
}

const struct profile_last_sample *death_sample(const struct profile_process *process)
{
	const struct perfx_signal *signal = death_signal(process);
	const struct profile_last_sample *main = NULL;

	for (size_t i = 0; i < process->end.samples_count; i++) {
		const struct profile_last_sample *sample = &process->end.samples[i];

		if (signal && sample->tid == signal->tid && death_sample_is_exact(process, sample))
			return sample;
		if (sample->tid == process->pid)
			main = sample;
	}
	return main;
}

/* The sample is taken with the signal, in one program after the other. */
#define EXACT_NS 1000000u

bool death_sample_is_exact(const struct profile_process *process,
			   const struct profile_last_sample *sample)
{
	const struct perfx_signal *signal = death_signal(process);
	uint64_t at_ns = process->to_ns - sample->before_ns;

	return signal && at_ns + EXACT_NS >= signal->sent_ns;
}

const struct profile_frame *death_place_of(const struct profile_last_sample *sample)
{
	const struct profile_stack *stack = sample ? sample->what.stack : NULL;
	size_t at;

	if (!stack || !stack->frames_count)
		return NULL;
	at = location_own_python(stack->frames, stack->frames_count);
	if (at == stack->frames_count)
		at = location_native(stack->frames, stack->frames_count);
	return stack->frames[at < stack->frames_count ? at : 0];
}

const struct profile_frame *death_place(const struct profile_process *process)
{
	const struct profile_frame *place = death_place_of(death_sample(process));

	if (place && !WIFSIGNALED(process->status) && !location_is_own_python(place) &&
	    !location_is_own_native(place))
		return NULL;
	return place;
}
