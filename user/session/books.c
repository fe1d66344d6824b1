// SPDX-License-Identifier: BSD-2-Clause
#include "session/books.h"

#include "base/clock.h"
#include "base/secrets.h"
#include "base/text.h"
#include "decode/pack.h"
#include "proc/process.h"
#include "proc/process_stat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CMDLINE_MAX 8192

struct book {
	uint32_t process, exec_count;
	uint32_t born; /* index of its first book */
	pid_t pid, ppid;
	char comm[64];
};

struct books {
	struct tracer *tracer;
	struct sink *sink;
	bool full_cmdline;
	bool held; /* nobody is sampled */
	struct book *living;
	pid_t *pids; /* of living, same order */
	size_t count, capacity;
	struct pack_buffer buffer;
	struct host_cpu host; /* while all are sampled; else not measured */
};

struct books *books__new(struct tracer *tracer, struct sink *sink, bool full_cmdline)
{
	struct books *books = calloc(1, sizeof(*books));

	if (!books)
		return NULL;
	books->tracer = tracer;
	books->sink = sink;
	books->full_cmdline = full_cmdline;
	return books;
}

void books__hold(struct books *books, bool held)
{
	books->held = held;
}

void books__free(struct books *books)
{
	if (!books)
		return;
	free(books->living);
	free(books->pids);
	free(books);
}

const pid_t *books__pids(const struct books *books, size_t *count)
{
	*count = books->count;
	return books->pids;
}

static struct book *find_pid(const struct books *books, pid_t pid)
{
	for (size_t i = 0; i < books->count; i++)
		if (books->pids[i] == pid)
			return &books->living[i];
	return NULL;
}

static struct book *find(const struct books *books, uint32_t process)
{
	for (size_t i = 0; i < books->count; i++)
		if (books->living[i].process == process)
			return &books->living[i];
	return NULL;
}

pid_t books__pid(const struct books *books, uint32_t process)
{
	const struct book *book = find(books, process);

	return book ? book->pid : 0;
}

uint32_t books__born(const struct books *books, pid_t pid)
{
	const struct book *book = find_pid(books, pid);

	return book ? book->born : 0;
}

bool books__has(const struct books *books, pid_t pid)
{
	return find_pid(books, pid) != NULL;
}

static struct book *add(struct books *books, pid_t pid)
{
	struct book *book = find_pid(books, pid);

	if (book)
		return book;
	if (books->count == books->capacity) {
		size_t capacity = books->capacity ? books->capacity * 2 : 16;
		struct book *living = realloc(books->living, capacity * sizeof(*living));
		pid_t *pids;

		if (!living)
			return NULL;
		books->living = living;
		pids = realloc(books->pids, capacity * sizeof(*pids));
		if (!pids)
			return NULL;
		books->pids = pids;
		books->capacity = capacity;
	}
	book = &books->living[books->count];
	*book = (struct book){.pid = pid};
	books->pids[books->count++] = pid;
	return book;
}

static void drop(struct books *books, const struct book *book)
{
	size_t index = (size_t)(book - books->living), last = books->count - 1;

	books->living[index] = books->living[last];
	books->pids[index] = books->pids[last];
	books->count = last;
}

/* NUL-separated arguments → \x1f between them, secrets hidden unless all is to be shown. */
static char *join_arguments(char *raw, size_t length, bool full)
{
	char **arguments = calloc(length + 2, sizeof(*arguments));
	struct text text = {0};
	size_t count = 0;

	if (!arguments)
		return NULL;
	for (size_t at = 0; at < length; at += strlen(raw + at) + 1)
		arguments[count++] = raw + at;
	if (!full)
		secrets_hide(arguments);
	for (size_t i = 0; i < count; i++) {
		if (i)
			text_add(&text, "\x1f");
		text_add(&text, arguments[i]);
	}
	free(arguments);
	return text_take(&text);
}

