// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process's use of GPUs:
 *
 *     GPU
 *     busy 621 ms (62.1 %) · 5,000 launches · launch latency p50 12.0 µs, p99 4.00 ms
 *     device 0, NVIDIA H100 80GB HBM3: utilization 62 % (max 95 %) · memory 12.3 GiB …
 *
 *     Share    Total   Calls  Avg  p99  Occupancy  Kernel                Launched by
 *     40.1 %  249 ms   1,000  …                    ampere_sgemm_128x64   at::_ops::mm::call
 */
#include "analyze/location.h"
#include "analyze/roofline.h"
#include "base/escape.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"

static void compose_summary(struct composer *c, const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;
	uint64_t communicating_ns = 0, exposed_ns = 0;
	struct gpu_rates rates = gpu_rates(p);
	struct text text = {0};

	for (size_t i = 0; i < gpu->places_count; i++) {
		const struct profile_gpu_place *place = &gpu->places[i];

		communicating_ns +=
			place->communicating_ns == PROFILE_ABSENT ? 0 : place->communicating_ns;
		exposed_ns += place->exposed_ns == PROFILE_ABSENT ? 0 : place->exposed_ns;
	}
	if (gpu->busy_ns != PROFILE_ABSENT)
		text_printf(&text, "busy %s (%s)", as_ns(gpu->busy_ns),
			    as_percent((double)gpu->busy_ns / (double)(profile_wall_ns(p) ?: 1)));
	if (gpu->launches_count)
		text_printf(&text, "%s%s%s launch%s", text.length ? " · " : "",
			    gpu->called_until_ns ? "at least " : "", as_count(gpu->launches_count),
			    gpu->launches_count == 1 ? "" : "es");
	if (gpu->latency_p50_ns != PROFILE_ABSENT)
		text_printf(&text, " · from launch to start p50 %s, p99 %s",
			    as_ns(gpu->latency_p50_ns), as_ns(gpu->latency_p99_ns));
	if (gpu->syncs_count)
		text_printf(&text, "%swaited %s%s for it (threads added up)",
			    text.length ? " · " : "", gpu->called_until_ns ? "at least " : "",
			    as_ns(gpu->wait_ns));
	if (communicating_ns)
		text_printf(&text, " · communication %s, %s of it exposed (nothing computed then)",
			    as_ns(communicating_ns), as_ns(exposed_ns));
	if (rates.flops_per_s >= 0)
		text_printf(&text, " · %s while kernels ran", as_si(rates.flops_per_s, "FLOP/s"));
	if (rates.flops_per_s >= 0 && rates.mfu >= 0)
		text_printf(&text, " · model FLOPs utilization (MFU) %s of %s (%s)",
			    as_percent(rates.mfu), as_si(gpu->peak_flops_per_s, "FLOP/s"),
			    name_of_dtype(gpu->dtype));
	document_add_any(c->document, BLOCK_PARAGRAPH, &text);
}

static void add_permille(struct text *text, const char *title,
			 const struct profile_gpu_series *metric)
{
	if (metric->avg != PROFILE_ABSENT)
		text_printf(text, " · %s %s", title, as_percent((double)metric->avg / 1000));
}

