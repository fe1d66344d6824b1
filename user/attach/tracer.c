// SPDX-License-Identifier: BSD-2-Clause
/* A tracer's tables, its start and stop, and what it has counted. */
#include "attach/tracer_internal.h"

#include "base/clock.h"
#include "decode/decode.h"
#include "decode/names.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *tracer_map_table(struct bpf_map *map, size_t bytes, int protection)
{
	void *table = mmap(NULL, bytes, protection, MAP_SHARED, bpf_map__fd(map), 0);

	return table == MAP_FAILED ? NULL : table;
}

struct bpf_program *tracer_program_of(const struct tracer *tracer, enum tracer_program which)
{
	const struct perfx_bpf *skel = tracer->skel;
	struct bpf_program *const programs[TRACER_PROGRAMS] = {
		[PROGRAM_HIT] = skel->progs.perfx_on_hit,
		[PROGRAM_RETURN] = skel->progs.perfx_on_return,
		[PROGRAM_SESSION] = skel->progs.perfx_on_session,
		[PROGRAM_ANNOTATION] = skel->progs.perfx_on_mark,
		[PROGRAM_FILE_CALL] = skel->progs.perfx_on_file_call,
		[PROGRAM_MEMORY_HIT] = skel->progs.perfx_on_memory_hit,
		[PROGRAM_MEMORY_RETURN] = skel->progs.perfx_on_memory_return,
		[PROGRAM_MEMORY_SESSION] = skel->progs.perfx_on_memory_session,
	};

	return programs[which];
}

/* An update of a map of maps returns after a grace period. */
void tracer_wait_for_programs(const struct tracer *tracer)
{
	uint32_t first = 0;

	bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_spans), &first,
			    &tracer->spans.fds[first], BPF_ANY);
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

void tracer__give(struct tracer *tracer, enum perfx_id_kind kind, uint32_t id)
{
	struct perfx_free_ids *ids = &tracer->free_ids[kind];

	ids->ids[ids->given % PERFX_FREE_PLACES] = id;
	__atomic_store_n(&ids->given, ids->given + 1, __ATOMIC_RELEASE);
}

/* As reuse_id() in bpf/perfx.bpf.h. */
static uint32_t pop_free(struct tracer *tracer, enum perfx_id_kind kind)
{
	struct perfx_free_ids *ids = &tracer->free_ids[kind];
	uint32_t taken = __atomic_load_n(&ids->taken, __ATOMIC_ACQUIRE), id;

	while (taken != __atomic_load_n(&ids->given, __ATOMIC_ACQUIRE)) {
		id = ids->ids[taken % PERFX_FREE_PLACES];
		if (__atomic_compare_exchange_n(&ids->taken, &taken, taken + 1, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return id;
	}
	return 0;
}

const struct perfx_free_ids *tracer__free_ids(const struct tracer *tracer, enum perfx_id_kind kind)
{
	return &tracer->free_ids[kind];
}

int64_t tracer__add_process(struct tracer *tracer, pid_t pid, bool *existed)
{
	int map_fd = bpf_map__fd(tracer->skel->maps.perfx_traced_tgids);
	struct perfx_traced_process traced = {.tensor_layouts = PERFX_TENSOR_LAYOUTS_ALL};
	uint32_t key = (uint32_t)pid, process = pop_free(tracer, PERFX_ID_PROCESS);
	int err;

	if (existed)
		*existed = false;
	/* as new_process() in bpf/process.bpf.c */
	if (!process && tracer__processes_count(tracer) <= PERFX_MAX_PROCESS_INDICES)
		process = __sync_fetch_and_add(&tracer->skel->data->perfx_next_process, 1);
	if (!process)
		return -ENOSPC;
	traced.process = traced.memory_process = traced.born = process;
	if (!bpf_map_update_elem(map_fd, &key, &traced, BPF_NOEXIST))
		return process;
	err = -errno;
	tracer__give(tracer, PERFX_ID_PROCESS, process); /* nobody has seen it */
	if (err != -EEXIST)
		return err;
	/* the program of fork was first */
	if (bpf_map_lookup_elem(map_fd, &key, &traced))
		return -errno;
	if (existed)
		*existed = true;
	return traced.process;
}

int tracer__remove_process(struct tracer *tracer, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	return bpf_map_delete_elem(bpf_map__fd(tracer->skel->maps.perfx_traced_tgids), &key)
		       ? -errno
		       : 0;
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

size_t tracer__drain_declined(struct tracer *tracer, uint32_t probes[PERFX_DECLINED_PLACES])
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
		.cache_fd = bpf_map__fd(skel->maps.perfx_unwind_cache),
		.requests_fd = bpf_map__fd(skel->maps.perfx_unwind_requests),
	};
}

void tracer__unwind_rows_dropped(struct tracer *tracer)
{
	__atomic_add_fetch(&tracer->skel->bss->perfx_unwind_drops, 1, __ATOMIC_SEQ_CST);
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

void tracer__set_python_state(struct tracer *tracer, pid_t pid, uint64_t thread_id, uint64_t state)
{
	struct perfx_python_state key = {.thread_id = thread_id, .tgid = (uint32_t)pid};

	if (!bpf_map_update_elem(bpf_map__fd(tracer->skel->maps.perfx_python_states), &key, &state,
				 BPF_ANY))
		tracer->skel->bss->perfx_python_states_count++;
}

void tracer__expect_many_stacks(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_many_stacks, 1, __ATOMIC_SEQ_CST);
}

/*
 * The programs' state of a thread is allocated at its first hit, where the kernel must not sleep,
 * and charged to the control group of the tracer. If the group is at its limit because of the page
 * cache, the allocation fails, and the thread's calls are not timed, until an allocation that may
 * sleep has reclaimed memory. So the tracer makes such an allocation, by a map, and frees it. Where
 * nothing can be reclaimed, the map is refused; touching pages would have a process killed.
 */

/* Of some two hundred threads; the kernel takes 2 ms to fill it with zeros. */
#define ROOM_VALUE_BYTES 4096
#define ROOM_VALUES	 2048

/* The counter grows for other reasons, too, against which this does not help. */
#define ROOM_TRIES_MAX 100

void tracer__make_room(struct tracer *tracer)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "perfx_room", sizeof(uint32_t),
				ROOM_VALUE_BYTES, ROOM_VALUES, NULL);

	if (fd >= 0)
		close(fd);
	tracer->room_tries++;
}

