// SPDX-License-Identifier: BSD-2-Clause
#include "attach/tracer.h"

#include "base/thread.h"
#include "perfx.skel.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct accounted_runs {
	uint64_t count, ns;
};

struct tracer {
	struct perfx_bpf *skel;
	enum perfx_link hit_link, return_link;
	bool multi_pid;
	bool lacks[TRACER_PARTS];
	uint32_t probes_count; /* next free index; 0 is no probe */
	uint32_t probes_max;
	struct tracer_rings spans, memory;
	int cpus_count;
	uint64_t *percpu;	    /* scratch: one value a CPU */
	struct perfx_probe *probes; /* mapped tables */
	struct perfx_context_node *contexts;
	size_t probes_bytes, contexts_bytes;
	struct perfx_name *names; /* mapped too */
	size_t names_bytes;
	uint32_t alloc_probes_count; /* next free index; 0 is no allocation probe */
	uint32_t annotations_count;  /* likewise */
	struct perfx_annotation annotations[PERFX_MAX_ANNOTATIONS];
	struct links *links;
	struct waiting *waiting; /* NULL: not recorded */
	uint64_t *gates;	 /* mapped too */
	int account_fd;		 /* of BPF_ENABLE_STATS; 0: off */
	struct accounted_runs forgotten[TRACER_PROGRAMS];
};

static size_t page_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static size_t ring_round(size_t bytes)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	while (size < bytes)
		size *= 2;
	return size;
}

/* As many as there are CPUs, each a power of two. */
static size_t rings_count(const struct tracer *tracer, const struct tracer_options *options)
{
	size_t wanted = options->rings_count ? options->rings_count : (size_t)tracer->cpus_count;
	size_t count = 1;

	while (count < wanted && count < PERFX_MAX_RINGS)
		count *= 2;
	return count;
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
	if ((wanted == PERFX_LINK_SESSION && !features->uprobe_session) ||
	    (wanted == PERFX_LINK_MULTI && !features->uprobe_multi) ||
	    (wanted == PERFX_LINK_PERF && !features->uprobe_perf))
		return -ENOTSUP;
	tracer->return_link = wanted;
	/* a session is for functions timed by return; sites have nothing to return from */
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
	bool off_cpu = options->samples && features->task_memory && !tracer->lacks[TRACER_OFF_CPU];
	struct perfx_bpf *skel = tracer->skel;

	bpf_program__set_autoload(skel->progs.perfx_sample_on_cpu, on_cpu);
	bpf_program__set_autoload(skel->progs.perfx_sample_off_cpu, off_cpu);
	/* user/attach/sampler.c attaches them */
	bpf_program__set_autoattach(skel->progs.perfx_sample_on_cpu, false);
	bpf_program__set_autoattach(skel->progs.perfx_sample_off_cpu, false);
	if (on_cpu || off_cpu)
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

/* Threads' perf events, where the programs find them. */
static void open_perf_events(struct perfx_bpf *skel, const struct counters *counters)
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
	bpf_map__set_max_entries(skel->maps.perfx_perf_sums, PERFX_MAX_CONTEXTS);
}

