// SPDX-License-Identifier: BSD-2-Clause
#include "top/top.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/message.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long a message stays above the keys. */
#define MESSAGE_NS 8000000000u

/* Columns of a frame on stdout, unless COLUMNS is set. */
#define PLAIN_COLUMNS 100

struct top {
	struct top_options options;
	struct live_feed *feed;
	struct top_past past; /* owned by the feed's thread */
	pthread_mutex_t lock; /* of next: the newest frame of that thread; NULL: none */
	struct top_frame *next;
	struct top_model model;
	struct top_frame *frame; /* that is shown; NULL: none yet */
	struct report_job *report;
	uint64_t frames_count;
	size_t messages_count; /* seen */
	uint64_t message_ns;   /* when the last one came; 0: it is not shown any more */
	char message[512];
	bool ended, failed;
};

/* Called by the feed's thread with each snapshot. Without memory the last frame stays. */
static void make_frame(void *ctx, const struct live_snapshot *snapshot)
{
	struct top *top = ctx;
	struct top_frame *frame = top_frame__new(snapshot, &top->past,
						 clock_ns(CLOCK_PROCESS_CPUTIME_ID)),
			 *old;

	if (!frame)
		return;
	pthread_mutex_lock(&top->lock);
	old = top->next;
	top->next = frame;
	pthread_mutex_unlock(&top->lock);
	top_frame__free(old);
}

struct top *top__new(const struct top_options *options, struct live_feed *feed)
{
	struct top *top = calloc(1, sizeof(*top));
	int err = -ENOMEM;

	if (!top)
		return NULL;
	top->options = *options;
	top->feed = feed;
	pthread_mutex_init(&top->lock, NULL);
	top_model_init(&top->model);
	top->report = report_job__new(options->rules_file);
	if (top->report)
		err = live_feed__start(feed, make_frame, top);
	if (!err)
		return top;
	top__free(top);
	errno = -err;
	return NULL;
}

void top__free(struct top *top)
{
	if (!top)
		return;
	report_job__free(top->report);
	screen_close();
	top_frame__free(top->frame);
	top_frame__free(top->next);
	top_past_clear(&top->past);
	pthread_mutex_destroy(&top->lock);
	free(top);
}

bool top__enough(void *ctx)
{
	return ((struct top *)ctx)->ended;
}

bool top__failed(const struct top *top)
{
	return top->failed;
}

static void draw(struct top *top)
{
	struct top_layout layout = {.message = top->message_ns ? top->message : "",
				    .flight_ns = top->options.flight_ns};

	screen_size(&layout.width, &layout.height);
	top_layout_screen(&layout, top->frame, &top->model);
	if (!layout.failed)
		screen_draw(&layout);
	top_layout_clear(&layout);
}

/* Shows the newest message for MESSAGE_NS. True: its line changes. */
static bool update_message(struct top *top, uint64_t now_ns)
{
	size_t count = msg_held(top->message, sizeof(top->message));

	if (count != top->messages_count) {
		top->messages_count = count;
		top->message_ns = now_ns;
		return true;
	}
	if (!top->message_ns || now_ns - top->message_ns <= MESSAGE_NS)
		return false;
	top->message_ns = 0;
	return true;
}

/* Handles all pending keys. True: something has changed. */
static bool handle_keys(struct top *top)
{
	enum top_action action;
	bool changes = false;
	uint32_t key;

	while (!top->ended) {
		switch (screen_key(&key)) {
		case SCREEN_NONE:
			return changes;
		case SCREEN_GONE:
			top->ended = true;
			return false;
		case SCREEN_KEY:
			/* a user who types has seen the message */
			top->message_ns = 0;
			action = top_model_key(&top->model, top->frame, key);
			if (action == TOP_QUIT)
				top->ended = true;
			else if (action == TOP_WRITE_REPORT)
				report_job__begin(top->report, top->model.path);
			break;
		case SCREEN_RESIZED:
			break;
		}
		changes = true;
	}
	return changes;
}

static void on_input(void *ctx)
{
	struct top *top = ctx;

	if (!screen_is_open())
		return;
	if (handle_keys(top))
		draw(top);
	/* detaching takes time: restore the terminal at once after q */
	if (top->ended)
		screen_close();
}

static void print_frame(struct top *top, const struct top_frame *frame)
{
	long columns = strtol(getenv("COLUMNS") ?: "", NULL, 10);
	struct top_layout layout = {.width = columns >= 40 && columns <= 1000 ? (unsigned)columns
									      : PLAIN_COLUMNS,
				    .rows_max = top->options.rows_max ?: TOP_PLAIN_ROWS,
				    .message = ""};
	struct text text = {0};
	int err;

	top_layout_plain(&layout, frame);
	top_layout_text(&layout, &text);
	text_add(&text, "\n");
	msg_status_clear();
	err = layout.failed || text.failed
		      ? -ENOMEM
		      : output_write(STDOUT_FILENO, text_peek(&text), text.length);
	text_clear(&text);
	top_layout_clear(&layout);
	if (!err)
		return;
	/* a reader that has seen enough is no failure */
	top->ended = true;
	if (err != -EPIPE) {
		msg_say("stdout: %s", output_error(err));
		top->failed = true;
	}
}

static void on_tick(void *ctx, uint64_t now_ns)
{
	struct top *top = ctx;
	struct top_frame *frame;
	bool changes;

	if (top->ended)
		return;
	if (top->options.screen && !screen_is_open()) {
		if (screen_open()) {
			draw(top);
		} else {
			msg_say("TERM=%s: no such terminal is known: set TERM, or pipe the output "
				"for frames",
				getenv("TERM") ?: "");
			top->ended = top->failed = true;
		}
	}
	report_job__tick(top->report);
	live_feed__tick(top->feed, now_ns);
	/* The caller owns the frame. NULL: no new frame since the last call. */
	pthread_mutex_lock(&top->lock);
	frame = top->next;
	top->next = NULL;
	pthread_mutex_unlock(&top->lock);
	changes = frame != NULL;
	if (frame) {
		top->frames_count++;
		if (!top->options.screen)
			print_frame(top, frame);
		if (top->model.paused && top->frame) {
			top_frame__free(frame);
		} else {
			top_frame__free(top->frame);
			top->frame = frame;
		}
		if (top->frames_count == top->options.frames_max)
			top->ended = true;
	}
	if (!screen_is_open())
		return;
	/* also without input: a signal has said that the size has changed */
	changes |= handle_keys(top);
	changes |= update_message(top, now_ns);
	if (changes)
		draw(top);
}

static uint64_t known_from_ns(void *ctx)
{
	return live_feed__known_from_ns(((struct top *)ctx)->feed);
}

static char *wants_capture(void *ctx)
{
	return report_job__wants(((struct top *)ctx)->report);
}

static void captured(void *ctx, const char *path, int err)
{
	report_job__captured(((struct top *)ctx)->report, path, err);
}

struct recorder_watcher top__watcher(struct top *top)
{
	return (struct recorder_watcher){.ctx = top,
					 .fd = top->options.screen ? STDIN_FILENO : -1,
					 .on_input = on_input,
					 .on_tick = on_tick,
					 .known_from_ns = known_from_ns,
					 .wants_capture = wants_capture,
					 .captured = captured};
}
