// SPDX-License-Identifier: BSD-2-Clause
#include "replay/replay.h"
#include "session/frames.h"

#include "base/clock.h"
#include "capture/capture.h"
#include "decode/decode.h"
#include "decode/pack.h"
#include "elf/image.h"
#include "places_fixture.h"
#include "proc/maps.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* What is recorded, as a capture in the scratch folder. */
static struct pipeline pipeline;
static struct frames *frames;

static void set_up(void)
{
	int fd;

	fixture_set_up();
	places_build("cc -g", "places.c");
	fd = open(fixture_path("run.perfx"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	pipeline = (struct pipeline){.capture = capture_writer__new(fd)};
	pipeline_init(&pipeline);
	frames = frames__new(&pipeline.sink, NULL, NULL);
	cr_assert_not_null(frames);
}

static void tear_down(void)
{
	frames__free(frames);
	capture_writer__free(pipeline.capture);
	fixture_tear_down();
}

TestSuite(frames, .init = set_up, .fini = tear_down);

/* A whole file as if it were code, at a place of the test's choice; returns where. */
static uint64_t map_file(const char *name, uint64_t at)
{
	int fd = fixture_open(name), flags = MAP_PRIVATE | (at ? MAP_FIXED : 0);
	struct stat status;
	void *base;

	cr_assert_eq(fstat(fd, &status), 0);
	base = mmap((void *)at, (size_t)status.st_size, PROT_READ | PROT_EXEC, flags, fd, 0);
	cr_assert_neq(base, MAP_FAILED);
	close(fd);
	return (uint64_t)base;
}

static void unmap_file(uint64_t base, const char *name)
{
	struct stat status;

	cr_assert_eq(stat(fixture_path(name), &status), 0);
	munmap((void *)base, (size_t)status.st_size);
}

/* In p.so. */
static uint64_t offset_of(const char *place)
{
	int fd = fixture_open("p.so");
	struct image *image = image__open(fd, "p.so", "");
	int64_t offset = image__offset(image, places_vaddr(place));

	close(fd);
	image__free(image);
	return (uint64_t)offset;
}

/* As the programs emit it: with its time behind the frames. */
static void stack_at(uint32_t process, uint32_t id, const uint64_t *addresses, uint32_t count,
		     uint64_t time_ns)
{
	struct {
		struct perfx_stack fixed;
		uint64_t addresses[8];
	} record = {.fixed = {.hdr = {.kind = PERFX_KIND_STACK,
				      .size = (uint32_t)(sizeof(record.fixed) +
							 (count + 1) * sizeof(uint64_t)),
				      .fixed = sizeof(record.fixed)},
			      .stack = id,
			      .process = process,
			      .frames_count = count}};

	memcpy(record.addresses, addresses, count * sizeof(*addresses));
	record.addresses[count] = time_ns;
	cr_assert_eq(frames__stack_time_ns(&record.fixed), time_ns);
	cr_assert_eq(frames__stack(frames, &record.fixed), 0);
	cr_assert_eq(record.fixed.hdr.size, sizeof(record.fixed) + count * sizeof(uint64_t));
}

static void stack(uint32_t process, const uint64_t *addresses, uint32_t count)
{
	static uint32_t id;

	stack_at(process, ++id, addresses, count, clock_monotonic_ns());
}

static void stack_of_one(uint32_t process, uint64_t address)
{
	stack(process, &address, 1);
}

/* Ends the recording, once. */
static const char *records(size_t *size)
{
	static struct text all;
	struct capture_reader *reader;
	const void *block;
	size_t bytes;

	if (!all.length) {
		cr_assert_eq(frames__emit(frames), 0);
		cr_assert_eq(pipeline.err, 0);
		cr_assert_eq(capture_writer__free(pipeline.capture), 0);
		pipeline.capture = NULL;
		reader = capture_reader__open(fixture_path("run.perfx"));
		cr_assert_not_null(reader);
		while (capture_reader__next(reader, &block, &bytes) > 0)
			text_add_bytes(&all, block, bytes);
		capture_reader__free(reader);
	}
	*size = all.length;
	return text_peek(&all);
}

static void add_frame(struct text *text, size_t *depth, const struct perfx_frame *frame,
		      const char *const *strings, const char *module, uint64_t offset)
{
	cr_expect_eq(frame->depth, *depth, "depth %u after %zu", frame->depth, *depth);
	cr_expect_str_eq(strings[1], module);
	cr_expect_eq(frame->offset, offset);
	places_add(text, strings[0], strings[2], frame->line);
	++*depth;
}

/* The frames at an address: "function file:line < …". */
static void expect_frames(uint32_t process, uint64_t address, const char *module, uint64_t offset,
			  const char *wanted)
{
	size_t size, depth = 0;
	const char *data = records(&size);
	struct text text = {0};

	while (size) {
		struct event event;
		size_t skip;
		ssize_t used = decode_event(data, size, &event, &skip);

		cr_assert_gt(used, 0);
		if (event.kind == PERFX_KIND_FRAME && event.frame.process == process &&
		    event.frame.address == address)
			add_frame(&text, &depth, &event.frame, event.strings, module, offset);
		data += used;
		size -= (size_t)used;
	}
	cr_expect_str_eq(text_peek(&text), wanted, "process %u: %s", process, text_peek(&text));
	text_clear(&text);
}

static size_t records_count(void)
{
	size_t size, count = 0;
	const char *data = records(&size);

	for (; size; count++) {
		struct event event;
		size_t skip;
		ssize_t used = decode_event(data, size, &event, &skip);

		cr_assert_gt(used, 0);
		data += used;
		size -= (size_t)used;
	}
	return count;
}

static const char *known(const char *place)
{
	for (size_t i = 0; i < PLACES; i++)
		if (strcmp(places_of_c[i].name, place) == 0)
			return places_of_c[i].wanted;
	return NULL;
}

/* A return address: the instruction behind a place's. */
#define BEHIND 1

static void expect_place(uint32_t process, uint64_t base, const char *module, const char *place)
{
	uint64_t offset = offset_of(place);

	expect_frames(process, base + offset + BEHIND, fixture_path(module), offset, known(place));
}

/* Each address of each process once, however many stacks show it. */
Test(frames, living_process)
{
	uint64_t base = map_file("p.so", 0);
	uint64_t addresses[] = {base + offset_of("in_inner") + BEHIND,
				base + offset_of("in_hidden") + BEHIND,
				base + offset_of("in_outer") + BEHIND};

	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	cr_assert_eq(frames__map(frames, 2, getpid()), 0);
	stack(1, addresses, 3);
	stack(1, addresses, 2);
	stack_of_one(2, addresses[0]);
	expect_place(1, base, "p.so", "in_inner");
	expect_place(1, base, "p.so", "in_hidden");
	expect_place(1, base, "p.so", "in_outer");
	expect_place(2, base, "p.so", "in_inner");
	cr_expect_eq(records_count(), 3 + 1 + 1 + 3);
}

/* The call is what counts, not what follows it: nothing of the function may be left. */
Test(frames, last_instruction_of_a_function)
{
	struct symbol symbol;
	struct image *image;
	uint64_t base, end;
	int fd = fixture_open("p.so");

	image = image__open(fd, "p.so", "");
	close(fd);
	cr_assert_eq(image__function_at(image, places_vaddr("in_outer"), &symbol), 0);
	end = symbol.offset + symbol.size;
	image__free(image);
	base = map_file("p.so", 0);
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, base + end);
	expect_frames(1, base + end, fixture_path("p.so"), end - 1, "outer outer.c:205");
}

Test(frames, unloaded_and_deleted_since)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_middle");

	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, base + offset + BEHIND);
	unmap_file(base, "p.so");
	fixture_run("mv p.so away.so && echo another file > p.so");
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	fixture_run("rm away.so");
	expect_frames(1, base + offset + BEHIND, fixture_path("p.so"), offset, known("in_middle"));
}

