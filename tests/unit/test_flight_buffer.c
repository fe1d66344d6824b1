// SPDX-License-Identifier: BSD-2-Clause
/* The flight recorder: what it writes is what an ordinary capture has of that time. */
#include "random_stream.h"

#include "analyze/analyze.h"
#include "base/file.h"
#include "capture/capture.h"
#include "replay/replay.h"
#include "report/report.h"
#include "rounds.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1u << 20)

/* The tests' folder. */
static char folder[32];

static void make_folder(void)
{
	strcpy(folder, "/tmp/perfx-ringXXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(flight, .init = make_folder, .fini = remove_folder);

static char *path_in(const char *name)
{
	char *path;

	cr_assert_geq(asprintf(&path, "%s/%s", folder, name), 0);
	return path;
}

static void add_from(struct capture_writer *writer, const struct stream *s, size_t *from)
{
	struct perfx_record hdr;

	for (; *from < s->bytes.length; *from += hdr.size) {
		memcpy(&hdr, s->bytes.data + *from, sizeof(hdr));
		cr_assert_eq(capture_writer__add(writer, s->bytes.data + *from, hdr.size), 0);
	}
}

/* END alone, at a time of the story. */
static struct capture_dump *dump_to(const char *name, uint64_t at)
{
	struct random_stream end = {.at = at};
	struct capture_dump *dump = calloc(1, sizeof(*dump));

	random_end(&end);
	dump->path = path_in(name);
	dump->why = strdup("a test");
	dump->recording_ns = STREAM_START;
	dump->to_ns = STREAM_START + at;
	dump->closing_bytes = end.stream.bytes.length;
	dump->closing = text_take(&end.stream.bytes);
	return dump;
}

static const struct profile *load(const char *path, struct time_slice *time_slice,
				  struct aggregate *aggregate)
{
	struct pipeline pipeline = {.aggregate = aggregate, .time_slice = time_slice};
	struct capture_reader *reader = capture_reader__open(path);

	cr_assert_not_null(reader, "%s", path);
	cr_assert_eq(pipeline_replay(&pipeline, reader), 0);
	cr_assert_eq(capture_reader__damage(reader)->bytes, 0);
	capture_reader__free(reader);
	return aggregate__finish(aggregate);
}

/* The JSON report, without what says that it is a time slice. */
static char *report_of(const char *path, struct time_slice *time_slice)
{
	struct aggregate *aggregate = aggregate__new();
	struct profile profile = *load(path, time_slice, aggregate);
	const struct report_options options = {0};
	struct analysis *analysis;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_neq(profile.time_slice.flags, 0);
	profile.time_slice.flags = 0;
	analysis = analyze(&profile, NULL);
	cr_assert_eq(report_writer_named("json")->write(out, &profile, analysis, &options), 0);
	fclose(out);
	analysis__free(analysis);
	aggregate__free(aggregate);
	return text;
}

static const struct profile_process *process_of_pid(const struct profile *profile, uint32_t pid)
{
	for (size_t i = 0; i < profile->processes_count; i++)
		if (profile->processes[i].pid == pid)
			return &profile->processes[i];
	return NULL;
}

static uint64_t live_at(const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	for (size_t i = 0; i < memory->hotspots_count; i++) {
		const struct profile_hotspot *h = &memory->hotspots[i];

		if (h->frames[0]->address == hotspot->frames[0]->address &&
		    h->context == hotspot->context)
			return h->live_bytes;
	}
	return 0;
}

static void check_memory(const struct profile_memory *time_slice,
			 const struct profile_memory *whole)
{
	cr_assert_eq(time_slice->current_bytes, whole->current_bytes);
	cr_assert_eq(time_slice->current_count, whole->current_count);
	cr_assert_eq(time_slice->unknown_frees_count, 0);
	cr_assert_eq(time_slice->replaced_count, 0);
	cr_assert_leq(time_slice->allocs.value, whole->allocs.value);
	cr_assert_leq(time_slice->peak_bytes, whole->peak_bytes);
	cr_assert_geq(time_slice->peak_bytes, time_slice->current_bytes);
	for (size_t i = 0; i < whole->hotspots_count; i++)
		cr_assert_eq(live_at(time_slice, &whole->hotspots[i]),
			     whole->hotspots[i].live_bytes);
}

/* Of a story without samples: allocations since then. */
static uint64_t allocations_since(const struct stream *s, uint64_t since_ns)
{
	uint64_t count = 0;
	struct event event;
	size_t skip;

	for (size_t at = 0; at < s->bytes.length; at += event.hdr.size) {
		decode_event(s->bytes.data + at, s->bytes.length - at, &event, &skip);
		count +=
			event.kind == PERFX_KIND_ALLOCATION && event.allocation.time_ns >= since_ns;
	}
	return count;
}

/* What happened before is in no sum. */
static void check_sums(const char *path, const struct stream *s, uint64_t since_ns)
{
	struct aggregate *aggregate = aggregate__new();
	const struct profile *time_slice = load(path, NULL, aggregate);
	uint64_t allocations = 0;

	for (size_t i = 0; i < time_slice->processes_count; i++) {
		const struct profile_process *process = &time_slice->processes[i];

		if (process->memory_count)
			allocations += process->memory[0].allocs.value;
		/* half as much again is system time; the last sample of one that exits is older */
		if (!process->exited)
			cr_assert_leq(process->cpu_ns,
				      (profile_wall_ns(process) + RANDOM_SEGMENT) * 3 / 2);
	}
	if (!time_slice->processes[0].memory[0].sampled)
		cr_assert_eq(allocations, allocations_since(s, since_ns));
	aggregate__free(aggregate);
}

/* What is added goes on from what was there. */
static void check_values(const struct profile_process *time_slice,
			 const struct profile_process *whole)
{
	for (size_t i = 0; i < time_slice->values_count; i++) {
		const struct profile_user_value *value = &time_slice->values[i], *same = NULL;

		for (size_t k = 0; k < whole->values_count; k++)
			if (whole->values[k].id == value->id)
				same = &whole->values[k];
		cr_assert_not_null(same);
		cr_assert_eq(value->value, same->value);
		cr_assert_leq(value->samples_count, same->samples_count);
	}
}

/* What lives at the end does so in the recording, whenever it was allocated. */
static void check_living(const char *path, const char *whole_path)
{
	struct aggregate *of_part = aggregate__new(), *of_whole = aggregate__new();
	const struct profile *time_slice = load(path, NULL, of_part);
	const struct profile *whole = load(whole_path, NULL, of_whole);

	for (size_t i = 0; i < time_slice->processes_count; i++) {
		const struct profile_process *process = &time_slice->processes[i];
		const struct profile_process *same = process_of_pid(whole, process->pid);

		cr_assert_not_null(same);
		cr_assert_str_eq(process->comm, same->comm);
		cr_assert_eq(process->memory_count, same->memory_count);
		check_values(process, same);
		if (!process->exited && process->memory_count)
			check_memory(process->memory, same->memory);
	}
	cr_assert_eq(time_slice->losses[PERFX_LOSS_UNDECODED], 0);
	aggregate__free(of_part);
	aggregate__free(of_whole);
}

/* Where they differ first. */
static void assert_same(const char *flight, const char *cut, unsigned seed)
{
	size_t at = 0, from;

	while (flight[at] && flight[at] == cut[at])
		at++;
	from = at > 300 ? at - 300 : 0;
	cr_assert(flight[at] == cut[at], "seed %u: ring …%.400s\n\n cut …%.400s", seed,
		  flight + from, cut + from);
}

/* A flight buffer's file, and the same time cut out of a capture of all of it, give the same
 * report. */
static void compare(unsigned seed, uint64_t length_ns, uint64_t length)
{
	struct random_stream r = {.with_sampling = seed % 2, .with_inferred_frees = seed % 4 == 0};
	struct capture_writer *flight = capture_writer__new_store(
				      flight_buffer__new(length_ns, 64 * MIB)),
			      *whole;
	char *path = path_in("whole.perfx"), *from_flight, *from_whole;
	struct capture_dump *dump;
	struct time_slice *time_slice;
	size_t added = 0;

	srand(seed);
	random_begin(&r);
	while (r.at < length) {
		random_go_on(&r);
		add_from(flight, &r.stream, &added);
	}
	cr_assert_eq(capture_writer__dump(flight, dump_to("ring.perfx", r.at)), 0);
	dump = capture_writer__dumped(flight, true);
	cr_assert_eq(dump->err, 0);
	cr_assert_eq(dump->from_ns, STREAM_START + length - length_ns);
	cr_assert_eq(capture_writer__free(flight), 0);

	random_end(&r);
	whole = capture_writer__new(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
	added = 0;
	add_from(whole, &r.stream, &added);
	cr_assert_eq(capture_writer__free(whole), 0);

	time_slice = time_slice__new(dump->from_ns - STREAM_START, UINT64_MAX);
	from_flight = report_of(dump->path, NULL);
	from_whole = report_of(path, time_slice);
	assert_same(from_flight, from_whole, seed);
	check_living(dump->path, path);
	check_sums(dump->path, &r.stream, dump->from_ns);
	time_slice__free(time_slice);
	free(from_flight);
	free(from_whole);
	free(path);
	capture_dump__free(dump);
	stream_clear(&r.stream);
}

Test(flight, has_what_a_capture_of_all_has_of_that_time)
{
	for (unsigned seed = 0; seed < (unsigned)rounds(40); seed++)
		compare(seed, 1 * S + seed % 7 * RANDOM_SEGMENT, 4 * S + seed % 5 * S);
}

/* The file of a flight buffer of that length. */
static struct capture_dump *record(const struct random_stream *r, uint64_t length_ns,
				   const char *name)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(length_ns, 64 * MIB));
	struct capture_dump *dump;
	size_t added = 0;

	add_from(flight, &r->stream, &added);
	cr_assert_eq(capture_writer__dump(flight, dump_to(name, r->at)), 0);
	dump = capture_writer__dumped(flight, true);
	cr_assert_eq(dump->err, 0);
	cr_assert_eq(capture_writer__free(flight), 0);
	return dump;
}

/* The end of a file is what a flight buffer with a shorter memory writes. */
Test(flight, a_file_can_be_cut)
{
	for (unsigned seed = 0; seed < (unsigned)rounds(100); seed++) {
		uint64_t length_ns = 1 * S + seed % 5 * RANDOM_SEGMENT;
		struct random_stream r = {.with_sampling = seed % 2,
					  .with_inferred_frees = seed % 4 == 0};
		struct capture_dump *longer, *shorter;
		char *from_cut, *expected;

		srand(seed);
		random_begin(&r);
		while (r.at < 6 * S)
			random_go_on(&r);
		longer = record(&r, 3 * S, "longer.perfx");
		shorter = record(&r, length_ns, "shorter.perfx");
		cr_assert_eq(capture_cut(&(struct cut){.path = longer->path,
						       .to = longer->path,
						       .length_ns = length_ns}),
			     0);
		from_cut = report_of(longer->path, NULL);
		expected = report_of(shorter->path, NULL);
		assert_same(from_cut, expected, seed);
		free(from_cut);
		free(expected);
		capture_dump__free(longer);
		capture_dump__free(shorter);
		stream_clear(&r.stream);
	}
}

/* Records of an unknown kind: two losses, said by the cut file, too. */
Test(flight, undecoded_records_of_a_cut_file)
{
	static const struct perfx_record strange[] = {{16, 999, 16}, {0}, {8, 999, 8}};
	struct random_stream r = {0};
	struct capture_dump *dump;
	struct aggregate *aggregate = aggregate__new();
	const struct profile *profile;

	srand(1);
	random_begin(&r);
	while (r.at < 2 * S)
		random_go_on(&r);
	text_add_bytes(&r.stream.bytes, (const char *)strange, 16);
	text_add_bytes(&r.stream.bytes, (const char *)(strange + 2), 8);
	dump = record(&r, 1 * S, "strange.perfx");
	profile = load(dump->path, NULL, aggregate);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 2);
	aggregate__free(aggregate);
	cr_assert_eq(
		capture_cut(&(struct cut){.path = dump->path, .to = dump->path, .length_ns = S}),
		0);
	aggregate = aggregate__new();
	profile = load(dump->path, NULL, aggregate);
	cr_expect_eq(profile->losses[PERFX_LOSS_UNDECODED], 2);
	aggregate__free(aggregate);
	capture_dump__free(dump);
	stream_clear(&r.stream);
}

