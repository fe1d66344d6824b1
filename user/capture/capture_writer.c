// SPDX-License-Identifier: BSD-2-Clause
#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "capture/block.h"
#include "capture/capture.h"

#include "perfx_record.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Batches that may wait for the disk. With more of them capture_writer__add waits; then the rings
 * fill, and losses are counted there as always. */
#define BATCHES_MAX 8

/* The disk is asked to keep what it has once a second at most, and for a twentieth of the time. */
#define SYNC_NS	   1000000000u
#define SYNC_SHARE 20

/* Waiting records will be this much smaller. A guess: 5 of a span's 56 bytes remain, 8 of an
 * allocation's. */
#define COMPRESSION 8

struct batch {
	size_t used;
	uint64_t segment_ns;	   /* a segment ends with it, then; 0 */
	struct capture_dump *dump; /* to be written when it has been added; NULL */
	char records[COLUMNS_RECORDS_MAX];
};

struct capture_writer {
	int fd;
	struct batch *filling; /* the adder's, as all that is not said to be shared */
	size_t batches_count;
	bool has_thread;
	pthread_t thread;
	uint64_t segment_bytes; /* of records, since the last segment */

	/* shared, under lock */
	pthread_mutex_t lock;
	pthread_cond_t given, taken;
	struct batch *waiting[BATCHES_MAX]; /* oldest first */
	size_t waiting_count;
	struct batch *idle[BATCHES_MAX];
	size_t idle_count;
	uint64_t written_bytes, waiting_bytes;
	bool closing;
	int err;
	struct capture_dump *done[BATCHES_MAX]; /* oldest first */
	size_t done_count, dumps_count;		/* asked for, less those that were fetched */

	/* the thread's */
	struct block_store *store; /* NULL: to the file */
	struct packer *packer;
	uint32_t sequence;
	uint64_t next_sync_ns;
};

void capture_dump__free(struct capture_dump *dump)
{
	if (!dump)
		return;
	free(dump->path);
	free(dump->why);
	free(dump->closing);
	free(dump);
}

/* A descriptor that cannot be synced (a pipe) is no disk. Any other error counts at once: the
 * kernel returns it once, and the next call succeeds. */
static int sync_data(int fd)
{
	return fdatasync(fd) && errno != EINVAL && errno != EROFS ? -errno : 0;
}

/* A disk that is slow at it is asked less often. */
static int sync_sometimes(struct capture_writer *writer)
{
	uint64_t before = clock_monotonic_ns(), took;
	int err;

	if (before < writer->next_sync_ns)
		return 0;
	err = sync_data(writer->fd);
	took = clock_monotonic_ns() - before;
	writer->next_sync_ns = before + (took * SYNC_SHARE > SYNC_NS ? took * SYNC_SHARE : SYNC_NS);
	return err;
}

static int write_batch(struct capture_writer *writer, const struct batch *batch, size_t *bytes)
{
	const void *block = packer__pack(writer->packer, batch->records, batch->used,
					 writer->sequence++, bytes);
	int err;

	if (writer->store)
		return writer->store->add(writer->store, block, *bytes, batch->segment_ns);
	err = output_write(writer->fd, block, *bytes);
	return err ? err : sync_sometimes(writer);
}

static struct batch *pop_waiting(struct capture_writer *writer)
{
	struct batch *batch = writer->waiting[0];

	writer->waiting_count--;
	memmove(writer->waiting, writer->waiting + 1,
		writer->waiting_count * sizeof(writer->waiting[0]));
	return batch;
}

