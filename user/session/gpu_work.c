// SPDX-License-Identifier: BSD-2-Clause
/*
 * GPU work that traced calls submit, as records: GPU_LAUNCHES, GPU_COPIES, GPU_NAME. The BPF
 * programs keep the sums (bpf/gpu.bpf.h); this file names the kernels.
 *
 * A kernel that is known by the address of its host stub gets that function's name. The mapping at
 * the address is recorded when the first sum is sent, at most a second after the launch; names are
 * looked up at the end, all of a file at a time (session/frames.h says why). A kernel that is known
 * by its handle alone, because it got the handle before tracing began, is "kernel at 0x7f…".
 */
#include "session/recording.h"

#include "attach/tracer.h"
#include "base/emitted.h"
#include "base/grow.h"
#include "base/order.h"
#include "gpu/gpu_names.h"
#include "session/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A kernel that has no name yet: an address in a process, of its host stub or its handle. */
struct kernel {
	uint64_t address;
	uint32_t process;
	uint32_t name;
	struct code_place place;
	uint64_t vaddr; /* in the file; gpu_work__name knows */
	bool is_located, is_named;
};

struct gpu_work {
	const struct recording *recording;
	struct emitted emitted;		      /* count and bytes, by index */
	uint32_t name_of[PERFX_MAX_GPU_SUMS]; /* by index; 0: not asked yet, or none */
	struct map64 by_hash;		      /* names of kernels that have one in the kernel */
	struct map64 by_graph, by_address;    /* by key_of(): names, indices of kernels */
	struct kernel *kernels;
	size_t kernels_count, kernels_capacity;
	size_t named_count; /* of them, from the first on */
	struct pack_buffer buffer;
};

/* An address in a process: 47 bits. */
static uint64_t key_of(const struct perfx_gpu_key *key)
{
	return key->kernel ^ (uint64_t)key->process << 48;
}

static void send_address(struct gpu_work *work, uint32_t name, const char *what, uint64_t address,
			 const char *module)
{
	char text[64];

	snprintf(text, sizeof(text), "%s at 0x%" PRIx64, what, address);
	gpu_names__emit(work->recording->gpu_names, name, text, module, PERFX_GPU_NAME_UNKNOWN);
}

/* Its name is sent later. */
static uint32_t name_by_address(struct gpu_work *work, const struct perfx_gpu_key *key)
{
	uint32_t index = map64_get(&work->by_address, key_of(key));
	struct kernel *kernel;

	if (index != MAP64_NONE)
		return work->kernels[index].name;
	if (GROW_BY_ONE(work->kernels) ||
	    map64_put(&work->by_address, key_of(key), (uint32_t)work->kernels_count))
		return 0;
	kernel = &work->kernels[work->kernels_count++];
	*kernel = (struct kernel){.address = key->kernel,
				  .process = key->process,
				  .name = gpu_names__reserve(work->recording->gpu_names)};
	kernel->is_located = frames__locate(work->recording->frames, kernel->process,
					    kernel->address, &kernel->place);
	return kernel->name;
}

static uint32_t name_of(struct gpu_work *work, const struct perfx_gpu_key *key)
{
	struct gpu_names *names = work->recording->gpu_names;
	struct perfx_kernel_name text;
	uint32_t name;

	if (!key->kernel)
		return 0;
	if (key->op == PERFX_GPU_OP_GRAPH) {
		name = map64_get(&work->by_graph, key_of(key));
		if (name != MAP64_NONE)
			return name;
		name = gpu_names__reserve(names);
		if (map64_put(&work->by_graph, key_of(key), name))
			return 0;
		send_address(work, name, "graph", key->kernel, "");
		return name;
	}
	if (!key->is_named)
		return name_by_address(work, key);
	/* the name that the program gave when it asked for the kernel's handle */
	name = map64_get(&work->by_hash, key->kernel);
	if (name != MAP64_NONE)
		return name;
	if (!tracer__kernel_name(work->recording->tracer, key->kernel, &text))
		return 0;
	name = gpu_names__id(names, text.text, "", 0);
	map64_put(&work->by_hash, key->kernel, name);
	return name;
}

static void emit_sum(struct gpu_work *work, uint32_t index, const struct perfx_gpu_sum *sum)
{
	const struct perfx_gpu_key *key = &sum->key;
	/* the kernel adds the bytes first: a copy that it counts meanwhile comes the next time */
	uint64_t sums[2] = {__atomic_load_n(&sum->count, __ATOMIC_ACQUIRE), sum->bytes};
	struct perfx_gpu_copies copies = {.process = key->process,
					  .context = key->context,
					  .op = key->op,
					  .direction = key->direction};
	struct perfx_gpu_launches launches = {.process = key->process,
					      .context = key->context,
					      .dynamic_shared_bytes = key->shared_bytes,
					      .grid = {key->grid[0], key->grid[1], key->grid[2]},
					      .block = {key->block[0], key->block[1],
							key->block[2]},
					      .op = key->op};

	emitted_subtract(&work->emitted, index, sums);
	if (!sums[0] || emitted_add(&work->emitted, index, sums))
		return;
	if (key->op == PERFX_GPU_OP_COPY || key->op == PERFX_GPU_OP_MEMSET) {
		copies.count = sums[0];
		copies.bytes = sums[1];
		SINK_PACK(work->recording->sink, &work->buffer, PERFX_KIND_GPU_COPIES, copies);
		return;
	}
	if (!work->name_of[index])
		work->name_of[index] = name_of(work, key);
	launches.name = work->name_of[index];
	launches.count = sums[0];
	SINK_PACK(work->recording->sink, &work->buffer, PERFX_KIND_GPU_LAUNCHES, launches);
}

