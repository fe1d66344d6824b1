// SPDX-License-Identifier: BSD-2-Clause
/* Captures of several machines that become one: ids, clocks, who may be merged. */
#include "merge/internal.h"
#include "replay/replay.h"
#include "stream_builder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define ENDS 2000

/* Steps of 10 ms that vary by a tenth, and ends that vary by 20 µs; deterministic. */
static double noise(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 33) / (double)(1u << 31) * 2 - 1;
}

static void make_ends(uint64_t *a, uint64_t *b, int64_t shift_ns, double drift, double jitter_ns)
{
	uint64_t state = 7, time_ns = 1000 * S;

	for (size_t i = 0; i < ENDS; i++) {
		time_ns += (uint64_t)(10e6 + noise(&state) * jitter_ns);
		a[i] = time_ns + (uint64_t)(20e3 + noise(&state) * 20e3);
		b[i] = time_ns + (uint64_t)(20e3 + noise(&state) * 20e3) + (uint64_t)shift_ns +
		       (uint64_t)(int64_t)(drift * (double)(time_ns - 1000 * S));
	}
}

static int64_t off_by(const struct alignment *alignment, uint64_t at_ns, uint64_t truth_ns)
{
	return (int64_t)(align_time(alignment, at_ns) - truth_ns);
}

Test(align, finds_the_lag_and_the_offset)
{
	static uint64_t a[ENDS], b[ENDS];
	struct alignment alignment;

	make_ends(a, b, 3 * (int64_t)S, 0, 1e6);
	/* one began 500 steps later, the other ended 300 earlier; the time of day is 0.4 s wrong */
	cr_assert(align_ends(&alignment, a, ENDS - 300, b + 500, ENDS - 500,
			     -3 * (int64_t)S + 400 * (int64_t)MS));
	cr_expect_lt(llabs(off_by(&alignment, b[900], a[900])), 100 * (int64_t)US);
	cr_expect_lt(llabs(alignment.offset_ns + 3 * (int64_t)S), 10 * (int64_t)US);
	cr_expect_lt(alignment.error_ns, 50 * US);
	cr_expect_gt(alignment.error_ns, 1 * US);
	cr_expect_gt(alignment.pairs_count, 1100);
}

Test(align, follows_a_drift)
{
	static uint64_t a[ENDS], b[ENDS];
	struct alignment alignment;

	make_ends(a, b, -7 * (int64_t)S, 80e-6, 1e6);
	cr_assert(align_ends(&alignment, a, ENDS, b, ENDS, 7 * (int64_t)S));
	cr_expect_float_eq(alignment.drift, -80e-6, 4e-6);
	cr_expect_lt(llabs(off_by(&alignment, b[0], a[0])), 100 * (int64_t)US);
	cr_expect_lt(llabs(off_by(&alignment, b[ENDS - 1], a[ENDS - 1])), 100 * (int64_t)US);
}

/* A lost record moves the order of all that follow. */
Test(align, does_not_mind_lost_records)
{
	static uint64_t a[ENDS], b[ENDS];
	struct alignment alignment;
	size_t kept = 0;

	make_ends(a, b, (int64_t)S, 0, 1e6);
	for (size_t i = 0; i < ENDS; i++)
		if (i % 97 != 5)
			b[kept++] = b[i];
	cr_assert(align_ends(&alignment, a, ENDS, b, kept, -(int64_t)S));
	cr_expect_lt(llabs(alignment.offset_ns + (int64_t)S), 10 * (int64_t)US);
	cr_expect_gt(alignment.pairs_count, kept * 9 / 10);
}

/* A short recording on a busy machine: two ends of five are up to 4 ms late, one record of fifty is
 * lost on either side. */