/* All programs but those of parts that the tracer lacks. */
static int open_and_load(struct tracer *tracer, const struct tracer_options *options,
			 const struct features *features)
{
	bool sockets = features->socket_lengths && !tracer->lacks[TRACER_SOCKETS];
	struct perfx_bpf *skel = perfx_bpf__open();

	perfx_bpf__destroy(tracer->skel);
	tracer->skel = skel;
	if (!skel)
		return -errno;
	if (tracer->hit_link == PERFX_LINK_MULTI) {
		set_attach_type(skel->progs.perfx_on_hit, BPF_ATTACH_UPROBE_MULTI);
		set_attach_type(skel->progs.perfx_on_return, BPF_ATTACH_UPROBE_MULTI);
	}
	if (tracer->return_link == PERFX_LINK_SESSION)
		set_attach_type(skel->progs.perfx_on_session, BPF_ATTACH_UPROBE_SESSION);
	bpf_program__set_autoload(skel->progs.perfx_on_session,
				  tracer->return_link == PERFX_LINK_SESSION);
	bpf_program__set_autoload(skel->progs.perfx_on_return,
				  tracer->return_link != PERFX_LINK_SESSION);
	open_memory(tracer, options);
	open_samples(tracer, options, features);
	open_stacks(skel, options);
	open_annotations(tracer);
	waiting_open(skel, options->waiting && !tracer->lacks[TRACER_WAITING]);
	open_perf_events(skel, options->counters);
	bpf_program__set_autoload(skel->progs.perfx_on_send, sockets);
	bpf_program__set_autoload(skel->progs.perfx_on_receive, sockets);
	skel->rodata->perfx_follow_children = options->follow_children;
	skel->rodata->perfx_sessions = tracer->return_link == PERFX_LINK_SESSION;
	skel->rodata->perfx_compensate = options->compensate;
	tracer->spans.count = tracer->memory.count = rings_count(tracer, options);
	skel->rodata->perfx_rings_mask = (uint32_t)tracer->spans.count - 1;
	skel->rodata->perfx_wake_bytes = (uint32_t)(ring_round(options->ring_bytes) / 8);
	bpf_map__set_max_entries(skel->maps.perfx_probes, tracer->probes_max);
	bpf_map__set_max_entries(skel->maps.perfx_hits, tracer->probes_max);
	return perfx_bpf__load(skel);
}

/* The rings of one kind, which the programs find in `map`. */
static int make_rings(struct bpf_map *map, size_t bytes, struct tracer_rings *rings)
{
	for (uint32_t i = 0; i < rings->count; i++) {
		rings->fds[i] = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "perfx_ring", 0, 0,
					       (uint32_t)ring_round(bytes), NULL);
		if (rings->fds[i] < 0 ||
		    bpf_map_update_elem(bpf_map__fd(map), &i, &rings->fds[i], BPF_ANY))
			return -errno;
	}
	return 0;
}

/* Samples, which come by the clock, and stacks of first calls alone. */
#define SAMPLES_RING_BYTES (1u << 20)

/* Of the rings of memory records and samples; where none are wanted, the smallest there are. */
static size_t memory_ring_bytes(const struct tracer_options *options)
{
	if (options->memory)
		return options->ring_bytes;
	if (!options->samples && options->stacks == PERFX_STACKS_OFF)
		return 1;
	return options->ring_bytes < SAMPLES_RING_BYTES ? options->ring_bytes : SAMPLES_RING_BYTES;
}

static int make_all_rings(struct tracer *tracer, const struct tracer_options *options)
{
	const struct perfx_bpf *skel = tracer->skel;
	int err = make_rings(skel->maps.perfx_spans, options->ring_bytes, &tracer->spans);

	return err ? err
		   : make_rings(skel->maps.perfx_memory, memory_ring_bytes(options),
				&tracer->memory);
}

static void close_rings(struct tracer_rings *rings)
{
	for (size_t i = 0; i < rings->count; i++)
		if (rings->fds[i] > 0)
			close(rings->fds[i]);
}

/* One refused program fails the whole object. So all optional parts are left out, then added one
 * by one as far as this kernel loads them. */