static void *write_batches(void *arg)
{
	struct capture_writer *writer = arg;

	pthread_mutex_lock(&writer->lock);
	while (!writer->closing || writer->waiting_count) {
		struct batch *batch;
		size_t bytes = 0;
		int err = writer->err;

		if (!writer->waiting_count) {
			pthread_cond_wait(&writer->given, &writer->lock);
			continue;
		}
		batch = pop_waiting(writer);
		pthread_mutex_unlock(&writer->lock);
		if (!err && batch->used)
			err = write_batch(writer, batch, &bytes);
		if (!err && batch->dump)
			writer->store->dump(writer->store, writer->packer, batch->dump);
		else if (batch->dump)
			batch->dump->err = err;
		pthread_mutex_lock(&writer->lock);
		writer->err = err;
		writer->written_bytes += bytes;
		/* there is room: no more dumps are asked for */
		if (batch->dump)
			writer->done[writer->done_count++] = batch->dump;
		batch->dump = NULL;
		writer->waiting_bytes -= batch->used;
		writer->idle[writer->idle_count++] = batch;
		pthread_cond_signal(&writer->taken);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

static void empty(struct batch *batch)
{
	batch->used = 0;
	batch->segment_ns = 0;
	batch->dump = NULL;
}

/* An idle batch, or a new one. If all BATCHES_MAX are in use, or memory is out, waits until the
 * thread returns a batch; it returns each, written or not. NULL: no memory for the first batch. The
 * caller holds the lock. */
static struct batch *next_batch(struct capture_writer *writer)
{
	struct batch *batch = NULL;

	if (!writer->idle_count && writer->batches_count < BATCHES_MAX)
		batch = malloc(sizeof(*batch));
	if (batch) {
		writer->batches_count++;
		return batch;
	}
	while (!writer->idle_count && writer->batches_count)
		pthread_cond_wait(&writer->taken, &writer->lock);
	return writer->idle_count ? writer->idle[--writer->idle_count] : NULL;
}

/* Hands the filled batch to the thread. 0, or -errno: the batch stays, and its records are dropped.
 * An error of the thread is returned with the next batch. */
static int hand_over(struct capture_writer *writer)
{
	int err = 0;

	/* not before there is something to write: a fork in between finds one thread */
	if (!writer->has_thread) {
		err = thread_start(&writer->thread, write_batches, writer);
		writer->has_thread = !err;
	}
	pthread_mutex_lock(&writer->lock);
	if (!writer->err)
		writer->err = err;
	err = writer->err;
	if (!err) {
		writer->waiting[writer->waiting_count++] = writer->filling;
		writer->waiting_bytes += writer->filling->used;
		pthread_cond_signal(&writer->given);
		writer->filling = next_batch(writer);
	}
	pthread_mutex_unlock(&writer->lock);
	empty(writer->filling);
	return err;
}

int capture_writer__flush(struct capture_writer *writer)
{
	int err;

	if (writer->filling->used)
		return hand_over(writer);
	pthread_mutex_lock(&writer->lock);
	err = writer->err;
	pthread_mutex_unlock(&writer->lock);
	return err;
}

int capture_writer__add(struct capture_writer *writer, const void *record, size_t size)
{
	const struct perfx_record *hdr = record;
	struct batch *batch = writer->filling;
	int err;

	if (size < sizeof(*hdr) || size > PERFX_RECORD_MAX || size % 8 || hdr->size != size)
		return -EINVAL;
	if (batch->used + size > sizeof(batch->records)) {
		err = hand_over(writer);
		if (err)
			return err;
		batch = writer->filling;
	}
	memcpy(batch->records + batch->used, record, size);
	batch->used += size;
	writer->segment_bytes += size;
	if (hdr->kind != PERFX_KIND_SEGMENT)
		return 0;
	writer->segment_bytes = 0;
	batch->segment_ns = ((const struct perfx_segment *)record)->time_ns;
	/* in a store segments end with their blocks */
	return writer->store ? hand_over(writer) : 0;
}

uint64_t capture_writer__segment_bytes(const struct capture_writer *writer)
{
	return writer->segment_bytes / COMPRESSION;
}

int capture_writer__dump(struct capture_writer *writer, struct capture_dump *dump)
{
	int err = -EBUSY;

	if (writer->dumps_count < BATCHES_MAX) {
		writer->filling->dump = dump;
		err = hand_over(writer);
	}
	if (err)
		capture_dump__free(dump);
	else
		writer->dumps_count++;
	return err;
}

struct capture_dump *capture_writer__dumped(struct capture_writer *writer, bool wait)
{
	struct capture_dump *dump = NULL;

	pthread_mutex_lock(&writer->lock);
	while (wait && writer->dumps_count && !writer->done_count)
		pthread_cond_wait(&writer->taken, &writer->lock);
	if (writer->done_count) {
		dump = writer->done[0];
		writer->dumps_count--;
		writer->done_count--;
		memmove(writer->done, writer->done + 1,
			writer->done_count * sizeof(writer->done[0]));
	}
	pthread_mutex_unlock(&writer->lock);
	return dump;
}

uint64_t capture_writer__bytes(struct capture_writer *writer)
{
	uint64_t bytes;

	pthread_mutex_lock(&writer->lock);
	bytes = writer->written_bytes + writer->waiting_bytes / COMPRESSION;
	pthread_mutex_unlock(&writer->lock);
	return bytes + writer->filling->used / COMPRESSION;
}

/* Takes over fd. */
static struct capture_writer *writer_new(int fd)
{
	struct capture_writer *writer = calloc(1, sizeof(*writer));

	if (!writer) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	writer->fd = fd;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->given, NULL);
	pthread_cond_init(&writer->taken, NULL);
	writer->packer = packer__new();
	writer->filling = next_batch(writer);
	if (writer->filling)
		empty(writer->filling);
	return writer;
}

struct capture_writer *capture_writer__new_store(struct block_store *store)
{
	struct capture_writer *writer = writer_new(-1);

	if (!writer) {
		store->free(store);
		return NULL;
	}
	writer->store = store;
	if (writer->packer && writer->filling)
		return writer;
	capture_writer__free(writer);
	errno = ENOMEM;
	return NULL;
}

int capture_write_header(int fd)
{
	struct capture_header header = {.version = CAPTURE_VERSION,
					.record_version = PERFX_RECORD_VERSION};

	memcpy(header.magic, CAPTURE_MAGIC, sizeof(header.magic));
	return output_write(fd, &header, sizeof(header));
}

struct capture_writer *capture_writer__new(int fd)
{
	struct capture_writer *writer = writer_new(fd);
	int err = -ENOMEM;

	if (!writer)
		return NULL;
	if (writer->packer && writer->filling) {
		err = capture_write_header(fd);
		writer->written_bytes = sizeof(struct capture_header);
	}
	if (!err)
		return writer;
	writer->err = err;
	capture_writer__free(writer);
	errno = -err;
	return NULL;
}

int capture_writer__free(struct capture_writer *writer)
{
	int err;

	if (!writer)
		return 0;
	if (writer->filling)
		capture_writer__flush(writer);
	pthread_mutex_lock(&writer->lock);
	writer->closing = true;
	pthread_cond_signal(&writer->given);
	pthread_mutex_unlock(&writer->lock);
	if (writer->has_thread)
		pthread_join(writer->thread, NULL);
	err = writer->err;
	if (!err && writer->fd >= 0)
		err = sync_data(writer->fd);
	if (writer->fd >= 0 && close(writer->fd) && !err)
		err = -errno;
	while (writer->done_count)
		capture_dump__free(writer->done[--writer->done_count]);
	if (writer->store)
		writer->store->free(writer->store);
	free(writer->filling);
	while (writer->waiting_count)
		free(pop_waiting(writer));
	while (writer->idle_count)
		free(writer->idle[--writer->idle_count]);
	packer__free(writer->packer);
	pthread_cond_destroy(&writer->given);
	pthread_cond_destroy(&writer->taken);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
	return err;
}