static int refuse(void *ctx)
{
	(void)ctx;
	return -ETIMEDOUT;
}

Test(flight, what_cannot_be_cut)
{
	char *path = path_in("none.perfx");

	cr_assert_eq(capture_cut(&(struct cut){.path = path, .to = path, .length_ns = S}), -ENOENT);
	cr_assert_eq(capture_cut(&(struct cut){.path = "tests/golden/captures/memory.perfx",
					       .to = path,
					       .length_ns = S,
					       .check = refuse}),
		     -ETIMEDOUT);
	cr_assert_neq(access(path, F_OK), 0, "nothing is left");
	free(path);
}

static void start_story(struct random_stream *r, struct capture_writer *flight, size_t *added,
			uint64_t length)
{
	srand(1);
	random_begin(r);
	while (r->at < length)
		random_go_on(r);
	add_from(flight, &r->stream, added);
}

static uint64_t calls_in(const char *path)
{
	struct aggregate *aggregate = aggregate__new();
	uint64_t count = load(path, NULL, aggregate)->calls_count;

	aggregate__free(aggregate);
	return count;
}

/* Both are whole, and the second goes on where the first ends. */
Test(flight, two_files_at_once)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(1 * S, 64 * MIB));
	struct random_stream r = {0};
	struct capture_dump *first, *second;
	size_t added = 0;

	start_story(&r, flight, &added, 3 * S);
	cr_assert_eq(capture_writer__dump(flight, dump_to("a.perfx", r.at)), 0);
	cr_assert_eq(capture_writer__dump(flight, dump_to("b.perfx", r.at)), 0);
	first = capture_writer__dumped(flight, true);
	second = capture_writer__dumped(flight, true);
	cr_assert_null(capture_writer__dumped(flight, true));
	cr_assert_eq(first->err, 0);
	cr_assert_eq(second->err, 0);
	cr_assert_eq(first->from_ns, second->from_ns);
	cr_assert_gt(calls_in(first->path), 0);
	cr_assert_eq(calls_in(first->path), calls_in(second->path));
	capture_dump__free(first);
	capture_dump__free(second);
	cr_assert_eq(capture_writer__free(flight), 0);
	stream_clear(&r.stream);
}

