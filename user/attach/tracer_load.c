// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes a tracer: opens the programs, chooses by options and kernel which of them are loaded and
 * how large their maps are, loads them, makes rings, maps tables, and attaches what follows the
 * traced processes.
 */
#include "attach/tracer_internal.h"

#include "base/order.h"
#include "base/thread.h"
#include "plan/plan.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static size_t ring_round(size_t bytes)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	while (size < bytes)
		size *= 2;
	return size;
}

/* Which links serve entry and exit sites, and which serve return probes. */
static int choose_links(struct tracer *tracer, enum perfx_link wanted,
			const struct features *features)
{
	if (wanted == PERFX_LINK_INVALID) {
		wanted = features->uprobe_session ? PERFX_LINK_SESSION
			 : features->uprobe_multi ? PERFX_LINK_MULTI
						  : PERFX_LINK_PERF;
	}
	if (wanted == PERFX_LINK_PERF && !features->uprobe_events)
		wanted = PERFX_LINK_SINGLE;
	if ((wanted == PERFX_LINK_SESSION && !features->uprobe_session) ||
	    (wanted == PERFX_LINK_MULTI && !features->uprobe_multi) ||
	    (wanted == PERFX_LINK_SINGLE && !features->uprobe_perf))
		return -ENOTSUP;
	tracer->return_link = wanted;
	/* A session at a site could decline the return, but a link of one process accepts it in
	 * every other process that stops at the site, for another tracer or link: there the kernel
	 * puts a return probe, and an exception that crosses it kills. */
	tracer->hit_link = wanted == PERFX_LINK_SESSION ? PERFX_LINK_MULTI : wanted;
	tracer->multi_pid = features->multi_pid;
	return 0;
}

static void set_attach_type(struct bpf_program *program, int type)
{
	bpf_program__set_expected_attach_type(program, (enum bpf_attach_type)type);
}

/* Programs and room for allocation probes, where they are wanted. */
static void open_memory(struct tracer *tracer, const struct tracer_options *options)
{
	bool memory = options->memory && !tracer->lacks[TRACER_MEMORY];
	struct perfx_bpf *skel = tracer->skel;

	if (tracer->hit_link == PERFX_LINK_MULTI) {
		set_attach_type(skel->progs.perfx_on_memory_hit, BPF_ATTACH_UPROBE_MULTI);
		set_attach_type(skel->progs.perfx_on_memory_return, BPF_ATTACH_UPROBE_MULTI);
	}
	if (tracer->return_link == PERFX_LINK_SESSION)
		set_attach_type(skel->progs.perfx_on_memory_session, BPF_ATTACH_UPROBE_SESSION);
	bpf_program__set_autoload(skel->progs.perfx_on_memory_hit, memory);
	bpf_program__set_autoload(skel->progs.perfx_on_memory_return,
				  memory && tracer->return_link != PERFX_LINK_SESSION);
	bpf_program__set_autoload(skel->progs.perfx_on_memory_session,
				  memory && tracer->return_link == PERFX_LINK_SESSION);
	bpf_program__set_autoload(skel->progs.perfx_on_exec_memory, memory);
	if (!options->memory)
		return;
	/* the quantiles of the exponential distribution, at the middle of each of so many parts */
	for (int i = 0; i < PERFX_SAMPLE_QUANTILES; i++)
		skel->rodata->perfx_sample_quantiles[i] = (uint32_t)lround(
			-log((i + 0.5) / PERFX_SAMPLE_QUANTILES) * PERFX_SAMPLE_ONE);
	bpf_map__set_max_entries(skel->maps.perfx_stack_ids, PERFX_MAX_STACKS);
	bpf_map__set_max_entries(skel->maps.perfx_sampled, PERFX_MAX_SAMPLED);
}

static void open_stacks(struct perfx_bpf *skel, const struct tracer_options *options)
{
	skel->data->perfx_stacks_by = options->stacks == PERFX_STACKS_UNWIND
					      ? PERFX_STACKS_FRAME_POINTERS
					      : options->stacks;
	if (options->stacks != PERFX_STACKS_UNWIND)
		return;
	bpf_map__set_max_entries(skel->maps.perfx_unwind_pages, PERFX_UNWIND_PAGES_MAX);
	bpf_map__set_max_entries(skel->maps.perfx_unwind_rules, PERFX_UNWIND_RULES_MAX);
	bpf_map__set_max_entries(skel->maps.perfx_unwind_cache, 1 << PERFX_UNWIND_CACHE_BITS);
}