void gpu_work__emit(struct gpu_work *work)
{
	uint32_t count;
	const struct perfx_gpu_sum *sums = tracer__gpu_sums(work->recording->tracer, &count);

	for (uint32_t index = 1; index < count; index++)
		emit_sum(work, index, &sums[index]);
}

ORDER(compare_places, typeof(struct kernel *), DESCENDING((*a)->is_located, (*b)->is_located),
      ASCENDING((*a)->place.file, (*b)->place.file),
      ASCENDING((*a)->place.offset, (*b)->place.offset))

/* The kernels of one file, by address. */
struct batch {
	struct gpu_work *work;
	const char *module;
	struct kernel **kernels;
	size_t count;
};

static int offer_symbol(const struct symbol *symbol, void *ctx)
{
	const struct batch *batch = ctx;
	uint64_t end = symbol->vaddr + (symbol->size ? symbol->size : 1);
	size_t first = PARTITION_POINT(i, batch->count, batch->kernels[i]->vaddr < symbol->vaddr);

	for (size_t i = first; i < batch->count && batch->kernels[i]->vaddr < end; i++) {
		if (batch->kernels[i]->is_named)
			continue;
		batch->kernels[i]->is_named = true;
		gpu_names__emit(batch->work->recording->gpu_names, batch->kernels[i]->name,
				symbol->name, batch->module, 0);
	}
	return 0;
}

static void name_batch(struct batch *batch)
{
	uint32_t file = batch->kernels[0]->place.file;
	struct image *image = frames__image(batch->work->recording->frames, file);

	batch->module = frames__path(batch->work->recording->frames, file);
	for (size_t i = 0; image && i < batch->count; i++)
		batch->kernels[i]->vaddr =
			(uint64_t)image__vaddr(image, batch->kernels[i]->place.offset);
	if (image)
		image__each_function(image, offer_symbol, batch);
	image__free(image);
	for (size_t i = 0; i < batch->count; i++)
		if (!batch->kernels[i]->is_named)
			send_address(batch->work, batch->kernels[i]->name, "kernel",
				     batch->kernels[i]->address, batch->module);
}

void gpu_work__name(struct gpu_work *work)
{
	size_t count = work->kernels_count - work->named_count, end;
	struct kernel **kernels = count ? calloc(count, sizeof(*kernels)) : NULL;

	if (!kernels)
		return;
	for (size_t i = 0; i < count; i++) {
		struct kernel *kernel = &work->kernels[work->named_count + i];

		if (!kernel->is_located)
			kernel->is_located =
				frames__locate(work->recording->frames, kernel->process,
					       kernel->address, &kernel->place);
		kernels[i] = kernel;
	}
	/* by file; those without one last */
	qsort(kernels, count, sizeof(*kernels), compare_places);
	for (size_t i = 0; i < count; i = end) {
		struct batch batch = {.work = work, .kernels = kernels + i};

		for (end = i + 1;
		     end < count && kernels[i]->is_located && kernels[end]->is_located &&
		     kernels[end]->place.file == kernels[i]->place.file;
		     end++)
			;
		batch.count = end - i;
		if (kernels[i]->is_located)
			name_batch(&batch);
		else
			send_address(work, kernels[i]->name, "kernel", kernels[i]->address, "");
	}
	work->named_count = work->kernels_count;
	free(kernels);
}

static int open_gpu_work(struct recording *recording)
{
	struct gpu_work *work = calloc(1, sizeof(*work));

	recording->gpu_work = work;
	recording->gpu_names = gpu_names__new(recording->sink);
	if (!work || !recording->gpu_names)
		return -ENOMEM;
	work->recording = recording;
	work->emitted.width = 2;
	return 0;
}

static void close_gpu_work(struct recording *recording)
{
	struct gpu_work *work = recording->gpu_work;

	gpu_names__free(recording->gpu_names);
	if (!work)
		return;
	emitted_clear(&work->emitted);
	map64_clear(&work->by_hash);
	map64_clear(&work->by_graph);
	map64_clear(&work->by_address);
	free(work->kernels);
	free(work);
}

const struct recording_part gpu_work_part = {
	.name = "work of GPUs", .open = open_gpu_work, .close = close_gpu_work};