/* One that nobody fetches, and one that is asked for at the very end, are written all the same. */
Test(flight, what_was_asked_for_is_written)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(1 * S, 64 * MIB));
	struct random_stream r = {0};
	char *path = path_in("a.perfx");
	size_t added = 0;

	start_story(&r, flight, &added, 1 * S);
	cr_assert_eq(capture_writer__dump(flight, dump_to("a.perfx", r.at)), 0);
	cr_assert_eq(capture_writer__free(flight), 0);
	cr_assert_gt(calls_in(path), 0);
	free(path);
	stream_clear(&r.stream);
}

Test(flight, a_full_disk_leaves_the_old_file)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(1 * S, 64 * MIB));
	struct rlimit limit = {.rlim_cur = 3000, .rlim_max = RLIM_INFINITY};
	struct random_stream r = {0};
	char *path = path_in("a.perfx"), *unfinished = path_in("a.perfx.part");
	struct capture_dump *dump;
	size_t added = 0;
	uint64_t calls;

	start_story(&r, flight, &added, 3 * S);
	capture_writer__dump(flight, dump_to("a.perfx", r.at));
	capture_dump__free(capture_writer__dumped(flight, true));
	calls = calls_in(path);

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	capture_writer__dump(flight, dump_to("a.perfx", r.at));
	dump = capture_writer__dumped(flight, true);
	cr_assert_eq(dump->err, -EFBIG);
	cr_assert_eq(calls_in(path), calls);
	cr_assert_eq(access(unfinished, F_OK), -1);
	capture_dump__free(dump);

	/* and the recorder goes on */
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	capture_writer__dump(flight, dump_to("a.perfx", r.at));
	dump = capture_writer__dumped(flight, true);
	cr_assert_eq(dump->err, 0);
	capture_dump__free(dump);
	cr_assert_eq(capture_writer__free(flight), 0);
	free(path);
	free(unfinished);
	stream_clear(&r.stream);
}

