// SPDX-License-Identifier: BSD-2-Clause
#include "live/live.h"

#include "base/grow.h"
#include "base/thread.h"
#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

/* Consecutive records, and the time of the tick that ended the batch. */
struct batch {
	unsigned char *bytes;
	size_t length, capacity;
	uint64_t now_ns; /* 0: a full batch, or the last one */
};

struct live_feed {
	struct live *live;
	struct pipeline pipeline; /* of the thread: decodes records into events for live */
	void (*on_snapshot)(void *ctx, const struct live_snapshot *snapshot);
	void *ctx;
	pthread_t thread;
	bool started;
	struct batch filling; /* owned by the draining thread */
	pthread_mutex_t lock; /* of all members below */
	pthread_cond_t changed;
	struct batch reading; /* owned by the thread while is_reading */
	bool is_reading, stopping;
	uint64_t known_from_ns;
	int err;
};

struct live_feed *live_feed__new(struct live *live)
{
	struct live_feed *feed = calloc(1, sizeof(*feed));

	if (!feed)
		return NULL;
	feed->live = live;
	feed->known_from_ns = live__known_from_ns(live);
	feed->pipeline = (struct pipeline){.on_event = live__event, .ctx = live};
	pipeline_init(&feed->pipeline);
	pthread_mutex_init(&feed->lock, NULL);
	pthread_cond_init(&feed->changed, NULL);
	return feed;
}

void live_feed__free(struct live_feed *feed)
{
	if (!feed)
		return;
	live_feed__stop(feed);
	pthread_cond_destroy(&feed->changed);
	pthread_mutex_destroy(&feed->lock);
	free(feed->filling.bytes);
	free(feed->reading.bytes);
	free(feed);
}

static void *run(void *arg)
{
	struct live_feed *feed = arg;

	pthread_mutex_lock(&feed->lock);
	while (feed->is_reading || !feed->stopping) {
		if (!feed->is_reading) {
			pthread_cond_wait(&feed->changed, &feed->lock);
			continue;
		}
		pthread_mutex_unlock(&feed->lock);
		if (feed->reading.length)
			sink_record(&feed->pipeline.sink, feed->reading.bytes,
				    feed->reading.length);
		feed->reading.length = 0;
		if (feed->reading.now_ns && live__tick(feed->live, feed->reading.now_ns))
			feed->on_snapshot(feed->ctx, live__snapshot(feed->live));
		pthread_mutex_lock(&feed->lock);
		feed->is_reading = false;
		feed->known_from_ns = live__known_from_ns(feed->live);
		feed->err = feed->pipeline.err;
		pthread_cond_broadcast(&feed->changed);
	}
	pthread_mutex_unlock(&feed->lock);
	return NULL;
}

/* Waits until the last batch has been read, then swaps the batches. The caller holds the lock. */
static void hand_over(struct live_feed *feed, uint64_t now_ns)
{
	struct batch read;

	while (feed->is_reading)
		pthread_cond_wait(&feed->changed, &feed->lock);
	read = feed->reading;
	feed->reading = feed->filling;
	feed->reading.now_ns = now_ns;
	feed->filling = read;
	feed->is_reading = true;
	pthread_cond_broadcast(&feed->changed);
}

int live_feed__record(struct live_feed *feed, const void *record, size_t size)
{
	struct batch *batch = &feed->filling;
	int err = 0;

	if (!feed->started)
		return 0;
	if (batch->length && batch->length + size > LIVE_FEED_BYTES) {
		pthread_mutex_lock(&feed->lock);
		hand_over(feed, 0);
		err = feed->err;
		pthread_mutex_unlock(&feed->lock);
	}
	if (!err)
		err = grow_array(&batch->bytes, &batch->capacity, batch->length + size, 1);
	if (err)
		return err;
	memcpy(batch->bytes + batch->length, record, size);
	batch->length += size;
	return 0;
}

void live_feed__tick(struct live_feed *feed, uint64_t now_ns)
{
	pthread_mutex_lock(&feed->lock);
	if (!feed->is_reading)
		hand_over(feed, now_ns);
	pthread_mutex_unlock(&feed->lock);
}

uint64_t live_feed__known_from_ns(struct live_feed *feed)
{
	uint64_t known_from_ns;

	pthread_mutex_lock(&feed->lock);
	known_from_ns = feed->known_from_ns;
	pthread_mutex_unlock(&feed->lock);
	return known_from_ns;
}

int live_feed__start(struct live_feed *feed,
		     void (*on_snapshot)(void *ctx, const struct live_snapshot *snapshot),
		     void *ctx)
{
	int err;

	feed->on_snapshot = on_snapshot;
	feed->ctx = ctx;
	err = thread_start(&feed->thread, run, feed);
	feed->started = !err;
	return err;
}

void live_feed__stop(struct live_feed *feed)
{
	if (!feed->started)
		return;
	pthread_mutex_lock(&feed->lock);
	hand_over(feed, 0);
	feed->stopping = true;
	pthread_cond_broadcast(&feed->changed);
	pthread_mutex_unlock(&feed->lock);
	pthread_join(feed->thread, NULL);
	feed->started = false;
}
