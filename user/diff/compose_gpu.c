// SPDX-License-Identifier: BSD-2-Clause
/*
 * The use of GPUs in two recordings:
 *
 *     GPU
 *     busy 38.6 % → 52.1 % · launches/s 230 → 310 · waited for it 32.5 % → 20.0 % · 360 W → 380 W
 *
 *     Kernels
 *     Change  Ratio    Avg A    Avg B  Significant             Time      Calls/s  Kernel
 *     +20.0 %  1.20  15.0 ms  18.0 ms  slower       30.0 % → 36.0 %  20.0 → 20.0  sm90_xmma_gemm…
 */
#include "analyze/location.h"
#include "base/units.h"
#include "diff/internal.h"

#include <math.h>

static void add_watts(struct text *text, double watts)
{
	add_si(text, watts, "W");
}

static void add_bytes_per_s(struct text *text, double per_s)
{
	add_si(text, per_s, "B/s");
}

/* Numbers of the GPUs as a whole. */
static void compose_facts(struct comparer *c, const struct diff_gpu *gpu)
{
	struct text facts = {0};

	diff_add_fact(&facts, "busy", gpu->busy_share, add_share);
	diff_add_fact(&facts, "utilization", gpu->utilisation, add_share);
	diff_add_fact(&facts, "launches/s", gpu->launches_per_s, diff_add_rate);
	diff_add_fact(&facts, "from launch to start (p50)", gpu->latency_p50_ns, diff_add_time);
	diff_add_fact(&facts, "threads waited for it", gpu->wait_share, add_share);
	diff_add_fact(&facts, "exposed communication", gpu->exposed_share, add_share);
	diff_add_fact(&facts, "while kernels ran", gpu->flops_per_s, diff_add_flops);
	diff_add_fact(&facts, "of the GPU's peak (MFU)", gpu->mfu, add_share);
	diff_add_fact(&facts, "power", gpu->power_w, add_watts);
	if (!facts.length)
		return;
	document_say(c->document, BLOCK_CAPTION, "GPU");
	document_add(c->document, BLOCK_PARAGRAPH, &facts);
}

/* COUNTED: work was only counted at the calls, on both sides; then numbers are compared. */
enum { TIMED = 1, COUNTED = 2 };

static unsigned what_is_known(const struct diff_gpu *gpu, enum diff_gpu_table table)
{
	for (size_t i = 0; i < gpu->works_count; i++)
		if (diff_gpu_table(gpu->works[i].op) == table &&
		    !(isnan(gpu->works[i].avg_ns.a) && isnan(gpu->works[i].avg_ns.b)))
			return TIMED;
	return COUNTED;
}

static void compose_kernels(struct comparer *c, const struct diff_gpu *gpu)
{
	unsigned known = what_is_known(gpu, DIFF_GPU_KERNELS);
	size_t shown = 0;

	for (size_t i = 0; i < gpu->works_count && shown < c->functions; i++) {
		const struct diff_gpu_work *work = &gpu->works[i];
		const char *unjudged;

		if (diff_gpu_table(work->op) != DIFF_GPU_KERNELS)
			continue;
		if (!shown++) {
			document_say(c->document, BLOCK_CAPTION, "Kernels");
			document_headings(c->document, known, DIFF_CHANGE_COLUMNS,
					  NUMBERS("Avg A", .where = TIMED),
					  NUMBERS("Avg B", .where = TIMED),
					  WORDS("Significant", .where = TIMED),
					  NUMBERS("Time", .rank = 2, .where = TIMED),
					  NUMBERS("Calls/s", .rank = 4, .where = TIMED),
					  NUMBERS("Calls/s A", .where = COUNTED),
					  NUMBERS("Calls/s B", .where = COUNTED), REST("Kernel"));
		}
		/* Where durations are not known, the change is that of the calls in a second. */
		unjudged = work->in == (DIFF_IN_A | DIFF_IN_B) ? "too few calls"
			   : work->in == DIFF_IN_A	       ? "A only"
							       : "B only";
		document_row(c->document,
			     DIFF_CHANGE_CELLS(c,
					       known == TIMED ? work->avg_ns : work->calls_per_s),
			     DIFF_PAIR_CELLS(c, work->avg_ns, diff_add_time),
			     diff_cell_verdict(c, diff_time_word(work->time), work->time,
					       work->regressed, unjudged),
			     diff_cell_both(c, work->share, add_share),
			     diff_cell_both(c, work->calls_per_s, diff_add_rate),
			     DIFF_PAIR_CELLS(c, work->calls_per_s, diff_add_rate),
			     diff_name(c, work->name));
	}
}