static int load_parts(struct tracer *tracer, const struct tracer_options *options,
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

static void *map_table(struct bpf_map *map, size_t bytes, int protection)
{
	void *table = mmap(NULL, bytes, protection, MAP_SHARED, bpf_map__fd(map), 0);

	return table == MAP_FAILED ? NULL : table;
}

static int map_tables(struct tracer *tracer)
{
	struct perfx_bpf *skel = tracer->skel;

	/* the elements of an array map are padded to 8 bytes */
	_Static_assert(sizeof(struct perfx_probe) % 8 == 0, "stride of the table");
	_Static_assert(sizeof(struct perfx_context_node) % 8 == 0, "stride of the table");
	tracer->probes_bytes = page_round(tracer->probes_max * sizeof(struct perfx_probe));
	tracer->contexts_bytes = page_round(PERFX_MAX_CONTEXTS * sizeof(struct perfx_context_node));
	tracer->probes =
		map_table(skel->maps.perfx_probes, tracer->probes_bytes, PROT_READ | PROT_WRITE);
	tracer->contexts = map_table(skel->maps.perfx_contexts, tracer->contexts_bytes,
				     PROT_READ | PROT_WRITE);
	_Static_assert(sizeof(struct perfx_name) % 8 == 0, "stride of the table");
	tracer->names_bytes = page_round(PERFX_MAX_NAMES * sizeof(struct perfx_name));
	tracer->names = map_table(skel->maps.perfx_names, tracer->names_bytes, PROT_READ);
	tracer->gates = map_table(skel->maps.perfx_gates,
				  page_round(PERFX_MAX_GATES * sizeof(*tracer->gates)),
				  PROT_READ | PROT_WRITE);
	return tracer->probes && tracer->contexts && tracer->names && tracer->gates ? 0 : -errno;
}

static int quiet_print(enum libbpf_print_level level, const char *format, va_list args)
{
	/* The caller reports the failure; PERFX_DEBUG shows the verifier's log. */
	if (!getenv("PERFX_DEBUG") || level == LIBBPF_DEBUG)
		return 0;
	return vfprintf(stderr, format, args);
}

/* The programs that follow the traced processes. A tracepoint calls them in the order in which they
 * came: a thread's last frames must be emitted before the end of its process, upon which a
 * recording may end.
 */
static int attach_followers(struct perfx_bpf *skel)
{
	skel->links.perfx_on_thread_exit = bpf_program__attach(skel->progs.perfx_on_thread_exit);
	return skel->links.perfx_on_thread_exit ? perfx_bpf__attach(skel) : -errno;
}

static struct bpf_program *program_of(const struct tracer *tracer, enum tracer_program which)
{
	const struct perfx_bpf *skel = tracer->skel;

	switch (which) {
	case PROGRAM_HIT:
		return skel->progs.perfx_on_hit;
	case PROGRAM_RETURN:
		return skel->progs.perfx_on_return;
	case PROGRAM_SESSION:
		return skel->progs.perfx_on_session;
	case PROGRAM_ANNOTATION:
		return skel->progs.perfx_on_mark;
	case PROGRAM_MEMORY_HIT:
		return skel->progs.perfx_on_memory_hit;
	case PROGRAM_MEMORY_RETURN:
		return skel->progs.perfx_on_memory_return;
	case PROGRAM_MEMORY_SESSION:
		return skel->progs.perfx_on_memory_session;
	}
	return NULL;
}

static int make_links(struct tracer *tracer)
{
	struct links_options options = {.hit_link = tracer->hit_link,
					.return_link = tracer->return_link,
					.multi_pid = tracer->multi_pid,
					.gates = tracer->gates};

	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++)
		options.programs[i] = program_of(tracer, i);
	tracer->links = links__new(&options);
	return tracer->links ? 0 : -ENOMEM;
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
	int err;

	if (!tracer)
		return NULL;
	libbpf_set_print(quiet_print);
	raise_files_limit();
	tracer->probes_count = 1;
	tracer->alloc_probes_count = 1;
	tracer->annotations_count = 1;
	tracer->probes_max = options->probes_max + 1;
	tracer->cpus_count = libbpf_num_possible_cpus();
	tracer->percpu = tracer->cpus_count > 0
				 ? calloc((size_t)tracer->cpus_count, sizeof(*tracer->percpu))
				 : NULL;
	err = tracer->percpu ? choose_links(tracer, options->link, features) : -ENOMEM;
	if (!err)
		err = load_parts(tracer, options, features);
	if (!err)
		err = make_all_rings(tracer, options);
	if (!err)
		err = map_tables(tracer);
	if (!err)
		err = make_links(tracer);
	if (!err && options->waiting && !tracer->lacks[TRACER_WAITING]) {
		tracer->waiting = waiting__new(tracer->skel);
		err = tracer->waiting ? 0 : -errno;
	}
	if (!err)
		err = attach_followers(tracer->skel);
	if (err) {
		tracer__free(tracer);
		errno = -err;
		return NULL;
	}
	return tracer;
}