Test(align, finds_the_lag_where_many_ends_are_late_and_some_are_lost)
{
	static uint64_t a[ENDS], b[ENDS];

	make_ends(a, b, 3 * (int64_t)S, 0, 1e6);
	for (size_t first = 0; first + 150 <= ENDS; first += 50) {
		uint64_t kept_a[150], kept_b[150], state = first;
		size_t count_a = 0, count_b = 0;
		struct alignment alignment;

		for (size_t i = first; i < first + 150; i++) {
			double late_a = noise(&state) > 0.2 ? 2e6 * (1 + noise(&state)) : 0;
			double late_b = noise(&state) > 0.2 ? 2e6 * (1 + noise(&state)) : 0;

			if (noise(&state) < 0.96)
				kept_a[count_a++] = a[i] + (uint64_t)late_a;
			if (noise(&state) < 0.96)
				kept_b[count_b++] = b[i] + (uint64_t)late_b;
		}
		cr_assert(align_ends(&alignment, kept_a, count_a, kept_b, count_b,
				     -3 * (int64_t)S + (int64_t)MS));
		cr_expect_lt(llabs(alignment.offset_ns + 3 * (int64_t)S), (int64_t)MS,
			     "from %zu: %" PRId64 " ns", first, alignment.offset_ns);
	}
}

/* Steps that are all alike fit with every lag: the time of day says which. */
Test(align, of_equal_lags_takes_the_expected)
{
	static uint64_t a[ENDS], b[ENDS];
	struct alignment alignment;

	make_ends(a, b, 3 * (int64_t)S, 0, 0);
	cr_assert(align_ends(&alignment, a, ENDS, b, ENDS, -3 * (int64_t)S + 2 * (int64_t)MS));
	cr_expect_lt(llabs(alignment.offset_ns + 3 * (int64_t)S), 50 * (int64_t)US);
	cr_expect_geq(alignment.error_ns, 1900 * US, "only the time of day says which");
}

Test(align, of_what_is_not_the_same_says_nothing)
{
	static uint64_t a[ENDS], b[ENDS];
	struct alignment alignment;
	uint64_t state = 99, time_ns = 5 * S;

	make_ends(a, b, 0, 0, 1e6);
	for (size_t i = 0; i < ENDS; i++)
		b[i] = time_ns += (uint64_t)(10e6 + noise(&state) * 9e6);
	cr_expect_not(align_ends(&alignment, a, ENDS, b, ENDS, 0));
	cr_expect_not(align_ends(&alignment, a, 5, b, 5, 0), "too few");
}

struct node {
	unsigned damage; /* seed of rand(); 0: none */
	const char *host, *boot;
	uint32_t rank;
	const char *job;
	int64_t shift_ns;
	bool no_end;
};

#define CALLS 60
#define NODE(host_name, boot_id, number, job_name, ...)                                      \
	{                                                                                    \
		.host = (host_name), .boot = (boot_id), .rank = (number), .job = (job_name), \
		##__VA_ARGS__                                                                \
	}

static uint64_t at(const struct node *node, uint64_t since_ns)
{
	return STREAM_START + (uint64_t)node->shift_ns + since_ns;
}