static int dump_err(struct capture_writer *flight, const char *name)
{
	struct capture_dump *dump;
	int err;

	capture_writer__dump(flight, dump_to(name, 1 * S));
	dump = capture_writer__dumped(flight, true);
	err = dump->err;
	capture_dump__free(dump);
	return err;
}

Test(flight, only_files_are_replaced)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(1 * S, 64 * MIB));
	char *link = path_in("link"), *pipe = path_in("pipe"), *directory = path_in("directory");

	cr_assert_eq(symlink("/etc/passwd", link), 0);
	cr_assert_eq(mkfifo(pipe, 0600), 0);
	cr_assert_eq(mkdir(directory, 0700), 0);
	cr_assert_eq(dump_err(flight, "link"), -ELOOP);
	cr_assert_eq(dump_err(flight, "pipe"), -EINVAL);
	cr_assert_eq(dump_err(flight, "directory"), -EISDIR);
	cr_assert_eq(dump_err(flight, "none/a.perfx"), -ENOENT);
	cr_assert_eq(capture_writer__free(flight), 0);
	free(link);
	free(pipe);
	free(directory);
}

/* A block of spans that do not compress. */
static void add_noise(struct stream *s, uint64_t at)
{
	for (int i = 0; i < 1000; i++)
		stream_call(s, 1, 7, at, (uint64_t)rand() % 100000, 0, 0);
}