void tracer__free(struct tracer *tracer)
{
	if (!tracer)
		return;
	links__free(tracer->links);
	waiting__free(tracer->waiting);
	if (tracer->probes)
		munmap(tracer->probes, tracer->probes_bytes);
	if (tracer->contexts)
		munmap(tracer->contexts, tracer->contexts_bytes);
	if (tracer->names)
		munmap(tracer->names, tracer->names_bytes);
	tracer__account_runs(tracer, false);
	close_rings(&tracer->spans);
	close_rings(&tracer->memory);
	if (tracer->gates)
		munmap(tracer->gates, page_round(PERFX_MAX_GATES * sizeof(*tracer->gates)));
	perfx_bpf__destroy(tracer->skel);
	free(tracer->percpu);
	free(tracer);
}

bool tracer__lacks(const struct tracer *tracer, enum tracer_part part)
{
	return tracer->lacks[part];
}

bool tracer__counts_sockets(const struct tracer *tracer)
{
	return bpf_program__autoload(tracer->skel->progs.perfx_on_send);
}

struct waiting *tracer__waiting(const struct tracer *tracer)
{
	return tracer->waiting;
}

struct links *tracer__links(const struct tracer *tracer)
{
	return tracer->links;
}

enum perfx_link tracer__hit_link(const struct tracer *tracer)
{
	return tracer->hit_link;
}

enum perfx_link tracer__return_link(const struct tracer *tracer)
{
	return tracer->return_link;
}

int64_t tracer__add_process(struct tracer *tracer, pid_t pid, bool *existed)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_traced_tgids);
	struct perfx_traced_process traced = {.tensor_layouts = PERFX_TENSOR_LAYOUTS_ALL};
	uint32_t key = (uint32_t)pid;

	if (existed)
		*existed = false;
	traced.process = __sync_fetch_and_add(&tracer->skel->data->perfx_next_process, 1);
	traced.memory_process = traced.born = traced.process;
	if (!bpf_map_update_elem(map_fd, &key, &traced, BPF_NOEXIST))
		return traced.process;
	if (errno != EEXIST)
		return -errno;
	/* the fork allocation probe was first */
	if (bpf_map_lookup_elem(map_fd, &key, &traced))
		return -errno;
	if (existed)
		*existed = true;
	return traced.process;
}

void tracer__remove_process(struct tracer *tracer, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	bpf_map_delete_elem(bpf_map__fd(tracer->skel->maps.perfx_traced_tgids), &key);
}

int tracer__traced_process(const struct tracer *tracer, pid_t pid,
			   struct perfx_traced_process *traced)
{
	uint32_t key = (uint32_t)pid;

	if (bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_traced_tgids), &key, traced))
		return -errno;
	return 0;
}

int64_t tracer__add_probe(struct tracer *tracer, const struct perfx_probe *probe)
{
	if (tracer->probes_count >= tracer->probes_max)
		return -ENOSPC;
	tracer->probes[tracer->probes_count] = *probe;
	return tracer->probes_count++;
}

struct perfx_probe *tracer__probe(struct tracer *tracer, uint32_t probe)
{
	return &tracer->probes[probe];
}

size_t tracer__take_declined(struct tracer *tracer, uint32_t probes[PERFX_DECLINED_PLACES])
{
	volatile uint32_t *places = tracer->skel->bss->perfx_declined;
	size_t count = 0;

	for (size_t i = 0; i < PERFX_DECLINED_PLACES; i++)
		if (places[i])
			probes[count++] = __atomic_exchange_n(&places[i], 0, __ATOMIC_SEQ_CST);
	return count;
}

int tracer__set_cost_program(struct tracer *tracer, uint32_t index,
			     const struct perfx_cost_program *cost)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_cost_programs);

	if (!index || index >= PERFX_MAX_COST_PROGRAMS)
		return -ENOSPC;
	return bpf_map_update_elem(map_fd, &index, cost, BPF_ANY) ? -errno : 0;
}

uint32_t tracer__new_function(struct tracer *tracer)
{
	return __sync_fetch_and_add(&tracer->skel->data->perfx_next_function, 1);
}