static char *command_line(const struct books *books, pid_t pid)
{
	char *raw, *text, *padded;
	ssize_t length = process_cmdline(pid, &raw, CMDLINE_MAX);

	if (length <= 0)
		return strdup("");
	padded = realloc(raw, (size_t)length + 1); /* a cut one has no terminator */
	if (!padded) {
		free(raw);
		return NULL;
	}
	padded[length] = '\0';
	text = join_arguments(padded, (size_t)length, books->full_cmdline);
	free(padded);
	return text;
}

static void describe(struct books *books, struct book *book, uint64_t time_ns,
		     uint64_t start_boot_ns)
{
	struct perfx_process record = {
		.time_ns = time_ns,
		.start_boot_ns = start_boot_ns,
		.process = book->process,
		.pid = (uint32_t)book->pid,
		.ppid = (uint32_t)book->ppid,
		.exec_count = book->exec_count,
	};
	char *cmdline = command_line(books, book->pid);
	SINK_PACK(books->sink, &books->buffer, PERFX_KIND_PROCESS, record, book->comm,
		  cmdline ? cmdline : "");
	free(cmdline);
}

/* Bytes that the kernel side has counted; where it cannot, they are absent. */
static void set_net(const struct books *books, struct perfx_usage *record, uint64_t rx_bytes,
		    uint64_t tx_bytes)
{
	bool counted = tracer__counts_sockets(books->tracer);

	record->net_rx_bytes = counted ? rx_bytes : UINT64_MAX;
	record->net_tx_bytes = counted ? tx_bytes : UINT64_MAX;
}

/* What /proc says of a process now, and how much it has moved over sockets. */
static void tell_usage(struct books *books, const struct book *book, uint64_t rx_bytes,
		       uint64_t tx_bytes)
{
	struct cgroup_throttle throttle = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct process_usage usage;
	struct perfx_usage record = {.process = book->process};

	if (books->held || process_usage(book->pid, &usage))
		return;
	process_throttle(book->pid, &throttle);
	record.time_ns = clock_monotonic_ns();
	record.cpu_user_ns = usage.cpu_user_ns;
	record.cpu_system_ns = usage.cpu_system_ns;
	record.rss_bytes = usage.rss_bytes;
	record.rss_anon_bytes = usage.rss_anon_bytes;
	record.rss_file_bytes = usage.rss_file_bytes;
	record.rss_shmem_bytes = usage.rss_shmem_bytes;
	record.read_bytes = usage.read_bytes;
	record.write_bytes = usage.write_bytes;
	record.threads_count = usage.threads_count;
	record.major_faults_count = usage.major_faults;
	record.throttle_periods_count = throttle.periods_count;
	record.throttled_count = throttle.throttled_count;
	record.throttled_ns = throttle.throttled_ns;
	record.host_busy_ns = books->host.busy_ns;
	record.host_steal_ns = books->host.steal_ns;
	set_net(books, &record, rx_bytes, tx_bytes);
	SINK_PACK(books->sink, &books->buffer, PERFX_KIND_USAGE, record);
}

static void sample_process(struct books *books, const struct book *book)
{
	struct perfx_family family;

	/* its pid may have a new owner already */
	if (!tracer__family(books->tracer, book->pid, &family) && family.process == book->process)
		tell_usage(books, book, family.net_rx_bytes, family.net_tx_bytes);
	else
		tell_usage(books, book, UINT64_MAX, UINT64_MAX);
}

static void sample_threads(struct books *books, const struct book *book)
{
	pid_t *tids;
	ssize_t count = process_threads(book->pid, &tids);

	for (ssize_t i = 0; i < count; i++) {
		struct perfx_thread record = {.process = book->process, .tid = (uint32_t)tids[i]};
		struct thread_usage usage;

		if (thread_usage(book->pid, tids[i], &usage))
			continue;
		record.time_ns = clock_monotonic_ns();
		record.on_cpu_ns = usage.on_cpu_ns;
		record.runnable_ns = usage.runnable_ns;
		record.state = (uint8_t)usage.state;
		SINK_PACK(books->sink, &books->buffer, PERFX_KIND_THREAD, record, usage.comm);
	}
	if (count >= 0)
		free(tids);
}