/* The same addresses belong to what was there when a stack showed them. */
Test(frames, another_library_in_its_place)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_outer");

	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, base + offset + BEHIND);
	fixture_run("cp p.so q.so");
	map_file("q.so", base);
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, base + offset_of("in_hidden") + BEHIND);
	expect_place(1, base, "p.so", "in_outer");
	expect_place(1, base, "q.so", "in_hidden");
}

/* Records come later than what they tell of. */
Test(frames, stacks_before_and_after_the_looks)
{
	uint64_t early, late, base = map_file("p.so", 0), offset = offset_of("in_outer");

	fixture_run("cp p.so q.so && cp p.so r.so");
	late = map_file("q.so", 0);
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	early = map_file("r.so", 0);
	stack_of_one(1, early + offset + BEHIND); /* not looked at yet */
	unmap_file(late, "q.so");
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, late + offset + BEHIND); /* no more */
	stack_of_one(1, base + offset + BEHIND);
	expect_place(1, base, "p.so", "in_outer");
	expect_place(1, late, "q.so", "in_outer");
	expect_place(1, early, "r.so", "in_outer");
}

/* The same file's code once more, or another one's, at an address: as the kernel reports it. */
static void mapped(uint32_t process, const char *name, uint64_t at, uint64_t time_ns)
{
	struct maps *maps;
	struct new_mapping mapping = {.pid = getpid(), .time_ns = time_ns};

	map_file(name, at);
	maps = maps__read(getpid());
	mapping.mapping = *maps__find(maps, at);
	cr_assert_eq(frames__mapped(frames, process, &mapping), 0);
	maps__free(maps);
}