void tracer__renew_room(struct tracer *tracer)
{
	uint64_t full = tracer__counter(tracer, PERFX_COUNTER_MAP_FULL) +
			tracer__counter(tracer, PERFX_COUNTER_STATELESS_CALLS);

	if (full > tracer->room_lacked && tracer->room_tries < ROOM_TRIES_MAX)
		tracer__make_room(tracer);
	tracer->room_lacked = full;
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

void tracer__observe(struct tracer *tracer, bool on)
{
	/* calls that are open now are not known to go on */
	__atomic_add_fetch(&tracer->skel->bss->perfx_recording_windows, 1ull << 32,
			   __ATOMIC_SEQ_CST);
	__atomic_store_n(&tracer->skel->bss->perfx_tracing, on, __ATOMIC_SEQ_CST);
}

bool tracer__stop(struct tracer *tracer, uint32_t kept_from)
{
	const struct bpf_link *at_end = tracer->skel->links.perfx_at_end;

	__atomic_store_n(&tracer->skel->bss->perfx_ending, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&tracer->skel->bss->perfx_tracing, 0, __ATOMIC_SEQ_CST);
	tracer->skel->bss->perfx_timeline_end_ns = clock_monotonic_ns();
	/* before the links go: ends the calls that threads have left without passing an exit */
	if (at_end)
		link_iterate(bpf_link__fd(at_end));
	if (links__end(tracer->links, kept_from))
		return true;
	tracer_wait_for_programs(tracer);
	return false;
}

void tracer__abandon(struct tracer *tracer)
{
	__atomic_store_n(&tracer->skel->bss->perfx_tracing, 0, __ATOMIC_SEQ_CST);
	links__detach_later(tracer->links);
}

struct bpf_map *tracer_sum_map(const struct tracer *tracer, enum perfx_kind kind)
{
	char name[64];

	if (!record_sums(kind))
		return NULL;
	snprintf(name, sizeof(name), "perfx_sum_%s", name_of_kind(kind));
	return bpf_object__find_map_by_name(tracer->skel->obj, name);
}

/* Sums that one system call reads: many times as fast as a call for each sum. */
#define SUMS_BATCH 1024

static void visit_sums(const struct bpf_map *map, enum perfx_kind kind,
		       void (*visit)(void *ctx, struct perfx_sums *record), void *ctx)
{
	uint16_t size = (uint16_t)bpf_map__value_size(map);
	struct perfx_sum_key *keys = malloc(SUMS_BATCH * sizeof(*keys));
	unsigned char *records = malloc((size_t)SUMS_BATCH * size);
	int err = keys && records ? 0 : -ENOMEM;
	uint64_t batch = 0;

	for (bool first = true; !err; first = false) {
		uint32_t count = SUMS_BATCH;

		err = bpf_map_lookup_batch(bpf_map__fd(map), first ? NULL : &batch, &batch, keys,
					   records, &count, NULL);
		if (err && err != -ENOENT) /* ENOENT: these are the last */
			break;
		for (uint32_t i = 0; i < count; i++) {
			struct perfx_sums *record = (void *)(records + (size_t)i * size);

			record->hdr =
				(struct perfx_record){.size = size, .kind = kind, .fixed = size};
			visit(ctx, record);
		}
	}
	free(keys);
	free(records);
}

void tracer__each_sums(const struct tracer *tracer,
		       void (*visit)(void *ctx, struct perfx_sums *record), void *ctx)
{
	for (enum perfx_kind kind = 1; kind < PERFX_KINDS; kind++) {
		const struct bpf_map *map = tracer_sum_map(tracer, kind);

		if (map)
			visit_sums(map, kind, visit, ctx);
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

int tracer__major_fault_fd(const struct tracer *tracer)
{
	return bpf_program__fd(tracer->skel->progs.perfx_on_major_fault);
}

int tracer__off_cpu_fd(const struct tracer *tracer)
{
	return bpf_program__fd(tracer->skel->progs.perfx_sample_off_cpu);
}

int tracer__dump_fd(const struct tracer *tracer)
{
	return bpf_program__fd(tracer->skel->progs.perfx_dump_thread);
}

void tracer__begin_dump(struct tracer *tracer, bool fair)
{
	tracer->skel->bss->perfx_fair = fair;
	__atomic_add_fetch(&tracer->skel->bss->perfx_dump, 1, __ATOMIC_SEQ_CST);
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

uint64_t tracer__counter(const struct tracer *tracer, enum perfx_counter which)
{
	uint32_t key = which;
	uint64_t sum = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_counters), &key,
				tracer->percpu))
		return 0;
	for (int i = 0; i < tracer->cpus_count; i++)
		sum += tracer->percpu[i];
	return sum;
}

uint64_t tracer__hits(const struct tracer *tracer, uint32_t probe)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < tracer->cpus_count; cpu++)
		sum += __atomic_load_n(&tracer->hits[(size_t)cpu * tracer->probes_max + probe],
				       __ATOMIC_RELAXED);
	return sum;
}