/* The iterator's program is loaded where the kernel has what it calls: else the whole object would
 * be refused first. */
static void open_samples(struct tracer *tracer, const struct tracer_options *options,
			 const struct features *features)
{
	bool on_cpu = options->samples && features->cpu_clock && !tracer->lacks[TRACER_ON_CPU];
	bool off_cpu = options->samples && !options->only_dump && features->task_memory &&
		       !tracer->lacks[TRACER_OFF_CPU];
	bool dump = options->dump && features->task_memory && !tracer->lacks[TRACER_DUMP];
	struct perfx_bpf *skel = tracer->skel;

	bpf_program__set_autoload(skel->progs.perfx_sample_on_cpu, on_cpu);
	bpf_program__set_autoload(skel->progs.perfx_sample_dying, on_cpu && !options->only_dump);
	bpf_program__set_autoload(skel->progs.perfx_sample_off_cpu, off_cpu);
	bpf_program__set_autoload(skel->progs.perfx_dump_thread, dump);
	/* user/attach/sampler.c attaches them */
	bpf_program__set_autoattach(skel->progs.perfx_sample_on_cpu, false);
	bpf_program__set_autoattach(skel->progs.perfx_sample_off_cpu, false);
	bpf_program__set_autoattach(skel->progs.perfx_dump_thread, false);
	if (dump)
		bpf_map__set_max_entries(skel->maps.perfx_python_states, PERFX_MAX_PYTHON_STATES);
	if (on_cpu || off_cpu || dump)
		bpf_map__set_max_entries(skel->maps.perfx_sample_stack_ids,
					 PERFX_MAX_SAMPLE_STACKS);
}

/* Names of ranges may lie in pages that have not been touched yet; a sleepable program can read
 * them. Perf links have sleepable programs on later kernels only. */
static void open_annotations(struct tracer *tracer)
{
	struct bpf_program *program = tracer->skel->progs.perfx_on_mark;

	bpf_program__set_autoload(program, !tracer->lacks[TRACER_ANNOTATIONS]);
	if (tracer->hit_link != PERFX_LINK_MULTI)
		return;
	set_attach_type(program, BPF_ATTACH_UPROBE_MULTI);
	bpf_program__set_flags(program, bpf_program__flags(program) | BPF_F_SLEEPABLE);
	tracer->skel->rodata->perfx_annotations_sleep = true;
}

static void open_files(struct tracer *tracer, bool wanted)
{
	struct perfx_bpf *skel = tracer->skel;

	bpf_program__set_autoload(skel->progs.perfx_on_file_call,
				  wanted && !tracer->lacks[TRACER_FILES]);
	if (tracer->hit_link == PERFX_LINK_MULTI)
		set_attach_type(skel->progs.perfx_on_file_call, BPF_ATTACH_UPROBE_MULTI);
	bpf_program__set_autoload(skel->progs.perfx_on_major_fault,
				  wanted && !tracer->lacks[TRACER_FAULTS]);
	/* user/session/files.c attaches it */
	bpf_program__set_autoattach(skel->progs.perfx_on_major_fault, false);
	if (!wanted)
		return;
	bpf_map__set_max_entries(skel->maps.perfx_files_seen, PERFX_MAX_FILE_GROUPS);
	bpf_map__set_max_entries(skel->maps.perfx_stack_ids, PERFX_MAX_STACKS);
}