Test(flight, memory_is_bounded_and_says_so)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(100 * S, 1 * MIB));
	struct stream s = {0};
	struct capture_dump *dump;
	size_t added = 0;

	stream_host(&s);
	stream_process(&s, 1, 1, "a", "a");
	stream_function(&s, 1, "f", "/f", PERFX_SOURCE_SYMBOL);
	stream_context(&s, 1, 0, 1, 1);
	for (uint64_t at = 0; at < 100 * S; at += 100 * MS) {
		add_noise(&s, at);
		stream_plain(&s, PERFX_KIND_SEGMENT, struct perfx_segment,
			     .time_ns = STREAM_START + at + 100 * MS);
		add_from(flight, &s, &added);
	}
	capture_writer__dump(flight, dump_to("a.perfx", 100 * S));
	dump = capture_writer__dumped(flight, true);
	cr_assert_eq(dump->err, 0);
	cr_assert(dump->full);
	cr_assert_gt(dump->from_ns, STREAM_START + 10 * S);
	cr_assert_lt(dump->bytes, 1 * MIB);
	cr_assert_gt(dump->bytes, MIB / 2);
	cr_assert_eq(calls_in(dump->path),
		     (STREAM_START + 100 * S - dump->from_ns) / (100 * MS) * 1000);
	capture_dump__free(dump);
	cr_assert_eq(capture_writer__free(flight), 0);
	stream_clear(&s);
}