static uint32_t named_at(uint32_t process, uint32_t id, uint64_t time_ns)
{
	frames__name_stack(frames, process, &id, time_ns);
	return id;
}

/* The addresses of a STACK record that was made; how many. */
static size_t made_stack(uint32_t id, uint64_t *addresses)
{
	size_t size, count = 0;
	const char *data = records(&size);

	while (size) {
		struct event event;
		size_t skip;
		ssize_t used = decode_event(data, size, &event, &skip);

		cr_assert_gt(used, 0);
		if (event.kind == PERFX_KIND_STACK && event.stack.stack == id) {
			cr_expect_eq(count, 0, "made twice");
			count = event.stack.frames_count;
			memcpy(addresses, event.addresses, count * sizeof(*addresses));
		}
		data += used;
		size -= (size_t)used;
	}
	return count;
}

/* The kernel names a stack by its addresses, whatever code lies there: each time it is what lay
 * there then. */
Test(frames, libraries_in_turn_at_one_address)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_outer"), made[8];
	uint64_t addresses[] = {base + offset + BEHIND, 16};
	uint32_t second;

	fixture_run("cp p.so q.so");
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_at(1, 5, addresses, 2, 1000);
	cr_expect_eq(named_at(1, 5, 1500), 5);
	mapped(1, "q.so", base, 2000);
	cr_expect_eq(named_at(1, 5, 1999), 5, "a record of before");
	second = named_at(1, 5, 2000);
	cr_expect_neq(second, 5);
	cr_expect_neq(second, 0);
	mapped(1, "p.so", base, 3000);
	cr_expect_eq(named_at(1, 5, 3000), 5);
	cr_expect_eq(named_at(1, 5, 2500), second, "a late record");
	mapped(1, "q.so", base, 4000);
	/* a look at all mappings finds nothing new */
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	cr_expect_eq(named_at(1, 5, 4500), second);
	stack_at(1, 6, addresses, 1, 4600);
	cr_expect_eq(named_at(1, 6, 4700), 6);
	cr_expect_eq(made_stack(second, made), 2);
	cr_expect_eq(made[0], PERFX_FRAME_NUMBERED(addresses[0], 1ull));
	cr_expect_eq(made[1], 16);
	expect_frames(1, addresses[0], fixture_path("p.so"), offset, known("in_outer"));
	expect_frames(1, made[0], fixture_path("q.so"), offset, known("in_outer"));
}

/* A replacement that the kernel did not report may have been at any time since the last look. */
Test(frames, unknown_where_the_time_of_a_replacement_is)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_outer");
	uint64_t address = base + offset + BEHIND, made[8], seen_ns, between_ns, found_ns;
	uint32_t unknown;

	fixture_run("cp p.so q.so");
	seen_ns = clock_monotonic_ns();
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_at(1, 5, &address, 1, seen_ns);
	between_ns = clock_monotonic_ns();
	map_file("q.so", base);
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	found_ns = clock_monotonic_ns();
	cr_expect_eq(named_at(1, 5, seen_ns), 5);
	unknown = named_at(1, 5, between_ns);
	stack_at(1, 7, &address, 1, found_ns);
	cr_expect_eq(named_at(1, 5, found_ns), 7);
	frames__forget_stacks(frames);
	cr_expect_eq(named_at(1, 5, found_ns), 0, "a stack that is not kept");
	cr_expect_eq(made_stack(unknown, made), 1);
	cr_expect_eq(made[0], PERFX_FRAME_NUMBERED(address, PERFX_FRAME_NUMBER_UNKNOWN));
	expect_frames(1, made[0], "", 0, "");
	expect_frames(1, address, fixture_path("p.so"), offset, known("in_outer"));
	expect_frames(1, PERFX_FRAME_NUMBERED(address, 1ull), fixture_path("q.so"), offset,
		      known("in_outer"));
}

/* Generated code in a library's place has not the library's names. */
Test(frames, memory_without_a_file_in_the_place_of_a_library)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_outer");
	uint64_t address = base + offset + BEHIND, made[8];
	struct new_mapping mapping = {.pid = getpid(), .time_ns = 2000};
	uint32_t generated;

	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_at(1, 5, &address, 1, 1000);
	mapping.mapping = (struct mapping){
		.start = base, .end = base + 65536, .executable = true, .path = "//anon"};
	cr_assert_eq(frames__mapped(frames, 1, &mapping), 0);
	generated = named_at(1, 5, 2500);
	cr_expect_neq(generated, 5);
	cr_expect_eq(made_stack(generated, made), 1);
	expect_frames(1, made[0], "", 0, " :0");
}

