// SPDX-License-Identifier: BSD-2-Clause
#include "session/attach_queue.h"

#include "base/grow.h"
#include "base/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A process that waits, or whose files were planned. */
struct entry {
	struct attach_task task;
	bool waits;
	int64_t credit_ns; /* CPU time that may be spent on it, at updated_ns */
	uint64_t updated_ns;
};

struct attach_queue {
	struct entry *entries; /* by ascending pid */
	size_t count, capacity;
	size_t waiting_count;
	size_t next; /* where the search for the next turn begins: round robin */
};

struct attach_queue *attach_queue__new(void)
{
	return calloc(1, sizeof(struct attach_queue));
}

void attach_queue__free(struct attach_queue *queue)
{
	if (!queue)
		return;
	free(queue->entries);
	free(queue);
}

/* The index of a process, or where it belongs if it is not there. */
static size_t index_of(const struct attach_queue *queue, pid_t pid)
{
	return PARTITION_POINT(i, queue->count, queue->entries[i].task.pid < pid);
}

static struct entry *entry_of(const struct attach_queue *queue, pid_t pid)
{
	size_t i = index_of(queue, pid);

	return i < queue->count && queue->entries[i].task.pid == pid ? &queue->entries[i] : NULL;
}

static void update(struct entry *entry, uint64_t now_ns)
{
	uint64_t earned_ns = (now_ns - entry->updated_ns) / ATTACH_QUEUE_SHARE;

	if (now_ns <= entry->updated_ns || !earned_ns)
		return;
	entry->updated_ns = now_ns;
	entry->credit_ns +=
		(int64_t)min_u64(earned_ns, (uint64_t)(ATTACH_QUEUE_BURST_NS - entry->credit_ns));
}

/* Forgets processes that do not wait and have all of their credit. */
static void sweep(struct attach_queue *queue, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < queue->count; i++) {
		struct entry *entry = &queue->entries[i];

		update(entry, now_ns);
		if (entry->waits || entry->credit_ns < ATTACH_QUEUE_BURST_NS)
			queue->entries[kept++] = *entry;
	}
	queue->count = kept;
	queue->next = 0;
}

static struct entry *add(struct attach_queue *queue, pid_t pid, uint64_t now_ns)
{
	struct entry *entry;
	size_t index;

	if (queue->count == queue->capacity)
		sweep(queue, now_ns);
	if (grow_array(&queue->entries, &queue->capacity, queue->count + 1,
		       sizeof(*queue->entries)))
		return NULL;
	index = index_of(queue, pid);
	entry = &queue->entries[index];
	memmove(entry + 1, entry, (queue->count - index) * sizeof(*entry));
	*entry = (struct entry){.task.pid = pid, .credit_ns = ATTACH_QUEUE_BURST_NS};
	queue->count++;
	queue->next += index < queue->next;
	return entry;
}

int attach_queue__put(struct attach_queue *queue, const struct attach_task *task)
{
	struct entry *entry = entry_of(queue, task->pid);

	if (!entry)
		entry = add(queue, task->pid, task->since_ns);
	if (!entry)
		return -ENOMEM;
	if (!entry->waits) {
		entry->task = *task;
		entry->waits = true;
		queue->waiting_count++;
		return 0;
	}
	entry->task.known = entry->task.known && task->known;
	/* events of different sources arrive out of order: keep the earliest time */
	if (task->since_ns < entry->task.since_ns)
		entry->task.since_ns = task->since_ns;
	/* the old program is gone: anything missed has been missed since the exec */
	if (task->cause == ATTACH_EXECUTED)
		entry->task = *task;
	if (task->cause > entry->task.cause)
		entry->task.cause = task->cause;
	return 0;
}

bool attach_queue__pop(struct attach_queue *queue, uint64_t now_ns, struct attach_task *task)
{
	for (size_t i = 0; queue->waiting_count && i < queue->count; i++) {
		struct entry *entry = &queue->entries[(queue->next + i) % queue->count];

		if (!entry->waits)
			continue;
		update(entry, now_ns);
		if (entry->task.cause != ATTACH_EXECUTED && entry->credit_ns < 0)
			continue;
		queue->next = (queue->next + i + 1) % queue->count;
		queue->waiting_count--;
		entry->waits = false;
		*task = entry->task;
		return true;
	}
	return false;
}

bool attach_queue__is_empty(const struct attach_queue *queue)
{
	return !queue->waiting_count;
}

bool attach_queue__has(const struct attach_queue *queue, pid_t pid)
{
	const struct entry *entry = entry_of(queue, pid);

	return entry && entry->waits;
}

void attach_queue__charge(struct attach_queue *queue, pid_t pid, uint64_t now_ns, uint64_t cost_ns)
{
	struct entry *entry = entry_of(queue, pid);

	if (!entry)
		return;
	update(entry, now_ns);
	entry->credit_ns -= (int64_t)cost_ns;
}

bool attach_queue__forget(struct attach_queue *queue, pid_t pid, struct attach_task *task)
{
	struct entry *entry = entry_of(queue, pid);
	size_t index;
	bool waited;

	if (!entry)
		return false;
	waited = entry->waits;
	*task = entry->task;
	index = (size_t)(entry - queue->entries);
	queue->waiting_count -= waited;
	queue->count--;
	memmove(entry, entry + 1, (queue->count - index) * sizeof(*entry));
	queue->next -= index < queue->next;
	return waited;
}