static void put_node(struct stream *s, const struct node *node)
{
	uint64_t state = 3, time_ns = 0;

	stream_function(s, 1, "MPI_Allreduce", "/lib/libmpi.so.40", PERFX_SOURCE_MPI);
	stream_add(s, PERFX_KIND_HOST, struct perfx_host,
		   STRINGS(node->host, "6.18.0", node->boot, "perfx-trace record", "0.1.0"),
		   .start_ns = at(node, 0), .start_unix_ns = 1764000000ULL * S,
		   .start_boot_ns = at(node, 5 * S), .cpus_count = 2, .memory_mib = 4096);
	stream_add(s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("train", "train"),
		   .time_ns = at(node, 0), .start_boot_ns = at(node, 4 * S), .process = 1,
		   .pid = 100, .ppid = 1);
	stream_add(s, PERFX_KIND_RANK, struct perfx_rank, STRINGS("RANK", node->job), .process = 1,
		   .rank = node->rank, .world_size = 2, .local_rank = 0);
	stream_context(s, 1, 0, 1, 1);
	for (int i = 0; i < CALLS; i++) {
		uint64_t late_ns = node->rank ? 2 * MS : 0;
		struct perfx_span span = {.duration_ns = 3 * MS - late_ns,
					  .self_ns = 3 * MS - late_ns,
					  .context = 1,
					  .tid = 100};

		time_ns += (uint64_t)(10e6 + noise(&state) * 2e6);
		span.start_ns = at(node, time_ns - span.duration_ns);
		stream_span(s, &span);
	}
	stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_READ_FAULTS,
		     .count = 5 + node->rank);
	stream_plain(s, PERFX_KIND_LOSS, struct perfx_loss, .loss = PERFX_LOSS_UNMATCHED_ENTRIES,
		     .process = 1, .count = 1);
	if (!node->no_end)
		stream_plain(s, PERFX_KIND_END, struct perfx_end, .time_ns = at(node, S),
			     .tracer_cpu_ns = 10 * MS, .tracer_rss_anon_bytes = 1 << 20,
			     .tracer_rss_peak_bytes = 3 << 20);
}

/* Bytes of records behind their headers, which decode and merge have to bear. */
static void damage(struct text *bytes, unsigned seed)
{
	size_t size;

	srand(seed);
	for (size_t i = 0; seed && i < bytes->length; i += size) {
		char *record = bytes->data + i;

		size = ((const struct perfx_record *)record)->size;
		if (rand() % 8 == 0)
			record[8 + (size_t)rand() % (size - 8)] = (char)rand();
	}
}

/* The caller unlinks and frees the path. */
static char *write_node(const struct node *node)
{
	char *path = strdup("/tmp/perfx-merge-XXXXXX");
	int fd = mkstemp(path);
	struct capture_writer *writer = capture_writer__new(fd);
	struct stream s = {0};
	size_t size;

	put_node(&s, node);
	damage(&s.bytes, node->damage);
	for (size_t i = 0; i < s.bytes.length; i += size) {
		size = ((const struct perfx_record *)(s.bytes.data + i))->size;
		cr_assert_eq(capture_writer__add(writer, s.bytes.data + i, size), 0);
	}
	cr_assert_eq(capture_writer__free(writer), 0);
	stream_clear(&s);
	return path;
}