void books__sample(struct books *books, bool threads)
{
	books->host = host_cpu_read();
	for (size_t i = 0; i < books->count && !books->held; i++) {
		sample_process(books, &books->living[i]);
		if (threads)
			sample_threads(books, &books->living[i]);
	}
	books->host = (struct host_cpu){0};
}

int books__open(struct books *books, uint32_t process, pid_t pid)
{
	struct process_info info;
	struct book *book;
	int err = process_info(pid, &info);

	if (err)
		return err;
	book = add(books, pid);
	if (!book)
		return -ENOMEM;
	book->process = book->born = process;
	book->ppid = info.ppid;
	memcpy(book->comm, info.comm, sizeof(book->comm));
	describe(books, book, clock_monotonic_ns(), info.start_ns);
	return 0;
}

/* A forked child has used nothing yet, whenever it is first looked at. */
static void sample_birth(struct books *books, uint32_t process, uint64_t time_ns)
{
	struct perfx_usage record;

	if (books->held)
		return;
	memset(&record, 0xff, sizeof(record)); /* all absent */
	record.time_ns = time_ns;
	record.process = process;
	record.cpu_user_ns = record.cpu_system_ns = 0;
	record.read_bytes = record.write_bytes = 0;
	record.major_faults_count = 0;
	if (tracer__counts_sockets(books->tracer))
		record.net_rx_bytes = record.net_tx_bytes = 0;
	SINK_PACK(books->sink, &books->buffer, PERFX_KIND_USAGE, record);
}

void books__on_fork(struct books *books, const struct perfx_fork *fork)
{
	const struct book *parent = find(books, fork->parent_process);
	struct process_info info = {0};
	struct book *book;

	/* a child that is gone already keeps its parent's name */
	if (parent)
		memcpy(info.comm, parent->comm, sizeof(info.comm));
	process_info((pid_t)fork->pid, &info);
	/* one whose end found no room in the ring has gone, too */
	book = add(books, (pid_t)fork->pid);
	if (!book)
		return;
	book->process = book->born = fork->process;
	book->ppid = (pid_t)fork->ppid;
	book->exec_count = 0;
	memcpy(book->comm, info.comm, sizeof(book->comm));
	describe(books, book, fork->time_ns,
		 info.start_ns ? info.start_ns : clock_monotonic_to_boot(fork->time_ns));
	sample_birth(books, fork->process, fork->time_ns);
}

void books__on_exec(struct books *books, const struct perfx_exec *exec)
{
	struct book *book = find(books, exec->old_process);
	struct process_info info = {0};

	if (!book)
		return;
	/* what it has used so far belongs to the old book and is where the new one starts */
	tell_usage(books, book, exec->net_rx_bytes, exec->net_tx_bytes);
	if (!process_info(book->pid, &info))
		memcpy(book->comm, info.comm, sizeof(book->comm));
	book->process = exec->process;
	book->exec_count++;
	describe(books, book, exec->time_ns, info.start_ns);
	sample_process(books, book);
}

/* User and system time in the proportion of the ticks (kernel: cputime_adjust). */
static void split_runtime(const struct perfx_exit *exit, struct perfx_usage *usage)
{
	uint64_t ticks = exit->user_tick_ns + exit->system_tick_ns;
	double system = ticks ? (double)exit->system_tick_ns / (double)ticks : 0;

	usage->cpu_system_ns = (uint64_t)(system * (double)exit->runtime_ns);
	usage->cpu_user_ns = exit->runtime_ns - usage->cpu_system_ns;
}

uint32_t books__on_exit(struct books *books, const struct perfx_exit *exit)
{
	const struct book *book = find(books, exit->process);
	uint32_t born = book ? book->born : 0;
	struct perfx_usage record;
	const struct perfx_record *packed;

	memset(&record, 0xff, sizeof(record));
	record.time_ns = exit->time_ns;
	record.process = exit->process;
	split_runtime(exit, &record);
	set_net(books, &record, exit->net_rx_bytes, exit->net_tx_bytes);
	packed = PACK(&books->buffer, PERFX_KIND_USAGE, record);
	if (!books->held)
		sink_packed(books->sink, packed);
	if (book)
		drop(books, book);
	return born;
}