const struct perfx_context_node *tracer__contexts(const struct tracer *tracer, uint32_t *count)
{
	uint32_t next = __atomic_load_n(&tracer->skel->data->perfx_next_context, __ATOMIC_ACQUIRE);

	*count = next < tracer->contexts_max ? next : tracer->contexts_max;
	return tracer->contexts;
}

size_t tracer__name_shares(const struct tracer *tracer, struct perfx_name_share *shares,
			   size_t count_max)
{
	int fd = bpf_map__fd(tracer->skel->maps.perfx_name_shares);
	uint32_t process, *after = NULL;
	size_t count = 0;

	for (; count < count_max && !bpf_map_get_next_key(fd, after, &process); after = &process)
		if (!bpf_map_lookup_elem(fd, &process, &shares[count]) && shares[count].refused)
			count++;
	return count;
}

const struct perfx_name *tracer__names(const struct tracer *tracer, uint32_t *count)
{
	uint32_t next = __atomic_load_n(&tracer->skel->bss->perfx_next_name, __ATOMIC_ACQUIRE);

	*count = next < PERFX_MAX_NAMES ? next : PERFX_MAX_NAMES;
	return tracer->names;
}

const struct perfx_gpu_sum *tracer__gpu_sums(const struct tracer *tracer, uint32_t *count)
{
	uint32_t next = __atomic_load_n(&tracer->skel->data->perfx_next_gpu_sum, __ATOMIC_ACQUIRE);

	*count = next < PERFX_MAX_GPU_SUMS ? next : PERFX_MAX_GPU_SUMS;
	return tracer->gpu_sums;
}

const struct perfx_files_seen *tracer__files_seen(const struct tracer *tracer, uint32_t *next)
{
	*next = __atomic_load_n(&tracer->skel->data->perfx_next_file_group, __ATOMIC_ACQUIRE);
	return tracer->files_seen;
}

bool tracer__kernel_name(const struct tracer *tracer, uint64_t hash, struct perfx_kernel_name *name)
{
	return !bpf_map_lookup_elem(bpf_map__fd(tracer->skel->maps.perfx_kernel_names), &hash,
				    name);
}

uint32_t tracer__processes_count(const struct tracer *tracer)
{
	return __atomic_load_n(&tracer->skel->data->perfx_next_process, __ATOMIC_ACQUIRE);
}

