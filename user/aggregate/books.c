// SPDX-License-Identifier: BSD-2-Clause
/* Books: when a process's facts begin and end, and the samples in between. */
#include "aggregate/internal.h"

#include <stdlib.h>
#include <string.h>

struct book *books_get(struct aggregate *a, uint32_t process)
{
	if (process == 0 || process > AGGREGATE_PROCESSES_MAX) {
		errno = ERANGE;
		return NULL;
	}
	if (process >= a->books_count) {
		if (grow_array(&a->books, &a->books_capacity, (size_t)process + 1,
			       sizeof(*a->books))) {
			errno = ENOMEM;
			return NULL;
		}
		a->books_count = (size_t)process + 1;
	}
	if (!a->books[process])
		a->books[process] = calloc(1, sizeof(struct book));
	return a->books[process];
}

void book__free(struct book *book)
{
	if (!book)
		return;
	map64_clear(&book->thread_ids);
	free(book->threads);
	free(book->points);
	free(book);
}

/* What books_get's failure means to a caller. */
static int no_book(struct aggregate *a)
{
	return errno == ENOMEM ? -ENOMEM : undecoded(a);
}

static void book_open(struct book *book, enum book_origin origin, uint64_t time_ns)
{
	if (book->origin == BOOK_UNKNOWN)
		book->from_ns = time_ns;
	if (book->origin < origin)
		book->origin = origin;
}

static void book_close(struct book *book, uint64_t time_ns)
{
	book->closed = true;
	book->to_ns = time_ns;
}

int books_process(struct aggregate *a, const struct event *event)
{
	const struct perfx_process *record = &event->process;
	struct book *book = books_get(a, record->process);

	if (!book)
		return no_book(a);
	book_open(book, BOOK_FOUND, record->time_ns);
	book->pid = record->pid;
	book->ppid = record->ppid;
	book->exec_count = record->exec_count;
	book->start_boot_ns = record->start_boot_ns;
	book->comm = pool_add(&a->strings, event->strings[0]);
	book->cmdline = pool_add(&a->strings, event->strings[1]);
	saw_time(a, record->time_ns);
	return book->comm && book->cmdline ? 0 : -ENOMEM;
}

int books_fork(struct aggregate *a, const struct perfx_fork *record)
{
	struct book *book = books_get(a, record->process), *parent = NULL;

	if (!book)
		return no_book(a);
	if (record->parent_process < a->books_count)
		parent = a->books[record->parent_process];
	book_open(book, BOOK_FORKED, record->time_ns);
	book->pid = record->pid;
	book->ppid = record->ppid;
	/* a child is its parent's image until a PROCESS record knows better */
	if (parent && !book->comm) {
		book->comm = parent->comm;
		book->cmdline = parent->cmdline;
	}
	saw_time(a, record->time_ns);
	return 0;
}

int books_exec(struct aggregate *a, const struct perfx_exec *record)
{
	struct book *book = books_get(a, record->process), *old = NULL;

	if (!book)
		return no_book(a);
	book_open(book, BOOK_EXECUTED, record->time_ns);
	book->pid = record->pid;
	book->old_process = record->old_process;
	if (record->old_process != record->process && record->old_process < a->books_count)
		old = a->books[record->old_process];
	if (old) {
		book_close(old, record->time_ns);
		book->ppid = old->ppid;
		book->start_boot_ns = old->start_boot_ns;
		if (!book->exec_count)
			book->exec_count = old->exec_count + 1;
	}
	saw_time(a, record->time_ns);
	return 0;
}

int books_exit(struct aggregate *a, const struct perfx_exit *record)
{
	struct book *book = books_get(a, record->process);

	if (!book)
		return no_book(a);
	book_close(book, record->time_ns);
	book->exited = true;
	book->status = record->status;
	book->exit = *record;
	saw_time(a, record->time_ns);
	return 0;
}

static uint64_t total_cpu(const struct perfx_usage *usage)
{
	if (usage->cpu_user_ns == PROFILE_ABSENT || usage->cpu_system_ns == PROFILE_ABSENT)
		return PROFILE_ABSENT;
	return add_capped(usage->cpu_user_ns, usage->cpu_system_ns);
}

/* Keeps every second point, so that a long capture's series stays bounded. */
static void thin_out(struct book *book)
{
	for (size_t i = 0; i < book->points_count; i += 2)
		book->points[i / 2] = book->points[i];
	book->points_count = (book->points_count + 1) / 2;
	book->points_stride *= 2;
}