int tracer__set_object(struct tracer *tracer, const struct perfx_object_record *record,
		       const struct perfx_object *object)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_objects);
	struct perfx_object known;

	if (bpf_map_lookup_elem(map_fd, &record->key, &known))
		return -errno;
	if (known.object_cost != record->object_cost)
		return -ESTALE;
	return bpf_map_update_elem(map_fd, &record->key, object, BPF_EXIST) ? -errno : 0;
}

void tracer__read_objects(struct tracer *tracer, bool enabled)
{
	__atomic_store_n(&tracer->skel->bss->perfx_objects_read, enabled, __ATOMIC_SEQ_CST);
}

void tracer__each_pending_run(const struct tracer *tracer,
			      void (*visit)(void *ctx, const struct perfx_pending_key *key,
					    uint64_t count),
			      void *ctx)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_pending_runs);
	struct perfx_pending_key key, next;
	uint64_t count;
	int err = bpf_map_get_next_key(map_fd, NULL, &next);

	for (; !err; err = bpf_map_get_next_key(map_fd, &key, &next)) {
		key = next;
		if (!bpf_map_lookup_elem(map_fd, &key, &count))
			visit(ctx, &key, count);
	}
}

int64_t tracer__add_alloc_probe(struct tracer *tracer, const struct perfx_alloc_probe *alloc_probe)
{
	uint32_t key = tracer->alloc_probes_count;

	if (key >= PERFX_MAX_ALLOC_PROBES)
		return -ENOSPC;
	if (bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_alloc_probes), &key,
				alloc_probe, BPF_ANY))
		return -errno;
	return tracer->alloc_probes_count++;
}

int64_t tracer__add_annotation(struct tracer *tracer, const struct perfx_annotation *annotation)
{
	uint32_t key = tracer->annotations_count;

	/* many files may have the same markers */
	for (uint32_t i = 1; i < tracer->annotations_count; i++)
		if (!memcmp(&tracer->annotations[i], annotation, sizeof(*annotation)))
			return i;
	if (key >= PERFX_MAX_ANNOTATIONS)
		return -ENOSPC;
	if (bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_annotations), &key, annotation,
				BPF_ANY))
		return -errno;
	tracer->annotations[key] = *annotation;
	return tracer->annotations_count++;
}

void tracer__set_memory(struct tracer *tracer, enum perfx_domain domain,
			enum perfx_memory_level level, uint64_t sample_bytes)
{
	volatile struct perfx_memory_knobs *knobs = &tracer->skel->bss->perfx_memory_knobs[domain];

	knobs->sample_bytes = sample_bytes;
	__atomic_store_n(&knobs->level, level, __ATOMIC_RELEASE);
}

void tracer__thin_stacks(struct tracer *tracer, enum perfx_domain domain, uint32_t every)
{
	__atomic_store_n(&tracer->skel->bss->perfx_memory_knobs[domain].stacks_every, every,
			 __ATOMIC_RELEASE);
}

void tracer__set_stacks(struct tracer *tracer, enum perfx_stacks stacks)
{
	__atomic_store_n(&tracer->skel->data->perfx_stacks_by, stacks, __ATOMIC_SEQ_CST);
}

enum perfx_stacks tracer__stacks(const struct tracer *tracer)
{
	return tracer->skel->data->perfx_stacks_by;
}

struct tracer_unwind_maps tracer__unwind_maps(const struct tracer *tracer)
{
	const struct perfx_bpf *skel = tracer->skel;

	return (struct tracer_unwind_maps){
		.processes_fd = bpf_map__fd(skel->maps.perfx_unwind_processes),
		.sets_fd = bpf_map__fd(skel->maps.perfx_unwind_sets),
		.pages_fd = bpf_map__fd(skel->maps.perfx_unwind_pages),
		.slabs_fd = bpf_map__fd(skel->maps.perfx_unwind_rows),
		.rules_fd = bpf_map__fd(skel->maps.perfx_unwind_rules),
		.requests_fd = bpf_map__fd(skel->maps.perfx_unwind_requests),
	};
}