/* What check() says; both captures are gone after it. NULL: they may be merged. */
static char *why_not(const struct node *a, const struct node *b)
{
	const struct node *nodes[] = {a, b};
	struct merger *merger = merger__new();
	char *paths[2], *why;

	for (int i = 0; i < 2; i++) {
		paths[i] = write_node(nodes[i]);
		cr_assert_eq(merger__add(merger, paths[i]), 0);
	}
	why = merger__check(merger);
	merger__free(merger);
	for (int i = 0; i < 2; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
	return why;
}

static void expect_refused(const struct node *a, const struct node *b, const char *text)
{
	char *why = why_not(a, b);

	cr_assert_not_null(why);
	cr_expect(strstr(why, text), "%s", why);
	free(why);
}

Test(merge, refuses_what_does_not_belong_together)
{
	const struct node first = NODE("node1", "boot1", 0, "n1:1");
	const struct node second = NODE("node2", "boot2", 1, "n1:1");
	const struct node other_job = NODE("node2", "boot2", 1, "n9:1");
	const struct node same_rank = NODE("node2", "boot2", 0, "n1:1");
	const struct node same_process = NODE("node1", "boot1", 1, "n1:1", .shift_ns = (int64_t)MS);

	cr_expect_null(why_not(&first, &second));
	expect_refused(&first, &first, "the same capture");
	expect_refused(&first, &other_job, "no job in common");
	expect_refused(&first, &same_rank, "both have rank 0");
	cr_expect_null(why_not(&first, &same_process), "it began at another time");
}

/* The merged capture through the aggregate. */
static struct aggregate *merge_two(const struct node *a, const struct node *b,
				   struct merge_part *part)
{
	char *paths[] = {write_node(a), write_node(b), strdup("/tmp/perfx-merged-XXXXXX")};
	int fd = mkstemp(paths[2]);
	struct capture_writer *writer = capture_writer__new(fd);
	struct merger *merger = merger__new();
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	struct capture_reader *reader;
	char *why;

	for (int i = 0; i < 2; i++)
		cr_assert_eq(merger__add(merger, paths[i]), 0);
	why = merger__check(merger);
	cr_assert_null(why, "%s", why);
	cr_assert_eq(merger__write(merger, writer), 0);
	cr_assert_eq(capture_writer__free(writer), 0);
	*part = merger__part(merger, 1);
	merger__free(merger);
	reader = capture_reader__open(paths[2]);
	cr_assert_eq(pipeline_replay(&pipeline, reader), 0);
	capture_reader__free(reader);
	for (int i = 0; i < 3; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
	return pipeline.aggregate;
}

Test(merge, two_machines_by_one_clock)
{
	const struct node first = NODE("node1", "boot1", 0, "n1:1");
	const struct node second = NODE("node2", "boot2", 1, "n1:1", .shift_ns = 3 * (int64_t)S);
	struct merge_part part;
	struct aggregate *aggregate = merge_two(&first, &second, &part);
	const struct profile *p = aggregate__finish(aggregate);

	cr_expect_eq(part.alignment.by, PERFX_ALIGNMENT_COLLECTIVES);
	cr_expect_lt(llabs(part.alignment.offset_ns + 3 * (int64_t)S), (int64_t)MS);
	cr_assert_eq(p->processes_count, 2);
	cr_expect_eq(p->hosts_count, 2);
	cr_expect_eq(p->cpus_count, 4);
	cr_expect_str_eq(p->host_name, "node1, node2");
	cr_expect(p->ended);
	cr_expect_eq(p->duration_ns, S);
	cr_expect_eq(p->tracer_cpu_ns, 20 * MS);
	cr_expect_eq(p->tracer_rss_peak_bytes, 6 << 20);
	cr_expect_eq(p->losses[PERFX_LOSS_READ_FAULTS], 11);
	cr_expect_eq(p->losses[PERFX_LOSS_UNMATCHED_ENTRIES], 2);
	cr_expect_eq(p->losses[PERFX_LOSS_UNDECODED], 0);
	cr_expect_eq(p->captures[1].losses[PERFX_LOSS_READ_FAULTS], 6);
	for (size_t i = 0; i < 2; i++) {
		const struct profile_process *process = &p->processes[i];

		cr_expect_eq(process->rank.rank, i);
		cr_expect_str_eq(profile_host_name(p, process), i ? "node2" : "node1");
		cr_expect_eq(process->pid, 100, "of two machines");
		cr_assert_eq(process->rows_count, 1);
		cr_expect_eq(process->rows[0].calls_count, CALLS);
		cr_expect_eq(process->collectives_count, CALLS);
		cr_expect_eq(profile_wall_ns(process), S);
	}
	/* the second rank comes 2 ms later, and they leave together */
	cr_expect_eq(p->processes[0].collectives[7].to_ns, p->processes[1].collectives[7].to_ns);
	cr_expect_eq(p->processes[0].collectives[7].from_ns + 2 * MS,
		     p->processes[1].collectives[7].from_ns);
	aggregate__free(aggregate);
}

/* What one capture samples by does not weigh the blocks of another. */
Test(merge, captures_have_memory_modes_of_their_own)
{
	struct stream s = {0};
	struct aggregate *aggregate = aggregate__new();
	const struct profile *p;

	stream_host(&s);
	for (uint32_t i = 1; i <= 2; i++) {
		struct stream_place place = {
			.process = i, .tid = 100, .allocator = 1, .domain = PERFX_DOMAIN_TENSOR};

		stream_add(&s, PERFX_KIND_PROCESS, struct perfx_process, STRINGS("train", "train"),
			   .time_ns = STREAM_START, .process = i, .pid = 100, .merged = i);
		stream_plain(&s, PERFX_KIND_MEMORY_MODE, struct perfx_memory_mode,
			     .time_ns = STREAM_START, .sample_bytes = i == 2 ? 1 << 20 : 0,
			     .on_ns = 1, .period_ns = 1, .domain = PERFX_DOMAIN_TENSOR,
			     .level = i == 2 ? PERFX_MEMORY_SAMPLED : PERFX_MEMORY_EXACT,
			     .merged = i);
		stream_allocation(&s, &place, 5 * MS, 0x1000 * i, 4096,
				  i == 2 ? PERFX_ALLOCATION_SAMPLED : 0);
	}
	cr_assert_eq(stream_replay(&s, aggregate), 0);
	p = aggregate__finish(aggregate);
	cr_assert_eq(p->processes_count, 2);
	cr_expect_not(p->processes[0].memory[0].sampled);
	cr_expect_eq(p->processes[0].memory[0].current_bytes, 4096);
	cr_expect(p->processes[1].memory[0].sampled);
	cr_expect_gt(p->processes[1].memory[0].current_bytes, 500 << 10, "it stands for 256");
	aggregate__free(aggregate);
	stream_clear(&s);
}

/* A capture that was cut off has no END: neither has what is made of it. */
Test(merge, of_a_capture_without_end)
{
	const struct node first = NODE("node1", "boot1", 0, "n1:1");
	const struct node second = NODE("node2", "boot2", 1, "n1:1", .no_end = true);
	struct merge_part part;
	struct aggregate *aggregate = merge_two(&first, &second, &part);
	const struct profile *p = aggregate__finish(aggregate);

	cr_expect_not(part.ended);
	cr_expect_not(p->ended);
	cr_expect_eq(p->losses[PERFX_LOSS_READ_FAULTS], 11);
	cr_expect_eq(p->processes_count, 2);
	aggregate__free(aggregate);
}

/* Whatever is in them: they are refused, or what becomes of them can be read. */
Test(merge, damaged_captures)
{
	for (unsigned seed = 1; seed <= 100; seed++) {
		struct node nodes[] = {NODE("node1", "boot1", 0, "n1:1"),
				       NODE("node2", "boot2", 1, "n1:1")};
		struct merge_part part;
		struct aggregate *aggregate;
		char *why;

		nodes[seed % 2].damage = seed;
		why = why_not(&nodes[0], &nodes[1]);
		if (!why) {
			aggregate = merge_two(&nodes[0], &nodes[1], &part);
			cr_expect_not_null(aggregate__finish(aggregate), "seed %u", seed);
			aggregate__free(aggregate);
		}
		free(why);
	}
}

static void check_fields(enum perfx_kind kind, size_t bytes, const char *name)
{
	size_t count;
	const struct field *field = fields_of(kind, &count);

	for (size_t i = 0; i < count; i++)
		cr_expect((size_t)field[i].offset + field[i].bytes <= bytes, "%s", name);
}

/* A kind without ids and times has an empty PERFX_FIELDS_<name>; the compiler finds one that is
 * missing. */
Test(fields, of_all_kinds)
{
#define CHECK_FIELDS(kind, name, number, bytes, ...) \
	check_fields(PERFX_KIND_##kind, (bytes), #kind);
	PERFX_RECORDS(CHECK_FIELDS)
#undef CHECK_FIELDS
}

/* An older record is shorter: what it lacks is neither read nor written. */
Test(fields, beyond_the_record)
{
	struct perfx_segment segment = {.hdr = {.size = 16, .fixed = 16}, .since_ns = 7};
	const struct field since = {offsetof(struct perfx_segment, since_ns), 8, FIELD_TIME};

	cr_expect_eq(field_get(&since, &segment), 0);
	field_set(&since, &segment, 9);
	cr_expect_eq(segment.since_ns, 7);
}
