// SPDX-License-Identifier: BSD-2-Clause
#include "serve/job.h"

#include "aggregate/aggregate.h"
#include "analyze/analyze.h"
#include "base/clock.h"
#include "base/scratch.h"
#include "base/thread.h"
#include "export/export.h"
#include "replay/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The traced program comes first. */
#define NICE 10
/* Events between two checks of the deadline. */
#define EVENTS_PER_CHECK 4096
/* The end of serving waits this long for a client that reads its answer slowly. */
#define END_NS 500000000u

enum job_state {
	JOB_FREE = 0,
	JOB_BEGUN,   /* the thread is to make a folder for it */
	JOB_WANTED,  /* the recording is to write the file */
	JOB_WRITING, /* it does */
	JOB_WRITTEN, /* or writing failed: err */
	JOB_WORKING, /* the thread makes the answer */
	JOB_DONE,    /* it can be taken */
};

struct job {
	const struct rule_set *rules;
	pthread_t thread;
	pthread_mutex_t lock; /* of the members below */
	pthread_cond_t changed;
	enum job_state state;
	bool stopping;
	struct job_request request;
	uint64_t deadline_ns;  /* CLOCK_MONOTONIC */
	struct scratch folder; /* of the capture, */
	char *path;	       /* in it */
	int err, fd;	       /* the answer */
};

static int check(void *ctx)
{
	struct job *job = ctx;
	bool stopping;

	pthread_mutex_lock(&job->lock);
	stopping = job->stopping;
	pthread_mutex_unlock(&job->lock);
	if (stopping)
		return -ECANCELED;
	return clock_monotonic_ns() > job->deadline_ns ? -ETIMEDOUT : 0;
}

struct reading {
	struct job *job;
	struct aggregate *aggregate;
	export_read *read; /* NULL: the pipeline fills the aggregate */
	unsigned events_count;
};

static int on_event(void *ctx, const struct event *event)
{
	struct reading *reading = ctx;
	int err = ++reading->events_count % EVENTS_PER_CHECK ? 0 : check(reading->job);

	if (err)
		return err;
	return reading->read ? reading->read(reading->aggregate, event) : 0;
}

static int read_and_write(struct job *job, FILE *out, struct aggregate *aggregate)
{
	const struct report_query *query = &job->request.query;
	const struct report_options options = {.table = query->table};
	struct analysis *analysis;
	struct dump *dump;
	const struct capture_source source = {
		.path = job->path,
		.time_slice.since = {.given = true, .from_end = true, .ns = query->length_ns}};
	struct reading reading = {.job = job, .aggregate = aggregate};
	struct pipeline pipeline = {.on_event = on_event, .ctx = &reading};
	const struct profile *profile = NULL;
	int err;

	if (query->writer || query->dump || query->push)
		pipeline.aggregate = aggregate;
	else
		reading.read = export_reader(query->export);
	err = capture_source_replay(&source, &pipeline, NULL);
	if (!err)
		profile = aggregate__finish(aggregate);
	if (!err)
		err = profile ? check(job) : -ENOMEM;
	if (err)
		return err;
	if (query->push)
		return push__store(query->push, profile, &source);
	if (query->dump) {
		dump = dump__new(profile);
		err = dump ? query->dump_writer->write(out, profile, dump, &options) : -ENOMEM;
		dump__free(dump);
		return err;
	}
	if (!query->writer)
		return export_write(out, query->export, query->of, profile, &source);
	analysis = analyze(profile, job->rules);
	err = analysis ? query->writer->write(out, profile, analysis, &options) : -ENOMEM;
	analysis__free(analysis);
	return err;
}