int tracer__set_python(struct tracer *tracer, pid_t pid, const struct perfx_python_layout *python)
{
	uint32_t key = (uint32_t)pid;

	if (bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_pythons), &key, python,
				BPF_ANY))
		return -errno;
	__sync_fetch_and_add(&tracer->skel->bss->perfx_pythons_count, 1);
	return 0;
}

void tracer__expect_many_stacks(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_many_stacks, 1, __ATOMIC_SEQ_CST);
}

void tracer__start(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_tracing, 1, __ATOMIC_SEQ_CST);
}

void tracer__wait(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_waiting, 1, __ATOMIC_SEQ_CST);
	tracer__start(tracer);
}

/* Ends the calls that threads have left without passing an exit; before the links go. */
static void settle(struct tracer *tracer)
{
	const struct bpf_link *link = tracer->skel->links.perfx_at_end;

	if (link)
		link_iterate(bpf_link__fd(link));
}

void tracer__stop(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_ending, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&tracer->skel->bss->perfx_tracing, 0, __ATOMIC_SEQ_CST);
	settle(tracer);
	links__detach(tracer->links);
}

void tracer__abandon(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_tracing, 0, __ATOMIC_SEQ_CST);
	links__detach_later(tracer->links);
}

void tracer__each_value_lost(const struct tracer *tracer,
			     void (*visit)(void *ctx, const struct perfx_user_value_key *key,
					   const struct perfx_user_value_lost *lost),
			     void *ctx)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_user_values_lost);
	struct perfx_user_value_key key, next;
	struct perfx_user_value_lost lost;
	int err = bpf_map_get_next_key(map_fd, NULL, &next);

	for (; !err; err = bpf_map_get_next_key(map_fd, &key, &next)) {
		key = next;
		if (!bpf_map_lookup_elem(map_fd, &key, &lost))
			visit(ctx, &key, &lost);
	}
}

struct ring_buffer *tracer_rings_reader(const struct tracer_rings *rings,
					int (*take)(void *ctx, void *record, size_t size),
					void *ctx)
{
	struct ring_buffer *reader = ring_buffer__new(rings->fds[0], take, ctx, NULL);

	for (size_t i = 1; reader && i < rings->count; i++) {
		if (!ring_buffer__add(reader, rings->fds[i], take, ctx))
			continue;
		ring_buffer__free(reader);
		return NULL;
	}
	return reader;
}

const struct tracer_rings *tracer__spans(const struct tracer *tracer)
{
	return &tracer->spans;
}

int tracer__control_fd(const struct tracer *tracer)
{
	return bpf_map__fd(tracer->skel->maps.perfx_control);
}

const struct tracer_rings *tracer__memory(const struct tracer *tracer)
{
	return &tracer->memory;
}

int tracer__objects_fd(const struct tracer *tracer)
{
	return bpf_map__fd(tracer->skel->maps.perfx_new_objects);
}

void tracer__memory_lost(const struct tracer *tracer, uint32_t process, enum perfx_domain domain,
			 struct perfx_memory_lost *lost)
{
	uint32_t key = process * PERFX_DOMAINS_MAX + domain;

	*lost = (struct perfx_memory_lost){0};
	bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_memory_lost), &key, lost);
}

int tracer__on_cpu_fd(const struct tracer *tracer)
{
	return bpf_program__fd(tracer->skel->progs.perfx_sample_on_cpu);
}

int tracer__off_cpu_fd(const struct tracer *tracer)
{
	return bpf_program__fd(tracer->skel->progs.perfx_sample_off_cpu);
}

void tracer__set_off_cpu_interval(struct tracer *tracer, uint64_t interval_ns)
{
	__atomic_store_n(&tracer->skel->bss->perfx_off_cpu_interval_ns, interval_ns,
			 __ATOMIC_RELAXED);
}

uint64_t tracer__sample_stacks(const struct tracer *tracer)
{
	return __atomic_load_n(&tracer->skel->bss->perfx_sample_stacks_count, __ATOMIC_RELAXED);
}