static int add_point(struct book *book, const struct perfx_usage *usage)
{
	if (!book->points_stride)
		book->points_stride = 1;
	if (book->points_skipped++ % book->points_stride)
		return 0;
	if (book->points_count == PROFILE_POINTS_MAX)
		thin_out(book);
	if (grow_array(&book->points, &book->points_capacity, book->points_count + 1,
		       sizeof(*book->points)))
		return -ENOMEM;
	book->points[book->points_count++] = (struct profile_usage_point){
		.time_ns = usage->time_ns,
		.cpu_ns = total_cpu(usage),
		.rss_bytes = usage->rss_bytes,
		.rss_anon_bytes = usage->rss_anon_bytes,
		.read_bytes = usage->read_bytes,
		.write_bytes = usage->write_bytes,
	};
	return 0;
}

static void saw_host(struct host_usage *host, const struct perfx_usage *record)
{
	/* 0 in records that do not have it, absent at a birth */
	if (!record->host_busy_ns || record->host_busy_ns == PROFILE_ABSENT ||
	    record->host_steal_ns == PROFILE_ABSENT)
		return;
	if (!host->first_ns || record->time_ns < host->first_ns) {
		host->first_ns = record->time_ns;
		host->first_busy_ns = record->host_busy_ns;
		host->first_steal_ns = record->host_steal_ns;
	}
	if (record->time_ns >= host->last_ns) {
		host->last_ns = record->time_ns;
		host->last_busy_ns = record->host_busy_ns;
		host->last_steal_ns = record->host_steal_ns;
	}
}

int books_usage(struct aggregate *a, const struct perfx_usage *record)
{
	struct book *book = books_get(a, record->process);

	if (!book)
		return no_book(a);
	if (!book->has_usage)
		book->first = *record;
	book->last = *record;
	book->has_usage = true;
	if (record->rss_bytes != PROFILE_ABSENT && record->rss_bytes > book->rss_peak_bytes)
		book->rss_peak_bytes = record->rss_bytes;
	saw_host(&a->host_usage, record);
	saw_time(a, record->time_ns);
	return add_point(book, record);
}

int64_t book_thread(struct book *book, uint32_t tid)
{
	uint32_t at = (uint32_t)book->last_thread;

	if (at < book->threads_count && book->threads[at].tid == tid)
		return at;
	at = map64_get(&book->thread_ids, tid);
	if (at != MAP64_NONE) {
		book->last_thread = at;
		return at;
	}
	if (book->threads_count == AGGREGATE_THREADS_MAX)
		return AGGREGATE_THREADS_MAX;
	at = (uint32_t)book->threads_count;
	if (grow_array(&book->threads, &book->threads_capacity, (size_t)at + 1,
		       sizeof(*book->threads)) ||
	    map64_put(&book->thread_ids, tid, at))
		return -ENOMEM;
	book->threads[at].tid = tid;
	book->threads_count++;
	book->last_thread = at;
	return at;
}

int books_hits(struct aggregate *a, uint32_t process, uint32_t tid, unsigned hits)
{
	struct book *book = books_get(a, process);
	int64_t at;

	if (!book)
		return errno == ENOMEM ? -ENOMEM : 0;
	at = book_thread(book, tid);
	if (at < 0)
		return (int)at;
	book->hits_count += hits;
	if (at == AGGREGATE_THREADS_MAX)
		return 0;
	book->threads[at].hits_count += hits;
	return 0;
}

int books_thread(struct aggregate *a, const struct event *event)
{
	const struct perfx_thread *record = &event->thread;
	struct book *book = books_get(a, record->process);
	struct thread *thread;
	int64_t at;

	if (!book)
		return no_book(a);
	at = book_thread(book, record->tid);
	if (at < 0)
		return (int)at;
	if (at == AGGREGATE_THREADS_MAX)
		return undecoded(a);
	thread = &book->threads[at];
	if (!thread->comm || strcmp(thread->comm, event->strings[0]))
		thread->comm = pool_add(&a->strings, event->strings[0]);
	if (!thread->comm)
		return -ENOMEM;
	thread->state = (char)record->state;
	thread->last =
		(struct thread_sample){record->time_ns, record->on_cpu_ns, record->runnable_ns};
	if (thread->samples_count++ == 0)
		thread->first = thread->last;
	saw_time(a, record->time_ns);
	return 0;
}