/* Threads' perf events, where the programs find them. */
static void open_perf_events(struct perfx_bpf *skel, const struct counters *counters,
			     uint32_t contexts_max)
{
	if (!counters || !counters->count)
		return;
	skel->rodata->perfx_perf_enabled = true;
	skel->rodata->perfx_perf_events_count = (uint32_t)counters->events_count;
	for (size_t i = 0; i < counters->events_count; i++) {
		skel->rodata->perfx_perf_events[i].counter = counters->events[i].counter;
		skel->rodata->perfx_perf_events[i].weight = counters->events[i].weight;
	}
	for (size_t i = 0; i < counters->count; i++)
		if (counters->list[i].is_flops)
			skel->rodata->perfx_perf_flops = (uint32_t)i;
	bpf_map__set_max_entries(skel->maps.perfx_perf_array,
				 PERFX_PERF_THREADS * PERFX_PERF_EVENTS);
	bpf_map__set_max_entries(skel->maps.perfx_perf_sums, contexts_max);
}

/* All programs but those of features that the tracer lacks. */
static int open_object(struct tracer *tracer, const struct tracer_options *options,
		       const struct features *features)
{
	bool sockets = features->socket_lengths && !tracer->lacks[TRACER_SOCKETS];
	bool sessions = tracer->return_link == PERFX_LINK_SESSION;
	size_t wanted_rings = options->rings_count ?: (size_t)tracer->cpus_count;
	struct perfx_bpf *skel = perfx_bpf__open();

	tracer->skel = skel;
	if (!skel)
		return -errno;
	if (tracer->hit_link == PERFX_LINK_MULTI) {
		set_attach_type(skel->progs.perfx_on_hit, BPF_ATTACH_UPROBE_MULTI);
		set_attach_type(skel->progs.perfx_on_return, BPF_ATTACH_UPROBE_MULTI);
	}
	if (sessions)
		set_attach_type(skel->progs.perfx_on_session, BPF_ATTACH_UPROBE_SESSION);
	bpf_program__set_autoload(skel->progs.perfx_on_session, sessions);
	bpf_program__set_autoload(skel->progs.perfx_on_return, !sessions);
	open_memory(tracer, options);
	open_samples(tracer, options, features);
	open_stacks(skel, options);
	open_annotations(tracer);
	open_files(tracer, options->files);
	waiting_open(skel, options->waiting && !tracer->lacks[TRACER_WAITING], options->timeline,
		     (unsigned)tracer->cpus_count);
	open_perf_events(skel, options->counters, tracer->contexts_max);
	bpf_program__set_autoload(skel->progs.perfx_on_send, sockets);
	bpf_program__set_autoload(skel->progs.perfx_on_receive, sockets);
	skel->rodata->perfx_page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	skel->rodata->perfx_follow_children = options->follow_children;
	skel->rodata->perfx_sessions = sessions;
	skel->rodata->perfx_cookie_arguments = tracer->hit_link == PERFX_LINK_PERF;
	skel->rodata->perfx_compensate = options->compensate;
	skel->rodata->perfx_cpus_count = (uint32_t)tracer->cpus_count;
	/* as many as there are CPUs, each a power of two */
	tracer->spans.count = 1;
	while (tracer->spans.count < wanted_rings && tracer->spans.count < PERFX_MAX_RINGS)
		tracer->spans.count *= 2;
	tracer->memory.count = tracer->spans.count;
	skel->rodata->perfx_rings_mask = (uint32_t)tracer->spans.count - 1;
	skel->rodata->perfx_wake_bytes = (uint32_t)(ring_round(options->ring_bytes) / 8);
	bpf_map__set_max_entries(skel->maps.perfx_probes, tracer->probes_max);
	skel->rodata->perfx_probes_max = tracer->probes_max;
	bpf_map__set_max_entries(skel->maps.perfx_hits,
				 tracer->probes_max * (uint32_t)tracer->cpus_count);
	skel->rodata->perfx_contexts_max = tracer->contexts_max;
	bpf_map__set_max_entries(skel->maps.perfx_contexts, tracer->contexts_max);
	bpf_map__set_max_entries(skel->maps.perfx_context_ids, tracer->contexts_max);
	return 0;
}

int tracer_put_maps(int map_fd, const uint32_t *keys, const int *fds, uint32_t count)
{
	uint32_t put_count = count;

	if (!bpf_map_update_batch(map_fd, keys, fds, &put_count, NULL))
		return 0;
	for (uint32_t i = 0; i < count; i++)
		if (bpf_map_update_elem(map_fd, &keys[i], &fds[i], BPF_ANY))
			return -errno;
	return 0;
}

