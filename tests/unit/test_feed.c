// SPDX-License-Identifier: BSD-2-Clause
/* The thread that drains the rings never waits for a snapshot, and nothing is lost on the way. */
#include "stream_builder.h"

#include "live/live.h"

#include <criterion/criterion.h>
#include <semaphore.h>

struct watched {
	sem_t began, may_end; /* a snapshot */
	uint64_t calls_count; /* of the last one */
};

static void on_snapshot(void *ctx, const struct live_snapshot *snapshot)
{
	struct watched *watched = ctx;

	watched->calls_count = snapshot->totals.sums.calls_count;
	sem_post(&watched->began);
	sem_wait(&watched->may_end);
}

static struct live *live_new(void)
{
	/* a snapshot each period, however slow this machine is */
	const struct live_options options = {.period_ns = S, .own_share = 1e6};

	return live__new(&options);
}

static void feed_stream(struct live_feed *feed, struct stream *s)
{
	const char *bytes = text_peek(&s->bytes);
	struct perfx_record hdr;

	for (size_t at = 0; at < s->bytes.length; at += hdr.size) {
		memcpy(&hdr, bytes + at, sizeof(hdr));
		cr_assert_eq(live_feed__record(feed, bytes + at, hdr.size), 0);
	}
}

static void begin(struct stream *s)
{
	stream_host(s);
	stream_process(s, 1, 100, "a", "a");
	stream_function(s, 1, "f", "/bin/a", PERFX_SOURCE_SYMBOL);
	stream_context(s, 1, 0, 1, 1);
}

/* 100 calls, the first of them at that time. */
static void calls(struct stream *s, uint64_t at)
{
	for (unsigned i = 0; i < 100; i++)
		stream_call(s, 1, 1, at + i * MS, 1000, 1000, 0);
}

Test(feed, records_are_taken_while_a_snapshot_is_made)
{
	struct watched watched = {0};
	struct live *live = live_new();
	struct live_feed *feed = live_feed__new(live);
	struct stream s = {0};

	sem_init(&watched.began, 0, 0);
	sem_init(&watched.may_end, 0, 0);
	cr_assert_eq(live_feed__start(feed, on_snapshot, &watched), 0);
	begin(&s);
	calls(&s, 0);
	feed_stream(feed, &s);
	live_feed__tick(feed, STREAM_START + 2 * S);
	sem_wait(&watched.began);
	cr_expect_eq(watched.calls_count, 100);

	text_clear(&s.bytes);
	calls(&s, 3 * S);
	feed_stream(feed, &s);
	live_feed__tick(feed, STREAM_START + 4 * S);
	live_feed__tick(feed, STREAM_START + 6 * S);
	sem_post(&watched.may_end);
	/* the thread reads what has been handed over, once it has ended the snapshot */
	while (sem_trywait(&watched.began))
		live_feed__tick(feed, STREAM_START + 8 * S);
	cr_expect_eq(watched.calls_count, 200);
	sem_post(&watched.may_end);
	live_feed__free(feed);
	live__free(live);
	stream_clear(&s);
}

Test(feed, stop_reads_what_has_come)
{
	struct watched watched = {0};
	struct live *live = live_new();
	struct live_feed *feed = live_feed__new(live);
	struct stream s = {0};

	cr_assert_eq(live_feed__start(feed, on_snapshot, &watched), 0);
	begin(&s);
	calls(&s, 0);
	feed_stream(feed, &s);
	live_feed__stop(feed);
	cr_expect(live__tick(live, STREAM_START + 2 * S));
	cr_assert(live__tick(live, STREAM_START + 4 * S));
	cr_expect_eq(live__snapshot(live)->totals.sums.calls_count, 100);
	live_feed__free(feed);
	live__free(live);
	stream_clear(&s);
}

/* A batch that is full is handed over without a tick. */
Test(feed, more_than_a_batch)
{
	enum { RECORDS = LIVE_FEED_BYTES / (64 << 10) + 64 };
	struct live *live = live_new();
	struct live_feed *feed = live_feed__new(live);
	struct watched watched = {0};
	struct stream s = {0};
	char *large = calloc(1, 64 << 10);

	/* of no known kind: skipped by its size */
	*(struct perfx_record *)large = (struct perfx_record){
		.size = 64 << 10, .kind = 9999, .fixed = sizeof(struct perfx_record)};
	cr_assert_eq(live_feed__start(feed, on_snapshot, &watched), 0);
	begin(&s);
	feed_stream(feed, &s);
	for (unsigned i = 0; i < RECORDS; i++)
		cr_assert_eq(live_feed__record(feed, large, 64 << 10), 0);
	text_clear(&s.bytes);
	calls(&s, 0);
	feed_stream(feed, &s);
	live_feed__stop(feed);
	cr_assert(live__tick(live, STREAM_START + 2 * S) || live__tick(live, STREAM_START + 4 * S));
	cr_expect_eq(live__snapshot(live)->totals.sums.calls_count, 100);
	free(large);
	live_feed__free(feed);
	live__free(live);
	stream_clear(&s);
}