/* Of processes that are no more nothing is kept. */
Test(flight, short_lived_processes_leave_nothing)
{
	struct capture_writer *flight =
		capture_writer__new_store(flight_buffer__new(1 * S, 64 * MIB));
	struct stream s = {0};
	struct capture_dump *dump;
	size_t added = 0;
	char name[1024];

	memset(name, 'x', sizeof(name));
	stream_host(&s);
	for (uint32_t process = 1; process < 20000; process++) {
		uint64_t at = process * MS;

		snprintf(name + 900, 100, "%u", process * 2654435761u);
		stream_process(&s, process, process, "a", name);
		stream_usage(&s, process, at, 1, 1, 1);
		stream_thread(&s, process, process, "a", 'S', at, 1, 1);
		stream_plain(&s, PERFX_KIND_EXIT, struct perfx_exit, .time_ns = STREAM_START + at,
			     .process = process, .pid = process);
		if (process % 100 == 0)
			stream_plain(&s, PERFX_KIND_SEGMENT, struct perfx_segment,
				     .time_ns = STREAM_START + at);
		add_from(flight, &s, &added);
	}
	capture_writer__dump(flight, dump_to("a.perfx", 20 * S));
	dump = capture_writer__dumped(flight, true);
	/* three seconds' worth of 20, at most */
	cr_assert_lt(dump->bytes, s.bytes.length / 20);
	cr_assert_eq(dump->err, 0);
	capture_dump__free(dump);
	cr_assert_eq(capture_writer__free(flight), 0);
	stream_clear(&s);
}

static void damage(char *bytes, size_t size)
{
	for (int hits = 1 + rand() % 8; hits; hits--) {
		size_t at = (size_t)rand() % size;

		switch (rand() % 3) {
		case 0:
			bytes[at] = (char)rand();
			break;
		case 1:
			bytes[at] ^= (char)(1 << rand() % 8);
			break;
		case 2:
			memset(bytes + at - at % 4, rand() % 2 ? 0xff : 0, 4);
			break;
		}
	}
}

static int add_event(void *ctx, const struct event *event)
{
	return aggregate__add(ctx, event);
}

/* Records that contradict each other, of processes that nobody knows, from any time. */
static void cut_damaged(const struct stream *s)
{
	uint64_t since_ns = (uint64_t)rand() % (2 * S),
		 until_ns = 2 * S + (uint64_t)rand() % (2 * S);
	struct time_slice *time_slice = time_slice__new(since_ns, until_ns);
	struct aggregate *aggregate = aggregate__new();
	size_t at = 0, skip = 0;
	struct event event;

	time_slice__to(time_slice, add_event, aggregate);
	while (at < s->bytes.length) {
		ssize_t used =
			decode_event(s->bytes.data + at, s->bytes.length - at, &event, &skip);

		if (used < 0 && used != -ENOTSUP)
			break;
		if (used > 0)
			cr_assert_eq(time_slice__event(time_slice, &event), 0);
		at += used > 0 ? (size_t)used : skip;
	}
	time_slice__finish(time_slice);
	cr_assert_not_null(aggregate__finish(aggregate));
	time_slice__free(time_slice);
	aggregate__free(aggregate);
}

Test(flight, time_slices_of_damaged_captures)
{
	for (unsigned round = 0; round < (unsigned)rounds(1000); round++) {
		struct random_stream r = {.with_sampling = round % 2,
					  .with_inferred_frees = round % 4 == 0};

		srand(round);
		random_begin(&r);
		while (r.at < 3 * S)
			random_go_on(&r);
		damage(r.stream.bytes.data, r.stream.bytes.length);
		cut_damaged(&r.stream);
		stream_clear(&r.stream);
	}
}