/* The rings of one kind, which the programs find in `map`. */
static int make_rings(struct bpf_map *map, size_t bytes, struct tracer_rings *rings)
{
	uint32_t numbers[PERFX_MAX_RINGS];

	for (uint32_t i = 0; i < rings->count; i++) {
		numbers[i] = i;
		rings->fds[i] = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "perfx_ring", 0, 0,
					       (uint32_t)ring_round(bytes), NULL);
		if (rings->fds[i] < 0)
			return -errno;
	}
	return tracer_put_maps(bpf_map__fd(map), numbers, rings->fds, (uint32_t)rings->count);
}

#define SAMPLES_RING_BYTES (1u << 20)

static void close_rings(struct tracer_rings *rings)
{
	for (size_t i = 0; i < rings->count; i++)
		if (rings->fds[i] > 0)
			close(rings->fds[i]);
	*rings = (struct tracer_rings){0};
}

/*
 * Loading. The kernel verifies the programs of uprobes for 0.2 s of a CPU's time, and a process
 * needs few of them: one of plain C that for its allocations, say. So libbpf loads an empty program
 * in place of each, whose descriptor becomes the real program's when that is needed first.
 */

struct program_load {
	struct bpf_program *program;
	struct bpf_insn *insns; /* owned; NULL: there is nothing to load, or no more */
	size_t insns_count;
	struct bpf_prog_load_opts options; /* points to what the object owns */
	pthread_t thread;
	bool has_thread, refused;
	int fd; /* or -errno */
};

#define VERIFIER_LOG_BYTES (1u << 20)

static void *verify_program(void *arg)
{
	struct program_load *load = arg;
	const char *name = bpf_program__name(load->program);
	char *log = NULL;

	for (;;) {
		load->fd = bpf_prog_load(bpf_program__type(load->program), name, "Dual BSD/GPL",
					 load->insns, load->insns_count, &load->options);
		if (load->fd >= 0 || log || !getenv("PERFX_DEBUG"))
			break;
		/* once more, for the verifier's log */
		log = malloc(VERIFIER_LOG_BYTES);
		if (!log)
			break;
		load->options.log_level = 1;
		load->options.log_buf = log;
		load->options.log_size = VERIFIER_LOG_BYTES;
	}
	if (log)
		fprintf(stderr, "%s: %s\n", name, log);
	free(log);
	return NULL;
}

/* Begins to load the programs that will be needed, by a thread each. */
static void begin_programs(struct tracer *tracer)
{
	static const enum plan_kind needed_for[TRACER_PROGRAMS] = {
		[PROGRAM_HIT] = PLAN_KIND_CALLS,
		[PROGRAM_RETURN] = PLAN_KIND_CALL_RETURNS,
		[PROGRAM_SESSION] = PLAN_KIND_CALL_RETURNS,
		[PROGRAM_ANNOTATION] = PLAN_KIND_ANNOTATIONS,
		[PROGRAM_FILE_CALL] = PLAN_KIND_FILE_CALLS,
		[PROGRAM_MEMORY_HIT] = PLAN_KIND_ALLOCS,
		[PROGRAM_MEMORY_RETURN] = PLAN_KIND_ALLOC_RETURNS,
		[PROGRAM_MEMORY_SESSION] = PLAN_KIND_ALLOC_RETURNS,
	};
	uint32_t kinds = tracer->kinds ? *tracer->kinds : 0;

	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++) {
		struct program_load *load = &tracer->loads[i];

		if (load->insns && !load->has_thread && (kinds & needed_for[i]))
			load->has_thread = !thread_start(&load->thread, verify_program, load);
	}
}