uint64_t tracer__samples_lost(const struct tracer *tracer, uint32_t process)
{
	uint64_t lost = 0;

	bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_samples_lost), &process, &lost);
	return lost;
}

size_t tracer__pids(const struct tracer *tracer, pid_t *pids, size_t max)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_traced_tgids);
	uint32_t pid;
	size_t count = 0;
	int err = bpf_map_get_next_key(map_fd, NULL, &pid);

	for (; !err && count < max; err = bpf_map_get_next_key(map_fd, &pid, &pid))
		pids[count++] = (pid_t)pid;
	return count;
}

/* Sum over the CPUs of one entry of a per-CPU array of u64. */
static uint64_t percpu_sum(const struct tracer *tracer, int map_fd, uint32_t key)
{
	uint64_t sum = 0;

	if (bpf_map_lookup_elem(map_fd, &key, tracer->percpu))
		return 0;
	for (int i = 0; i < tracer->cpus_count; i++)
		sum += tracer->percpu[i];
	return sum;
}

uint64_t tracer__counter(const struct tracer *tracer, enum perfx_counter which)
{
	return percpu_sum(tracer, bpf_map__fd(tracer->skel->maps.perfx_counters), which);
}

uint64_t tracer__hits(const struct tracer *tracer, uint32_t probe)
{
	return percpu_sum(tracer, bpf_map__fd(tracer->skel->maps.perfx_hits), probe);
}

const struct perfx_context_node *tracer__contexts(const struct tracer *tracer, uint32_t *count)
{
	uint32_t next = __atomic_load_n(&tracer->skel->data->perfx_next_context, __ATOMIC_ACQUIRE);

	*count = next < PERFX_MAX_CONTEXTS ? next : PERFX_MAX_CONTEXTS;
	return tracer->contexts;
}

const struct perfx_name *tracer__names(const struct tracer *tracer, uint32_t *count)
{
	uint32_t next = __atomic_load_n(&tracer->skel->bss->perfx_next_name, __ATOMIC_ACQUIRE);

	*count = next < PERFX_MAX_NAMES ? next : PERFX_MAX_NAMES;
	return tracer->names;
}

uint32_t tracer__processes_count(const struct tracer *tracer)
{
	return __atomic_load_n(&tracer->skel->data->perfx_next_process, __ATOMIC_ACQUIRE);
}

uint64_t tracer__missed(const struct tracer *tracer)
{
	uint64_t missed = 0;
	struct bpf_program *program;

	bpf_object__for_each_program (program, tracer->skel->obj) {
		struct bpf_prog_info info = {0};
		uint32_t size = sizeof(info);
		int fd = bpf_program__fd(program);

		if (fd >= 0 && !bpf_prog_get_info_by_fd(fd, &info, &size))
			missed += info.recursion_misses;
	}
	return missed;
}

static void zero_percpu(struct tracer *tracer, struct bpf_map *map, uint32_t count)
{
	memset(tracer->percpu, 0, (size_t)tracer->cpus_count * sizeof(*tracer->percpu));
	for (uint32_t key = 0; key < count; key++)
		bpf_map_update_elem(bpf_map__fd(map), &key, tracer->percpu, BPF_ANY);
}

static int ignore_record(void *ctx, void *data, size_t size)
{
	(void)ctx;
	(void)data;
	(void)size;
	return 0;
}

static void drain(const struct tracer_rings *rings)
{
	struct ring_buffer *buffers = tracer_rings_reader(rings, ignore_record, NULL);

	if (buffers)
		ring_buffer__consume(buffers);
	ring_buffer__free(buffers);
}

/* Takes everything out of a hash. */
static void empty(struct bpf_map *map, size_t key_size)
{
	unsigned char key[32];

	assert(key_size <= sizeof(key) && key_size == bpf_map__key_size(map));
	while (!bpf_map_get_next_key(bpf_map__fd(map), NULL, key))
		if (bpf_map_delete_elem(bpf_map__fd(map), key))
			break;
}