static void compose_device(struct composer *c, const struct profile_gpu_place *place)
{
	const struct profile_gpu_device *device = place->device;
	const struct profile_gpu_series *metrics = device->metrics;
	const struct profile_gpu_series *used = &metrics[PROFILE_GPU_MEMORY_USED];
	uint64_t throttled = profile_gpu_throttled_count(device);
	const char *separator = " of samples (";
	struct text text = {0};

	text_printf(&text, "device %u", device->index);
	add_marked(&text, ", ", device->name, "");
	if (metrics[PROFILE_GPU_UTILISATION].avg != PROFILE_ABSENT)
		text_printf(&text, " · utilization %llu %% (max %llu %%)",
			    (unsigned long long)metrics[PROFILE_GPU_UTILISATION].avg,
			    (unsigned long long)metrics[PROFILE_GPU_UTILISATION].max);
	if (used->max != PROFILE_ABSENT) {
		text_printf(&text, " · memory %s at most", as_bytes(used->max));
		if (device->facts.memory_bytes)
			text_printf(&text, " of %s", as_bytes(device->facts.memory_bytes));
	}
	if (place->memory_bytes.max != PROFILE_ABSENT)
		text_printf(&text, ", by this process %s", as_bytes(place->memory_bytes.max));
	if (metrics[PROFILE_GPU_POWER].avg != PROFILE_ABSENT)
		text_printf(&text, " · %.0f W on average",
			    (double)metrics[PROFILE_GPU_POWER].avg / 1000);
	if (metrics[PROFILE_GPU_SM_CLOCK].avg != PROFILE_ABSENT)
		text_printf(&text, " · %llu MHz",
			    (unsigned long long)metrics[PROFILE_GPU_SM_CLOCK].avg);
	add_permille(&text, "SMs active", &metrics[PROFILE_GPU_SM_ACTIVE]);
	add_permille(&text, "tensor cores active", &metrics[PROFILE_GPU_TENSOR_ACTIVE]);
	add_permille(&text, "memory active", &metrics[PROFILE_GPU_DRAM_ACTIVE]);
	/* " · clocks lowered in 12.0 % of samples (power cap, thermal)" */
	if (throttled)
		text_printf(&text, " · clocks lowered in %s",
			    as_percent((double)throttled / (double)device->throttle_samples_count));
	for (unsigned i = 0; throttled && i < PROFILE_GPU_THROTTLES; i++) {
		if (!device->throttled_counts[i])
			continue;
		text_printf(&text, "%s%s", separator, profile_gpu_throttle_name(i));
		separator = ", ";
	}
	text_add(&text, throttled ? ")" : "");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

/* Why the recording of the GPU is incomplete. */
static void compose_agent(struct composer *c, const struct profile_gpu *gpu)
{
	static const char *const words[] = {
		[PERFX_GPU_AGENT_REFUSED] = "No times of the GPU: ",
		[PERFX_GPU_AGENT_STEPPED_ASIDE] = "Recording of the GPU ended early: ",
		[PERFX_GPU_AGENT_FAILED] = "Recording of the GPU failed: ",
		[PERFX_GPU_AGENT_STOPPED] = NULL,
	};
	const char *ended =
		gpu->state < sizeof(words) / sizeof(words[0]) ? words[gpu->state] : NULL;
	struct text text = {0};

	if (!gpu->has_state || gpu->state == PERFX_GPU_AGENT_ON ||
	    (gpu->state == PERFX_GPU_AGENT_STOPPED && !gpu->left_mapped_bytes))
		return;
	if (ended)
		add_marked(&text, ended, *gpu->why ? gpu->why : "not known", ".");
	if (gpu->left_mapped_bytes)
		text_printf(&text, "%s%s of the recording library stay mapped in the process.",
			    text.length ? " " : "", as_bytes(gpu->left_mapped_bytes));
	document_add(c->document, BLOCK_NOTE, &text);
}

enum { HAS_TIMES = 1 };

/* "at::_ops::mm::call, train (train.py:41)": the function and the Python line that led there */
static const char *cell_caller(struct composer *c, const struct profile_process *p,
			       uint32_t function, const struct profile_frame *line)
{
	struct text cell = {0};

	if (function)
		compose_function_name(c, p, function, &cell);
	if (line) {
		text_add(&cell, function ? ", " : "");
		location_place(&cell, line);
	}
	if (!cell.length)
		text_add(&cell, "-");
	return document_words(c->document, &cell);
}

/* "100×1×1" */
static const char *cell_shape(struct composer *c, const uint32_t shape[3])
{
	if (!shape[0])
		return "-";
	if (shape[2] > 1)
		return document_format(c->document, "%u×%u×%u", shape[0], shape[1], shape[2]);
	return document_format(c->document, shape[1] > 1 ? "%u×%u" : "%u", shape[0], shape[1]);
}

static void compose_kernels(struct composer *c, const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;

	if (!gpu->kernels_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Kernels");
	document_headings(c->document, gpu->timed ? HAS_TIMES : 0,
			  NUMBERS("Share", .where = HAS_TIMES),
			  NUMBERS("Total", .where = HAS_TIMES), NUMBERS("Calls"),
			  NUMBERS("Avg", .where = HAS_TIMES),
			  NUMBERS("p99", .rank = 1, .where = HAS_TIMES), NUMBERS("Grid", .rank = 3),
			  NUMBERS("Block", .rank = 3), NUMBERS("Registers", .rank = 5),
			  NUMBERS("Shared", .rank = 5),
			  NUMBERS("Occupancy", .rank = 2, .where = HAS_TIMES),
			  NUMBERS("Stream", .rank = 6, .where = HAS_TIMES), REST("Kernel"),
			  WORDS("Launched by", .rank = 1));
	for (size_t i = 0; i < gpu->kernels_count && i < c->limits->functions; i++) {
		const struct profile_gpu_kernel *kernel = &gpu->kernels[i];

		document_row(c->document, cell_share(kernel->total_ns, gpu->kernel_ns),
			     cell_ns(kernel->total_ns), cell_count(kernel->count),
			     cell_ns(kernel->avg_ns), cell_ns(kernel->p99_ns),
			     cell_shape(c, kernel->grid), cell_shape(c, kernel->block),
			     cell_count(kernel->registers ?: PROFILE_ABSENT),
			     cell_bytes(kernel->shared_bytes),
			     kernel->occupancy < 0 ? "-" : as_percent(kernel->occupancy),
			     cell_count(kernel->stream == UINT32_MAX ? PROFILE_ABSENT
								     : kernel->stream),
			     kernel->other ? "(other kernels)" : compose_name(c, kernel->name),
			     cell_caller(c, p, kernel->function, NULL));
	}
	if (gpu->kernels_count > c->limits->functions)
		compose_left_out(c, gpu->kernels_count - c->limits->functions, "",
				 compose_larger(c));
}

static void compose_copies(struct composer *c, const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;

	if (!gpu->copies_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Copies");
	document_headings(c->document, gpu->timed ? HAS_TIMES : 0, WORDS("Copy"),
			  WORDS("Host memory"), NUMBERS("Bytes"), NUMBERS("Calls", .rank = 1),
			  NUMBERS("Time", .rank = 3, .where = HAS_TIMES),
			  NUMBERS("Rate", .rank = 2, .where = HAS_TIMES), REST("Called by"));
	for (size_t i = 0; i < gpu->copies_count; i++) {
		const struct profile_gpu_copy *copy = &gpu->copies[i];

		document_row(c->document, copy_words(copy->op, copy->direction),
			     host_memory_words(copy->host_memory), cell_bytes(copy->bytes),
			     cell_count(copy->count), cell_ns(copy->total_ns),
			     copy->total_ns
				     ? as_si((double)copy->bytes * 1e9 / (double)copy->total_ns,
					     "B/s")
				     : "-",
			     cell_caller(c, p, copy->function, copy->line));
	}
}

static void compose_syncs(struct composer *c, const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;

	if (!gpu->syncs_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Waits for the GPU");
	document_headings(c->document, 0, NUMBERS("Waited"), NUMBERS("Calls", .rank = 1),
			  NUMBERS("Avg", .rank = 2), WORDS("Function"), REST("Called by"));
	for (size_t i = 0; i < gpu->syncs_count && i < c->limits->functions; i++) {
		const struct profile_gpu_sync *sync = &gpu->syncs[i];

		document_row(c->document, cell_ns(sync->wait_ns), cell_count(sync->count),
			     sync->count ? cell_ns(sync->wait_ns / sync->count) : "-",
			     compose_name(c, sync->name),
			     cell_caller(c, p, sync->function, sync->line));
	}
}

#define GAPS_SHOWN 5

/* "thread 10 in load_batch (data.py:18)" */
static const char *cell_gap(struct composer *c, const struct profile_process *p,
			    const struct profile_gpu_gap *gap)
{
	const struct profile_frame *frame = stack_line(gap->stack);
	struct text cell = {0};

	if (gap->function)
		compose_function_name(c, p, gap->function, &cell);
	else
		text_add(&cell, gap->tid ? "no traced call" : "-");
	if (frame) {
		struct text place = {0};

		location_frame(&place, frame, LOCATION_BRIEF);
		text_add(&cell, ", sampled in ");
		escape_name(&cell, text_peek(&place));
		text_finish(&place, &cell.failed);
	}
	return document_words(c->document, &cell);
}

static void compose_gaps(struct composer *c, const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;

	if (!gpu->gaps_count)
		return;
	document_say(c->document, BLOCK_CAPTION, "Longest times without work on the GPU");
	document_headings(c->document, 0, NUMBERS("Idle"), NUMBERS("At"),
			  NUMBERS("Device", .rank = 2), NUMBERS("Thread", .rank = 1),
			  REST("The launching thread meanwhile"));
	for (size_t i = 0; i < gpu->gaps_count && i < GAPS_SHOWN; i++) {
		const struct profile_gpu_gap *gap = &gpu->gaps[i];

		document_row(c->document, cell_ns(gap->to_ns - gap->from_ns),
			     cell_ns(profile_since_start(c->profile, gap->from_ns)),
			     cell_count(gap->device),
			     document_format(c->document, gap->tid ? "%u" : "-", gap->tid),
			     cell_gap(c, p, gap));
	}
}

static void compose_limits(struct composer *c, const struct profile_gpu *gpu)
{
	struct text text = {0};

	if (gpu->timed && gpu->overflow_count)
		text_printf(&text,
			    "%s of %s activities are known as sums only (--gpu-max-events): they "
			    "are in the tables, not in busy time, gaps and functions. ",
			    as_count(gpu->overflow_count),
			    as_count(gpu->overflow_count + gpu->activities_count));
	if (gpu->timed && gpu->unlinked_count)
		text_printf(&text, "The caller of %s of %s activities is not known. ",
			    as_count(gpu->unlinked_count), as_count(gpu->activities_count));
	if (gpu->dropped_count)
		text_printf(&text, "%s records of the GPU were dropped. ",
			    as_count(gpu->dropped_count));
	if (gpu->called_until_ns)
		text_printf(&text,
			    "Launches, copies and waits are counted in full until %s only: then "
			    "the overhead budget removed probes on them (--max-overhead). ",
			    as_ns(profile_since_start(c->profile, gpu->called_until_ns)));
	if (!gpu->timed && gpu->launches_count)
		text_add(&text, "Launches and copies are counted at their calls; --gpu 1 also "
				"records how long kernels run. ");
	if (text.length)
		text.data[--text.length] = '\0'; /* the last space */
	document_add_any(c->document, BLOCK_NOTE, &text);
}

void compose_gpu(struct composer *c, const struct profile_process *p)
{
	const struct profile_gpu *gpu = &p->gpu;

	if (!gpu->used)
		return;
	document_say(c->document, BLOCK_SECTION, "GPU");
	compose_summary(c, p);
	for (size_t i = 0; i < gpu->places_count; i++)
		compose_device(c, &gpu->places[i]);
	if (gpu->places_count && !gpu->places_known)
		document_say(c->document, BLOCK_NOTE,
			     "Which of these devices the process uses is not known.");
	compose_agent(c, gpu);
	if (c->limits->charts)
		document_add_chart(c->document, (struct chart){.kind = CHART_GPU, .process = p});
	compose_kernels(c, p);
	if (c->limits->brief) {
		compose_syncs(c, p);
		return;
	}
	compose_details(c, "Copies, waits and idle times of the GPU");
	compose_copies(c, p);
	compose_syncs(c, p);
	compose_gaps(c, p);
	compose_details_end(c);
	compose_limits(c, gpu);
}

void compose_steps_gpu(struct composer *c, const struct profile_steps *steps)
{
	const struct profile_step_gpu *gpu = &steps->gpu;
	struct text text = {0};

	if (!steps->gpu_used || !steps->total_ns)
		return;
	if (gpu->busy_ns != PROFILE_ABSENT)
		text_printf(&text, "GPU per step: busy %s (%s), %s kernels",
			    as_ns(gpu->busy_ns / steps->count),
			    as_percent((double)gpu->busy_ns / (double)steps->total_ns),
			    as_count(gpu->kernels_count / steps->count));
	if (gpu->wait_ns != PROFILE_ABSENT)
		text_printf(&text, "%s %s (%s)",
			    text.length ? " · the thread waited for it"
					: "Waited for the GPU per step:",
			    as_ns(gpu->wait_ns / steps->count),
			    as_percent((double)gpu->wait_ns / (double)steps->total_ns));
	document_add_any(c->document, BLOCK_PARAGRAPH, &text);
}