/* libbpf is about to load the program, with its final instructions. cookie: the tracer. */
static int put_off_program(struct bpf_program *program, struct bpf_prog_load_opts *options,
			   long cookie)
{
	struct bpf_insn empty[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
				   {.code = BPF_JMP | BPF_EXIT}};
	struct tracer *tracer = (struct tracer *)cookie;
	enum tracer_program which = PROGRAM_HIT;
	struct program_load *load;

	while (tracer_program_of(tracer, which) != program)
		if (++which == TRACER_PROGRAMS)
			return 0;
	load = &tracer->loads[which];
	load->program = program;
	load->options = *options;
	load->options.expected_attach_type = bpf_program__expected_attach_type(program);
	load->options.fd_array = NULL; /* of modules' types, freed with the load of the object */
	load->insns_count = bpf_program__insn_cnt(program);
	load->insns = malloc(load->insns_count * sizeof(*load->insns));
	if (!load->insns)
		return -ENOMEM;
	memcpy(load->insns, bpf_program__insns(program), load->insns_count * sizeof(*load->insns));
	options->func_info_cnt = options->line_info_cnt = 0;
	begin_programs(tracer);
	return bpf_program__set_insns(program, empty, sizeof(empty) / sizeof(*empty));
}

/* Loads it, unless it is loaded. */
static void finish_load(struct program_load *load)
{
	if (!load->insns)
		return;
	if (load->has_thread)
		pthread_join(load->thread, NULL);
	else
		verify_program(load);
	load->refused =
		load->fd < 0 || dup3(load->fd, bpf_program__fd(load->program), O_CLOEXEC) < 0;
	if (load->fd >= 0)
		close(load->fd);
	free(load->insns);
	load->insns = NULL;
}

static struct bpf_program *loaded_program(struct tracer *tracer, enum tracer_program which)
{
	struct bpf_program *program = tracer_program_of(tracer, which);
	struct program_load *load = &tracer->loads[which];

	finish_load(load);
	if (load->refused && which == PROGRAM_ANNOTATION)
		tracer->lacks[TRACER_ANNOTATIONS] = true;
	if (load->refused && which == PROGRAM_FILE_CALL)
		tracer->lacks[TRACER_FILES] = true;
	if (load->refused && which >= PROGRAM_MEMORY_HIT)
		tracer->lacks[TRACER_MEMORY] = true;
	return load->refused || bpf_program__fd(program) < 0 ? NULL : program;
}

static void close_objects(struct tracer *tracer)
{
	for (size_t i = 0; i < TRACER_PROGRAMS; i++) {
		struct program_load *load = &tracer->loads[i];

		if (load->has_thread)
			finish_load(load);
		free(load->insns);
		*load = (struct program_load){0};
	}
	close_rings(&tracer->spans);
	close_rings(&tracer->memory);
	perfx_bpf__destroy(tracer->skel);
	tracer->skel = NULL;
}

static int open_and_load(struct tracer *tracer, const struct tracer_options *options,
			 const struct features *features)
{
	/* samples come by the clock, and stacks of first calls alone; where none are wanted, the
	 * smallest ring that there is */
	size_t memory_bytes = options->memory || options->only_dump ? options->ring_bytes
			      : options->samples || options->stacks != PERFX_STACKS_OFF
				      ? min_u64(options->ring_bytes, SAMPLES_RING_BYTES)
				      : 1;
	const struct perfx_bpf *skel;
	int err;

	close_objects(tracer);
	err = open_object(tracer, options, features);
	if (!err)
		err = perfx_bpf__load(tracer->skel);
	if (err)
		return err;
	begin_programs(tracer);
	skel = tracer->skel;
	err = make_rings(skel->maps.perfx_spans, options->only_dump ? 1 : options->ring_bytes,
			 &tracer->spans);
	return err ?: make_rings(skel->maps.perfx_memory, memory_bytes, &tracer->memory);
}

/* One refused program fails the whole object. So all optional features are left out, then added one
 * by one as far as this kernel loads them. */
static int load_features(struct tracer *tracer, const struct tracer_options *options,
			 const struct features *features)
{
	int err = open_and_load(tracer, options, features);

	if (!err)
		return 0;
	for (int part = 0; part < TRACER_PARTS; part++)
		tracer->lacks[part] = true;
	err = open_and_load(tracer, options, features);
	if (err)
		return err;
	for (int part = 0; part < TRACER_PARTS; part++) {
		tracer->lacks[part] = false;
		tracer->lacks[part] = open_and_load(tracer, options, features);
	}
	return open_and_load(tracer, options, features);
}