/* Returns a descriptor or -errno. */
static int make_report(struct job *job)
{
	struct aggregate *aggregate = aggregate__new();
	int fd, copy, err = -ENOMEM;
	FILE *out = NULL;
	char path[4096];

	/* a file without a name */
	snprintf(path, sizeof(path), "%s/answer-XXXXXX", job->folder.path);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		err = -errno;
	else
		unlink(path);
	copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0)
		out = fdopen(copy, "w");
	if (out && aggregate)
		err = read_and_write(job, out, aggregate);
	if (out && fclose(out) && !err)
		err = -errno;
	aggregate__free(aggregate);
	if (!err && lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* Returns a descriptor or -errno. */
static int make_capture(struct job *job)
{
	const struct cut cut = {.path = job->path,
				.to = job->path,
				.length_ns = job->request.query.length_ns,
				.check = check,
				.ctx = job};
	int err = cut.length_ns ? capture_cut(&cut) : 0, fd;

	if (err)
		return err;
	fd = open(job->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (long)(ns % 1000000000)};
}

/* The lock is held, but not while the request is informed. */
static void finish(struct job *job)
{
	const struct job_request request = job->request;

	job->state = JOB_DONE;
	pthread_mutex_unlock(&job->lock);
	request.done(request.ctx);
	pthread_mutex_lock(&job->lock);
}

/* The lock is held, but not while it works. */
static void work(struct job *job)
{
	struct timespec deadline = timespec_of(job->deadline_ns);
	int err =
		scratch_make(&job->folder) ?: scratch_file(&job->folder, "last.perfx", &job->path);
	int wait_err = err, fd;

	job->state = err ? job->state : JOB_WANTED;
	while (!wait_err && job->state != JOB_WRITTEN)
		wait_err = job->stopping
				   ? ECANCELED
				   : pthread_cond_timedwait(&job->changed, &job->lock, &deadline);
	if (!err)
		err = job->state == JOB_WRITTEN ? job->err : -wait_err;
	job->state = JOB_WORKING;
	pthread_mutex_unlock(&job->lock);
	fd = err ? err : job->request.query.capture ? make_capture(job) : make_report(job);
	pthread_mutex_lock(&job->lock);
	scratch_remove(&job->folder);
	free(job->path);
	job->path = NULL;
	job->fd = fd;
	finish(job);
}

static void *run(void *arg)
{
	struct job *job = arg;

	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	pthread_mutex_lock(&job->lock);
	while (!job->stopping) {
		if (job->state == JOB_BEGUN)
			work(job);
		else
			pthread_cond_wait(&job->changed, &job->lock);
	}
	if (job->state == JOB_BEGUN) /* meanwhile */
		finish(job);
	pthread_mutex_unlock(&job->lock);
	return NULL;
}

struct job *job__new(const struct rule_set *rules)
{
	struct job *job = calloc(1, sizeof(*job));
	pthread_condattr_t monotonic;
	int err;

	if (!job)
		return NULL;
	scratch_sweep();
	job->rules = rules;
	job->fd = -ECANCELED;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&job->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&job->lock, NULL);
	err = thread_start(&job->thread, run, job);
	if (!err)
		return job;
	pthread_cond_destroy(&job->changed);
	pthread_mutex_destroy(&job->lock);
	free(job);
	errno = -err;
	return NULL;
}

void job__stop(struct job *job)
{
	struct timespec deadline;
	int err = 0;

	pthread_mutex_lock(&job->lock);
	job->stopping = true;
	pthread_cond_broadcast(&job->changed);
	pthread_mutex_unlock(&job->lock);
	pthread_join(job->thread, NULL);
	/* until the answer has been sent */
	deadline = timespec_of(clock_monotonic_ns() + END_NS);
	pthread_mutex_lock(&job->lock);
	while (job->state != JOB_FREE && !err)
		err = pthread_cond_timedwait(&job->changed, &job->lock, &deadline);
	pthread_mutex_unlock(&job->lock);
}

void job__free(struct job *job)
{
	if (!job)
		return;
	if (job->fd >= 0)
		close(job->fd);
	pthread_cond_destroy(&job->changed);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

int job__begin(struct job *job, const struct job_request *request)
{
	int err = -EBUSY;

	pthread_mutex_lock(&job->lock);
	if (job->state == JOB_FREE && !job->stopping) {
		job->state = JOB_BEGUN;
		job->request = *request;
		job->deadline_ns = clock_monotonic_ns() + JOB_MAX_NS;
		pthread_cond_broadcast(&job->changed);
		err = 0;
	}
	pthread_mutex_unlock(&job->lock);
	return err;
}

bool job__is_busy(struct job *job)
{
	bool busy;

	pthread_mutex_lock(&job->lock);
	busy = job->state != JOB_FREE && !job->stopping;
	pthread_mutex_unlock(&job->lock);
	return busy;
}

int job__answer_fd(struct job *job)
{
	int fd = -ECANCELED;

	pthread_mutex_lock(&job->lock);
	if (job->state == JOB_DONE) {
		fd = job->fd;
		job->fd = -ECANCELED;
	}
	pthread_mutex_unlock(&job->lock);
	return fd;
}

void job__end(struct job *job)
{
	pthread_mutex_lock(&job->lock);
	if (job->state == JOB_DONE) {
		if (job->fd >= 0)
			close(job->fd);
		job->fd = -ECANCELED;
		job->state = JOB_FREE;
		pthread_cond_broadcast(&job->changed);
	}
	pthread_mutex_unlock(&job->lock);
}

char *job__wants(struct job *job)
{
	char *path = NULL;

	pthread_mutex_lock(&job->lock);
	if (job->state == JOB_WANTED) {
		path = strdup(job->path);
		if (path)
			job->state = JOB_WRITING;
	}
	pthread_mutex_unlock(&job->lock);
	return path;
}

bool job__wants_dump(struct job *job)
{
	bool wants;

	pthread_mutex_lock(&job->lock);
	wants = job->state == JOB_WRITING && job->request.query.dump;
	pthread_mutex_unlock(&job->lock);
	return wants;
}

/* The folder of an abandoned request could not be removed before. */
static void remove_late(const char *path)
{
	char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;

	unlink(path);
	if (slash) {
		*slash = '\0';
		rmdir(folder);
	}
	free(folder);
}

void job__captured(struct job *job, const char *path, int err)
{
	pthread_mutex_lock(&job->lock);
	if (job->state == JOB_WRITING && !strcmp(job->path, path)) {
		job->err = err;
		job->state = JOB_WRITTEN;
		pthread_cond_broadcast(&job->changed);
	} else {
		remove_late(path);
	}
	pthread_mutex_unlock(&job->lock);
}