uint64_t tracer__recording_windows(const struct tracer *tracer)
{
	return __atomic_load_n(&tracer->skel->bss->perfx_recording_windows, __ATOMIC_ACQUIRE);
}

uint64_t tracer__missed(const struct tracer *tracer)
{
	const struct bpf_object_skeleton *skeleton = tracer->skel->skeleton;
	uint64_t missed = 0;

	for (int i = 0; i < skeleton->prog_cnt; i++) {
		struct bpf_prog_info info = {0};
		uint32_t size = sizeof(info);
		int fd = bpf_program__fd(*skeleton->progs[i].prog);

		if (fd >= 0 && !bpf_prog_get_info_by_fd(fd, &info, &size))
			missed += info.recursion_misses;
	}
	return missed;
}

/* All accounted runs of a program; 0 if it is not loaded. */
static struct accounted_runs runs_of_program(const struct bpf_program *program)
{
	int fd = bpf_program__fd(program);
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	if (fd < 0 || bpf_prog_get_info_by_fd(fd, &info, &size))
		return (struct accounted_runs){0};
	return (struct accounted_runs){.count = info.run_cnt, .ns = info.run_time_ns};
}

struct accounted_runs tracer__runs(const struct tracer *tracer, enum tracer_program which)
{
	return runs_of_program(tracer_program_of(tracer, which));
}

uint64_t tracer__background_events(const struct tracer *tracer, enum tracer_background which)
{
	return which == TRACER_SAMPLES ? tracer__counter(tracer, PERFX_COUNTER_SAMPLES)
				       : tracer->skel->bss->perfx_runnable.waits_count;
}

struct background tracer__background(const struct tracer *tracer, enum tracer_background which)
{
	const struct perfx_bpf *skel = tracer->skel;
	const struct bpf_program *const programs[TRACER_BACKGROUNDS][4] = {
		[TRACER_SAMPLES] = {skel->progs.perfx_sample_on_cpu},
		[TRACER_SWITCHES] = {skel->progs.perfx_on_switch, skel->progs.perfx_on_waking,
				     skel->progs.perfx_on_wakeup, skel->progs.perfx_on_wakeup_new},
	};
	struct background background = {.events_count = tracer__background_events(tracer, which)};

	for (size_t i = 0; i < 4 && programs[which][i]; i++) {
		struct accounted_runs runs = runs_of_program(programs[which][i]);

		background.runs.count += runs.count;
		background.runs.ns += runs.ns;
	}
	return background;
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

static int ignore_record(void *ctx, void *data, size_t size)
{
	(void)ctx;
	(void)data;
	(void)size;
	return 0;
}

static void empty_rings(const struct tracer_rings *rings)
{
	struct ring_buffer *buffers = tracer_rings_reader(rings, ignore_record, NULL);

	if (buffers)
		ring_buffer__consume(buffers);
	ring_buffer__free(buffers);
}

static void empty_hash(struct bpf_map *map, size_t key_size)
{
	unsigned char key[32];

	assert(key_size <= sizeof(key) && key_size == bpf_map__key_size(map));
	while (!bpf_map_get_next_key(bpf_map__fd(map), NULL, key))
		if (bpf_map_delete_elem(bpf_map__fd(map), key))
			break;
}

void tracer__reset(struct tracer *tracer)
{
	struct perfx_bpf *skel = tracer->skel;

	empty_hash(skel->maps.perfx_context_ids, sizeof(uint32_t[4]) + sizeof(uint64_t));
	memset(tracer->contexts, 0, skel->data->perfx_next_context * sizeof(*tracer->contexts));
	skel->data->perfx_next_context = 1;
	skel->data->perfx_next_process = 1;
	skel->data->perfx_next_function = 1;
	memset(tracer->percpu, 0, (size_t)tracer->cpus_count * sizeof(*tracer->percpu));
	for (uint32_t key = 0; key < PERFX_COUNTERS; key++)
		bpf_map_update_elem(bpf_map__fd(skel->maps.perfx_counters), &key, tracer->percpu,
				    BPF_ANY);
	for (int cpu = 0; cpu < tracer->cpus_count; cpu++)
		memset(&tracer->hits[(size_t)cpu * tracer->probes_max], 0,
		       tracer->probes_count * sizeof(*tracer->hits));
	empty_rings(&tracer->spans);
	empty_rings(&tracer->memory);
	empty_hash(skel->maps.perfx_stack_ids, sizeof(uint64_t[2]));
	skel->data->perfx_next_stack = 1;
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