static void *map_table(struct tracer *tracer, struct bpf_map *map, size_t count, size_t item_bytes,
		       int protection)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (count * item_bytes + page - 1) / page * page;
	void *table = tracer_map_table(map, bytes, protection);

	if (table)
		tracer->mapped[tracer->mapped_count++] = (struct mapped_table){table, bytes};
	return table;
}

static int map_tables(struct tracer *tracer, bool files)
{
	const int writable = PROT_READ | PROT_WRITE;
	size_t cpus_count = (size_t)tracer->cpus_count;
	const struct perfx_bpf *skel = tracer->skel;

	/* the elements of an array map are padded to 8 bytes */
	_Static_assert(sizeof(struct perfx_probe) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_context_node) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_name) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_gpu_sum) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_files_seen) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_free_ids) % 8 == 0, "stride of the table");
	tracer->probes = map_table(tracer, skel->maps.perfx_probes, tracer->probes_max,
				   sizeof(*tracer->probes), writable);
	tracer->hits = map_table(tracer, skel->maps.perfx_hits, cpus_count * tracer->probes_max,
				 sizeof(*tracer->hits), writable);
	tracer->contexts = map_table(tracer, skel->maps.perfx_contexts, tracer->contexts_max,
				     sizeof(*tracer->contexts), writable);
	tracer->names = map_table(tracer, skel->maps.perfx_names, PERFX_MAX_NAMES,
				  sizeof(*tracer->names), PROT_READ);
	tracer->gpu_sums = map_table(tracer, skel->maps.perfx_gpu_sums, PERFX_MAX_GPU_SUMS,
				     sizeof(*tracer->gpu_sums), PROT_READ);
	tracer->gates = map_table(tracer, skel->maps.perfx_gates, PERFX_MAX_GATES,
				  sizeof(*tracer->gates), writable);
	tracer->free_ids = map_table(tracer, skel->maps.perfx_free_ids, PERFX_ID_KINDS,
				     sizeof(*tracer->free_ids), writable);
	if (files)
		tracer->files_seen =
			map_table(tracer, skel->maps.perfx_files_seen, PERFX_MAX_FILE_GROUPS,
				  sizeof(*tracer->files_seen), PROT_READ);
	return tracer->mapped_count + !files == TRACER_TABLES ? 0 : -errno;
}

static int quiet_print(enum libbpf_print_level level, const char *format, va_list args)
{
	/* The caller reports the failure; PERFX_DEBUG shows the verifier's log. */
	if (!getenv("PERFX_DEBUG") || level == LIBBPF_DEBUG)
		return 0;
	return vfprintf(stderr, format, args);
}

static int make_links(struct tracer *tracer)
{
	struct links_options options = {.tracer = tracer,
					.program = loaded_program,
					.hit_link = tracer->hit_link,
					.return_link = tracer->return_link,
					.multi_pid = tracer->multi_pid,
					.gates = tracer->gates,
					.gates_turned =
						(uint32_t *)&tracer->skel->bss->perfx_gates_turned};

	tracer->links = links__new(&options);
	return tracer->links ? 0 : -errno;
}

/* Each perf link takes a descriptor; without more descriptors fewer links are made. */
#define FILES_WANTED 65536