/* All accounted runs of a program; 0 if it is not loaded. */
static struct accounted_runs runs_of(const struct tracer *tracer, enum tracer_program which)
{
	int fd = bpf_program__fd(program_of(tracer, which));
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	if (fd < 0 || bpf_prog_get_info_by_fd(fd, &info, &size))
		return (struct accounted_runs){0};
	return (struct accounted_runs){.count = info.run_cnt, .ns = info.run_time_ns};
}

void tracer__account_runs(struct tracer *tracer, bool on)
{
	if (on == (tracer->account_fd > 0))
		return;
	if (on) {
		/* < 0: not known; calibrated costs are used */
		tracer->account_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		return;
	}
	close(tracer->account_fd);
	tracer->account_fd = 0;
}

void tracer__run_times(const struct tracer *tracer, struct run_times *times)
{
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++) {
		struct accounted_runs runs = runs_of(tracer, i);
		uint64_t count = runs.count - tracer->forgotten[i].count;

		times->ns[i] =
			count ? (double)(runs.ns - tracer->forgotten[i].ns) / (double)count : 0;
	}
}

void tracer__forget_runs(struct tracer *tracer)
{
	for (enum tracer_program i = PROGRAM_HIT; i < TRACER_PROGRAMS; i++)
		tracer->forgotten[i] = runs_of(tracer, i);
}

void tracer__reset(struct tracer *tracer)
{
	struct perfx_bpf *skel = tracer->skel;

	empty(skel->maps.perfx_context_ids, sizeof(uint32_t[4]) + sizeof(uint64_t));
	memset(tracer->contexts, 0, skel->data->perfx_next_context * sizeof(*tracer->contexts));
	skel->data->perfx_next_context = 1;
	skel->data->perfx_next_process = 1;
	skel->data->perfx_next_function = 1;
	zero_percpu(tracer, skel->maps.perfx_counters, PERFX_COUNTERS);
	zero_percpu(tracer, skel->maps.perfx_hits, tracer->probes_count);
	drain(&tracer->spans);
	drain(&tracer->memory);
	empty(skel->maps.perfx_stack_ids, sizeof(uint64_t[2]));
	skel->data->perfx_next_stack = 1;
	tracer__forget_runs(tracer);
	tracer->alloc_probes_count = 1;
	tracer->annotations_count = 1;
	tracer->probes_count = 1;
}

int tracer__add_perf_thread(struct tracer *tracer, pid_t tid, uint32_t slot, const int *fds,
			    size_t count)
{
	int array_fd = bpf_map__fd(tracer->skel->maps.perfx_perf_array);
	uint32_t key = (uint32_t)tid, value = slot + 1;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = slot * PERFX_PERF_EVENTS + i;

		if (bpf_map_update_elem(array_fd, &at, &fds[i], BPF_ANY))
			return -errno;
	}
	return bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_perf_slots), &key, &value,
				   BPF_ANY)
		       ? -errno
		       : 0;
}

void tracer__drop_perf_thread(struct tracer *tracer, pid_t tid, uint32_t slot)
{
	int array_fd = bpf_map__fd(tracer->skel->maps.perfx_perf_array);
	uint32_t key = (uint32_t)tid;

	bpf_map_delete_elem(bpf_map__fd(tracer->skel->maps.perfx_perf_slots), &key);
	for (uint32_t i = 0; i < PERFX_PERF_EVENTS; i++) {
		uint32_t at = slot * PERFX_PERF_EVENTS + i;

		bpf_map_delete_elem(array_fd, &at);
	}
}

bool tracer__perf_sums(const struct tracer *tracer, uint32_t context, struct perfx_perf_sums *sums)
{
	return !bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_perf_sums), &context,
				    sums) &&
	       (sums->calls_count || sums->missed_count);
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
	struct tracer *tracer;
	int err;

	if (loading->has_thread)
		pthread_join(loading->thread, NULL);
	if (!loading->has_thread ||
	    (loading->tracer && probes_count > loading->options.probes_max)) {
		tracer__free(loading->tracer);
		if (probes_count > loading->options.probes_max)
			loading->options.probes_max = probes_count;
		load(loading);
	}
	tracer = loading->tracer;
	err = loading->err;
	free(loading);
	errno = err;
	return tracer;
}