static void compose_copies(struct comparer *c, const struct diff_gpu *gpu)
{
	unsigned known = what_is_known(gpu, DIFF_GPU_COPIES);
	bool begun = false;

	for (size_t i = 0; i < gpu->works_count; i++) {
		const struct diff_gpu_work *work = &gpu->works[i];

		if (diff_gpu_table(work->op) != DIFF_GPU_COPIES)
			continue;
		if (!begun) {
			document_say(c->document, BLOCK_CAPTION,
				     known == TIMED ? "Copies: rates while they ran" : "Copies");
			document_headings(c->document, known, DIFF_CHANGE_COLUMNS,
					  NUMBERS("Rate A", .where = TIMED),
					  NUMBERS("Rate B", .where = TIMED),
					  NUMBERS("Time", .rank = 3, .where = TIMED),
					  NUMBERS("Bytes/s", .rank = 2, .where = TIMED),
					  NUMBERS("Bytes/s A", .where = COUNTED),
					  NUMBERS("Bytes/s B", .where = COUNTED),
					  NUMBERS("Calls/s", .rank = 4), REST("Copy"),
					  WORDS("Host memory"));
		}
		begun = true;
		document_row(c->document,
			     DIFF_CHANGE_CELLS(c, known == TIMED ? work->rate : work->bytes_per_s),
			     DIFF_PAIR_CELLS(c, work->rate, add_bytes_per_s),
			     diff_cell_both(c, work->share, add_share),
			     diff_cell_both(c, work->bytes_per_s, diff_add_size),
			     DIFF_PAIR_CELLS(c, work->bytes_per_s, diff_add_size),
			     diff_cell_both(c, work->calls_per_s, diff_add_rate),
			     copy_words(work->op, work->direction),
			     host_memory_words(work->host_memory));
	}
}

static void compose_waits(struct comparer *c, const struct diff_gpu *gpu)
{
	size_t shown = 0;

	for (size_t i = 0; i < gpu->works_count && shown < c->functions; i++) {
		const struct diff_gpu_work *work = &gpu->works[i];

		if (diff_gpu_table(work->op) != DIFF_GPU_WAITS)
			continue;
		if (!shown++) {
			document_say(c->document, BLOCK_CAPTION, "Waits for the GPU");
			document_headings(c->document, 0, DIFF_CHANGE_COLUMNS, NUMBERS("Avg A"),
					  NUMBERS("Avg B"), NUMBERS("Time", .rank = 2),
					  NUMBERS("Calls/s", .rank = 4), REST("Function"),
					  WORDS("Called by", .rank = 3));
		}
		document_row(c->document, DIFF_CHANGE_CELLS(c, work->avg_ns),
			     DIFF_PAIR_CELLS(c, work->avg_ns, diff_add_time),
			     diff_cell_both(c, work->share, add_share),
			     diff_cell_both(c, work->calls_per_s, diff_add_rate),
			     diff_name(c, work->name),
			     *work->caller ? diff_name(c, work->caller) : "-");
	}
}

void diff_compose_gpu(struct comparer *c, const struct diff_gpu *gpu)
{
	compose_facts(c, gpu);
	compose_kernels(c, gpu);
	compose_copies(c, gpu);
	compose_waits(c, gpu);
}