static void raise_files_limit(void)
{
	const struct rlimit wanted = {.rlim_cur = FILES_WANTED, .rlim_max = FILES_WANTED};
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	if (files.rlim_max < FILES_WANTED && !setrlimit(RLIMIT_NOFILE, &wanted))
		return;
	/* a hard limit that was lowered stays so: it takes CAP_SYS_RESOURCE to raise it */
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

struct tracer *tracer__new(const struct tracer_options *options, const struct features *features)
{
	struct tracer *tracer = calloc(1, sizeof(*tracer));
	LIBBPF_OPTS(libbpf_prog_handler_opts, handler, .cookie = (long)tracer,
		    .prog_prepare_load_fn = put_off_program);
	struct bpf_program *on_exit;
	int err;

	if (!tracer)
		return NULL;
	libbpf_set_print(quiet_print);
	raise_files_limit();
	tracer->handler_id = -1;
	tracer->kinds = options->kinds;
	tracer->probes_count = 1;
	tracer->alloc_probes_count = 1;
	tracer->annotations_count = 1;
	tracer->probes_max = options->probes_max + 1;
	tracer->contexts_max =
		options->many_processes ? PERFX_MAX_CONTEXTS : PERFX_MAX_CONTEXTS_FEW;
	tracer->cpus_count = libbpf_num_possible_cpus();
	tracer->loads = calloc(TRACER_PROGRAMS, sizeof(*tracer->loads));
	tracer->percpu = tracer->cpus_count > 0
				 ? calloc((size_t)tracer->cpus_count, sizeof(*tracer->percpu))
				 : NULL;
	err = tracer->loads && tracer->percpu ? choose_links(tracer, options->link, features)
					      : -ENOMEM;
	if (!err) {
		/* opened objects point to the handler, so it stays as long as they do */
		tracer->handler_id =
			libbpf_register_prog_handler("uprobe", BPF_PROG_TYPE_KPROBE, 0, &handler);
		err = tracer->handler_id < 0 ? tracer->handler_id : 0;
	}
	if (!err)
		err = load_features(tracer, options, features);
	if (!err)
		err = map_tables(tracer, options->files);
	if (!err)
		err = make_links(tracer);
	if (!err && options->waiting && !tracer->lacks[TRACER_WAITING]) {
		tracer->waiting = waiting__new(tracer->skel);
		err = tracer->waiting ? 0 : -errno;
	}
	if (!err) {
		/* A tracepoint calls its programs in the order in which they came: a thread's last
		 * frames must be emitted before the end of its process, upon which a recording may
		 * end. */
		on_exit = tracer->skel->progs.perfx_on_thread_exit;
		tracer->skel->links.perfx_on_thread_exit = bpf_program__attach(on_exit);
		err = tracer->skel->links.perfx_on_thread_exit ? perfx_bpf__attach(tracer->skel)
							       : -errno;
	}
	if (!err)
		return tracer;
	tracer__free(tracer);
	errno = -err;
	return NULL;
}

void tracer__free(struct tracer *tracer)
{
	if (!tracer)
		return;
	links__free(tracer->links);
	waiting__free(tracer->waiting);
	for (size_t i = 0; i < tracer->mapped_count; i++)
		munmap(tracer->mapped[i].memory, tracer->mapped[i].bytes);
	tracer__account_runs(tracer, false);
	if (tracer->loads)
		close_objects(tracer);
	if (tracer->handler_id >= 0)
		libbpf_unregister_prog_handler(tracer->handler_id);
	free(tracer->loads);
	free(tracer->percpu);
	free(tracer);
}

struct loading {
	struct tracer_options options;
	const struct features *features;
	struct tracer *tracer;
	int err; /* > 0: why there is none */
	pthread_t thread;
	bool has_thread;
};

static void *load(void *arg)
{
	struct loading *loading = arg;

	loading->tracer = tracer__new(&loading->options, loading->features);
	loading->err = loading->tracer ? 0 : errno;
	/* strerror() does not know libbpf's own errors */
	if (loading->err >= __LIBBPF_ERRNO__START)
		loading->err = loading->err == LIBBPF_ERRNO__LIBELF ? ENOMEM : EINVAL;
	return NULL;
}

struct loading *loading__start(const struct tracer_options *options,
			       const struct features *features)
{
	struct loading *loading = calloc(1, sizeof(*loading));

	if (!loading)
		return NULL;
	loading->options = *options;
	loading->features = features;
	loading->has_thread = !thread_start(&loading->thread, load, loading);
	return loading;
}

struct tracer *loading__end(struct loading *loading, uint32_t probes_count)
{
	uint32_t probes_max = loading->options.probes_max;
	struct tracer *tracer;
	int err;

	if (loading->has_thread)
		pthread_join(loading->thread, NULL);
	if (!loading->has_thread || (loading->tracer && probes_count > probes_max)) {
		tracer__free(loading->tracer);
		loading->options.probes_max = probes_count > probes_max ? probes_count : probes_max;
		load(loading);
	}
	tracer = loading->tracer;
	if (tracer)
		begin_programs(tracer);
	err = loading->err;
	free(loading);
	errno = err;
	return tracer;
}