static pid_t start_child(void)
{
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(frames, processes_that_have_ended)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_inner");
	pid_t child = start_child();

	unmap_file(base, "p.so");
	cr_assert_eq(frames__map(frames, 7, child), 0);
	end_child(child);
	cr_assert_eq(frames__map(frames, 7, child), -ESRCH);
	stack_of_one(7, base + offset + BEHIND);
	/* its own children were too short-lived to be looked at */
	cr_assert_eq(frames__fork(frames, 8, child, 7), 0);
	cr_assert_eq(frames__map(frames, 8, child), -ESRCH);
	cr_assert_eq(frames__fork(frames, 9, child, 8), 0);
	stack_of_one(9, base + offset + BEHIND);
	fixture_run("cp p.so kept.so && rm p.so && mv kept.so p.so");
	expect_place(7, base, "p.so", "in_inner");
	expect_place(9, base, "p.so", "in_inner");
}

/* In the root of the process, which is held as well. */
Test(frames, debug_file_of_a_process_that_has_ended)
{
	uint64_t base, offset;
	pid_t child;

	fixture_run("objcopy --only-keep-debug p.so p.debug && strip -o stripped.so p.so && "
		    "objcopy --add-gnu-debuglink=p.debug stripped.so");
	offset = offset_of("in_hidden");
	base = map_file("stripped.so", 0);
	child = start_child();
	cr_assert_eq(frames__map(frames, 1, child), 0);
	end_child(child);
	stack_of_one(1, base + offset + BEHIND);
	expect_place(1, base, "stripped.so", "in_hidden");
}

/* What a child maps is its own affair. */
Test(frames, child_with_another_library)
{
	uint64_t base = map_file("p.so", 0), offset = offset_of("in_outer");
	pid_t child;

	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	fixture_run("cp p.so q.so");
	map_file("q.so", base);
	child = start_child();
	cr_assert_eq(frames__fork(frames, 2, child, 1), 0);
	cr_assert_eq(frames__map(frames, 2, child), 0);
	stack_of_one(1, base + offset + BEHIND);
	stack_of_one(2, base + offset + BEHIND);
	end_child(child);
	expect_place(1, base, "p.so", "in_outer");
	expect_place(2, base, "q.so", "in_outer");
}

Test(frames, code_without_a_file)
{
	uint64_t jit = (uint64_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, jit + 16);
	stack_of_one(1, 0);
	stack_of_one(1, 16);
	stack_of_one(5, jit + 16); /* an unknown process */
	expect_frames(1, jit + 16, "", 0, " :0");
	expect_frames(1, 0, "", 0, " :0");
	expect_frames(1, 16, "", 0, " :0");
	expect_frames(5, jit + 16, "", 0, " :0");
	cr_expect_eq(records_count(), 4);
}

/* The kernel's code: its file is a copy of ours. */
Test(frames, vdso)
{
	uint64_t base = getauxval(AT_SYSINFO_EHDR), at;
	struct maps *maps = maps__read(getpid());
	struct module_ref ref = module_of(maps__find(maps, base));
	int fd = module_open(getpid(), &ref);
	struct image *image = image__open(fd, "[vdso]", "");
	uint64_t bytes;

	cr_assert(image__exported(image, "__vdso_clock_gettime", &at, &bytes));
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, base + at + 5);
	expect_frames(1, base + at + 5, "[vdso]", at + 4, "clock_gettime :0");
	image__free(image);
	close(fd);
	maps__free(maps);
}

Test(frames, file_without_names)
{
	uint64_t base;

	fixture_run("head -c 8192 /dev/zero > code.bin");
	base = map_file("code.bin", 0);
	cr_assert_eq(frames__map(frames, 1, getpid()), 0);
	stack_of_one(1, base + 0x1235);
	stack_of_one(1, base + 0x1239);
	expect_frames(1, base + 0x1235, fixture_path("code.bin"), 0x1234, " :0");
	expect_frames(1, base + 0x1239, fixture_path("code.bin"), 0x1238, " :0");
}

Test(frames, cut_record)
{
	struct perfx_stack cut = {
		.hdr = {.kind = PERFX_KIND_STACK, .size = sizeof(cut), .fixed = sizeof(cut)},
		.process = 1,
		.frames_count = 1000};

	cr_assert_eq(frames__stack(frames, &cut), 0);
	cr_expect_eq(records_count(), 0);
}

Test(frames, nothing)
{
	frames__free(NULL);
	cr_expect_eq(records_count(), 0);
}
