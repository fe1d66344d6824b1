// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/roofline.h"

#include "analyze/rules_ctx.h"
#include "base/units.h"

#include <math.h>

struct level {
	double threads, value;
	bool given;
};

/* Peaks that the user gave take precedence over measured ones; several types have a bandwidth. */
static void offer_peak(struct level *level, const struct perfx_peak *peak, double value,
		       bool nearer)
{
	bool given = peak->origin == PERFX_PEAK_GIVEN;
	bool same = level->threads == peak->threads;

	if (!level->value || nearer || (same && given && !level->given) ||
	    (same && given == level->given && value > level->value))
		*level = (struct level){peak->threads, value, given};
}

static double at_cores(const struct profile *profile, enum perfx_dtype dtype, double cores)
{
	struct level below = {0}, above = {0};

	FOR_EACH (peak, profile->peaks) {
		/* operations of the type, or bytes (UNKNOWN) */
		double value = dtype == PERFX_DTYPE_UNKNOWN ? (double)peak->bytes_per_s
			       : peak->dtype == dtype	    ? (double)peak->flops_per_s
							    : 0;
		double threads = peak->threads;

		if (value <= 0 || !peak->threads)
			continue;
		if (threads <= cores)
			offer_peak(&below, peak, value, threads > below.threads);
		else
			offer_peak(&above, peak, value, threads < above.threads);
	}
	if (!below.value || !above.value)
		return below.value + above.value;
	return below.value + (above.value - below.value) * (cores - below.threads) /
				     (above.threads - below.threads);
}

static double most_threads(const struct profile *profile)
{
	double most = 0;

	FOR_EACH (peak, profile->peaks)
		most = fmax(most, peak->threads);
	return most;
}

/* Complex arithmetic is real arithmetic. 16-bit types and TF32 are computed as f32 by CPUs that
 * have no unit for them, and where they have one its peak is known. */
static const enum perfx_dtype stand_ins[PERFX_DTYPES] = {
	[PERFX_DTYPE_F16] = PERFX_DTYPE_F32, [PERFX_DTYPE_BF16] = PERFX_DTYPE_F32,
	[PERFX_DTYPE_F8] = PERFX_DTYPE_F32,  [PERFX_DTYPE_TF32] = PERFX_DTYPE_F32,
	[PERFX_DTYPE_C64] = PERFX_DTYPE_F32, [PERFX_DTYPE_C128] = PERFX_DTYPE_F64,
};

struct roof roofline_roof(const struct profile *profile, enum perfx_dtype dtype, double cores)
{
	struct roof roof = {.dtype = dtype, .cores = cores};
	bool estimated = false, given = false;

	if (cores <= 0)
		return roof;
	roof.bytes_per_s = at_cores(profile, PERFX_DTYPE_UNKNOWN, cores);
	if (dtype == PERFX_DTYPE_UNKNOWN)
		return roof;
	roof.flops_per_s = at_cores(profile, dtype, cores);
	if (roof.flops_per_s <= 0) {
		if (dtype < PERFX_DTYPES && stand_ins[dtype])
			roof.dtype = stand_ins[dtype];
		roof.flops_per_s = at_cores(profile, roof.dtype, cores);
	}
	/* the user's value takes precedence, and is then one of the two */
	FOR_EACH (peak, profile->peaks) {
		bool is_of_type = peak->dtype == roof.dtype && peak->flops_per_s;

		given |= is_of_type && peak->origin == PERFX_PEAK_GIVEN;
		estimated |= is_of_type && peak->origin == PERFX_PEAK_ESTIMATED;
	}
	roof.estimated = estimated && !given;
	return roof;
}

struct roof roofline_whole_roof(const struct profile *profile, enum perfx_dtype dtype)
{
	return roofline_roof(profile, dtype, most_threads(profile));
}

double roof_ridge(const struct roof *roof)
{
	return roof->bytes_per_s > 0 ? roof->flops_per_s / roof->bytes_per_s : 0;
}

/* With less of the time than this in calls that compute, other threads' work is mistaken for
 * theirs. */
#define COMPUTING_MIN 0.1

double roofline_cores(const struct profile *profile, const struct profile_process *process)
{
	double wall = (double)profile_wall_ns(process), most = most_threads(profile);
	double counted = (double)roofline_wall_ns(process);
	double cpu, computing, cores;

	if (wall <= 0 || process->cpu_ns == PROFILE_ABSENT)
		return 0;
	cpu = (double)process->cpu_ns / wall;
	computing = counted > 0 ? (double)process->compute.counted_ns / counted : 0;
	if (computing < COMPUTING_MIN)
		cores = cpu;
	else if (computing < 1)
		cores = (cpu - (1 - computing)) / computing;
	else
		cores = cpu / computing;
	if (most && cores > most)
		cores = most;
	return cores < 1 ? 1 : cores;
}

enum perfx_dtype roofline_dtype(const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;

	FOR_EACH (row, compute->dtypes)
		if (row->dtype != PERFX_DTYPE_UNKNOWN)
			return row->dtype;
	return PERFX_DTYPE_UNKNOWN;
}

/* ns: 0 when it is not known. */
static struct roofline line_of(const struct profile *profile, const struct profile_cost *cost,
			       uint64_t ns, enum perfx_dtype dtype, double cores)
{
	struct roofline line = {.dtype = dtype, .flops_per_s = -1, .intensity = -1};
	double by_memory, by_compute;

	if (!cost->flops)
		return line;
	if (ns)
		line.flops_per_s = (double)cost->flops * 1e9 / (double)ns;
	if (cost->bytes)
		line.intensity = (double)cost->flops / (double)cost->bytes;
	line.roof = roofline_roof(profile, dtype, cores);
	by_memory = line.intensity * line.roof.bytes_per_s;
	by_compute = line.roof.flops_per_s;
	if (by_compute <= 0 || by_memory <= 0)
		return line;
	line.attainable_flops_per_s = fmin(by_memory, by_compute);
	if (line.flops_per_s < 0)
		return line;
	if (line.flops_per_s < ROOFLINE_OVERHEAD_SHARE * line.attainable_flops_per_s)
		line.bound = ROOFLINE_OVERHEAD;
	else
		line.bound = by_memory < by_compute ? ROOFLINE_MEMORY : ROOFLINE_COMPUTE;
	return line;
}

/* Another type's peak says nothing: there may be a unit for this one that was not measured. */
static bool is_above_peak(const struct profile *profile, const struct roofline *line)
{
	struct roof roof = roofline_whole_roof(profile, line->dtype);

	return roof.dtype == line->dtype && roof.flops_per_s > 0 &&
	       line->flops_per_s > ROOFLINE_PEAK_TOLERANCE * roof.flops_per_s;
}

static void withhold(struct roofline *line, enum roofline_withheld why)
{
	line->flops_per_s = -1;
	line->bound = ROOFLINE_UNKNOWN;
	line->withheld = why;
}

struct roofline roofline_of_row(const struct profile *profile,
				const struct profile_process *process,
				const struct profile_row *row)
{
	bool timed = (double)row->timed_count >= ROOFLINE_TIMED_SHARE * (double)row->calls_count;
	enum perfx_dtype dtype = row->dtype ? row->dtype : roofline_dtype(process);
	struct roofline line = line_of(profile, &row->inclusive, timed ? row->computing_ns : 0,
				       dtype, roofline_cores(profile, process));

	const struct profile_function *function = profile_function(profile, row->function);
	/* a jitted function's time is that of its dispatch, and what it computes is done elsewhere;
	 * so is the work of kernels that a function launches */
	bool is_submitted = profile_row_on_gpu(row) || row->inclusive.submitted_count ||
			    (function && function->source == PERFX_SOURCE_JAX);

	if (line.flops_per_s >= 0 && is_submitted)
		withhold(&line, ROOFLINE_SUBMITTED);
	else if (is_above_peak(profile, &line))
		withhold(&line, ROOFLINE_ABOVE_PEAK);
	return line;
}

struct roofline roofline_of_process(const struct profile *profile,
				    const struct profile_process *process)
{
	return line_of(profile, &process->compute.cost, roofline_wall_ns(process),
		       roofline_dtype(process), roofline_cores(profile, process));
}

struct roofline roofline_of_calls(const struct profile *profile,
				  const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	/* as long as all calls took, if those without a time were like the others */
	double ns = compute->timed_flops
			    ? (double)compute->counted_ns * (double)compute->cost.flops /
				      (double)compute->timed_flops
			    : 0;
	struct roofline line = line_of(profile, &compute->cost, u64_of(ns), roofline_dtype(process),
				       roofline_cores(profile, process));

	if (line.flops_per_s >= 0 && compute->cost.submitted_count)
		withhold(&line, ROOFLINE_SUBMITTED);
	else if (is_above_peak(profile, &line))
		withhold(&line, ROOFLINE_ABOVE_PEAK);
	return line;
}

double roofline_mfu(const struct profile *profile, enum perfx_dtype dtype, uint64_t flops,
		    uint64_t ns)
{
	struct roof roof = roofline_whole_roof(profile, dtype);

	if (roof.flops_per_s <= 0 || !ns)
		return -1;
	return (double)flops * 1e9 / (double)ns / roof.flops_per_s;
}

bool roofline_is_cut(const struct profile_process *process)
{
	return process->compute.until_ns && process->compute.until_ns < process->to_ns;
}

uint64_t roofline_wall_ns(const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	double ns = (double)compute->until_ns - (double)process->from_ns;

	if (!roofline_is_cut(process))
		return profile_wall_ns(process);
	return compute->until_flops && ns > 0
		       ? u64_of(ns * (double)compute->cost.flops / (double)compute->until_flops)
		       : 0;
}

double roofline_flops_per_s(const struct profile_process *process)
{
	uint64_t wall_ns = roofline_wall_ns(process);

	if (!process->compute.measured || !process->compute.cost.counted_count || !wall_ns)
		return -1;
	return (double)process->compute.cost.flops * 1e9 / (double)wall_ns;
}

double roofline_attributed(const struct profile_compute *compute)
{
	double all = (double)compute->counted_ns + (double)compute->unread_ns;

	return all > 0 ? (double)compute->counted_ns / all : -1;
}

const char *roofline_class_name(enum roofline_class bound)
{
	static const char *const names[] = {[ROOFLINE_COMPUTE] = "compute",
					    [ROOFLINE_MEMORY] = "memory",
					    [ROOFLINE_OVERHEAD] = "overhead"};

	return names[bound];
}

const char *roofline_withheld_name(enum roofline_withheld withheld)
{
	static const char *const names[] = {
		[ROOFLINE_SUBMITTED] = "submitted", [ROOFLINE_ABOVE_PEAK] = "above_peak"};

	return names[withheld];
}

/* -1: none counts them. */
static int flops_counter(const struct profile *profile)
{
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++)
		if (profile->perf_counters[i].name && profile->perf_counters[i].is_flops)
			return i;
	return -1;
}

struct flops_check flops_check_of_row(const struct profile *profile, const struct profile_row *row)
{
	const struct profile_call_counters *perf = row->perf;
	int counter = flops_counter(profile);

	if (!perf || counter < 0)
		return (struct flops_check){0};
	if (perf->flops)
		return (struct flops_check){true, perf->flops, perf->counted_flops};
	if (row->cost.counted_count || !row->inclusive.flops ||
	    perf->calls_count != row->calls_count)
		return (struct flops_check){0};
	return (struct flops_check){true, row->inclusive.flops, perf->values[counter]};
}

struct flops_check flops_check_of_process(const struct profile *profile,
					  const struct profile_process *process)
{
	int counter = flops_counter(profile);

	if (counter < 0 || !process->perf.threads_count || !process->compute.cost.flops)
		return (struct flops_check){0};
	return (struct flops_check){true, process->compute.cost.flops,
				    process->perf.values[counter]};
}

double flops_check_difference(const struct flops_check *flops)
{
	return ((double)flops->counted - (double)flops->estimated) / (double)flops->estimated;
}

double perf_share(const struct profile_process_counters *perf)
{
	return perf->running_ns < perf->enabled_ns
		       ? (double)perf->running_ns / (double)perf->enabled_ns
		       : 1;
}

/* Figures of steps are hidden once dropped records exceed this share of all counted operations. */
#define DROPPED_MOST 0.001

void add_reduction(struct text *text, const struct profile *profile, uint64_t time_ns,
		   bool of_costs)
{
	uint32_t first = 0;
	size_t count = 0;

	for (size_t i = 0; i < profile->reduced_count; i++) {
		const struct perfx_reduced *reduced = &profile->reduced[i];

		if (!reduced->function || (of_costs && !reduced->loses_cost))
			continue;
		if (!first || reduced->time_ns == time_ns)
			first = reduced->function;
		count++;
	}
	text_printf(text, "at %s the overhead budget stopped %s ",
		    as_ns(profile_since_start(profile, time_ns)),
		    of_costs ? "measuring" : "timing");
	add_function_name(text, profile, first);
	if (first && count > 1)
		text_printf(text, " and %s more function%s", as_count(count - 1),
			    count == 2 ? "" : "s");
}

static void add_unmeasured(struct text *text, const struct profile *profile,
			   const struct profile_steps *steps, uint64_t count, uint64_t until_ns,
			   bool of_costs)
{
	if (!until_ns || count >= steps->count)
		return;
	text_add(text, text->length ? " " : "");
	if (count)
		text_printf(text, "%s are those of %s%s of %s whole steps: ",
			    of_costs ? "FLOPs" : "Phases", of_costs ? "" : "the first ",
			    as_count(count), as_count(steps->count));
	else
		text_printf(text, "%s of a step are not known: ",
			    of_costs ? "FLOPs" : "The forward phase and other parts");
	add_reduction(text, profile, until_ns, of_costs);
	text_add(text, ".");
}

/* docs/reading-a-report.md lists all that can end a step. */
#define NAME_STEPS "--step-range NAME says which range or function ends a step."

void steps_add_why(struct text *text, const struct profile *profile,
		   const struct profile_process *process)
{
	/* libraries whose users ask for steps */
	static const bool has_steps[PERFX_SOURCES] = {
		[PERFX_SOURCE_TORCH] = true, [PERFX_SOURCE_JAX] = true,	 [PERFX_SOURCE_XLA] = true,
		[PERFX_SOURCE_TF] = true,    [PERFX_SOURCE_BLAS] = true,
	};
	const struct profile_steps *steps = &process->steps;
	bool calls_operations = false;

	FOR_EACH (row, process->rows) {
		const struct profile_function *function = profile_function(profile, row->function);

		calls_operations |= function && has_steps[function->source];
	}
	if (steps->ends_count && !steps->count) {
		text_add(text, "No step was whole: the recording began within the first one.");
	} else if (steps->ended_ns) {
		/* steps end with the probes of the function that ends them */
		text_printf(text, "Steps are %s %s%s the overhead budget stopped tracing ",
			    steps->ends_count ? "counted until" : "not known: at",
			    as_ns(profile_since_start(profile, steps->ended_ns)),
			    steps->ends_count ? ":" : "");
		add_function_name(text, profile, steps->ended_with);
		text_add(text,
			 steps->ends_count
				 ? " then."
				 : ", whose calls show them. A higher --max-overhead keeps it.");
	} else if (!steps->ends_count && steps->repeating_threads) {
		text_printf(text, "Steps are not known: %u threads repeat ",
			    steps->repeating_threads);
		add_function_name(text, profile, steps->repeated);
		text_add(text, ", each for itself.");
	} else if (!steps->ends_count && calls_operations && !profile_parent(profile, process)) {
		text_add(text, "Steps are not known: no range marks them, and no sequence of "
			       "traced calls repeats itself evenly. " NAME_STEPS);
	}
	if (!steps->count)
		return;
	add_unmeasured(text, profile, steps, steps->divided.count, steps->times_until_ns, false);
	/* steps whose FLOPs are not known for other reasons are no basis for a figure */
	if (process->compute.measured &&
	    (!steps->cost.steps_count || steps_rates(profile, process).flops >= 0))
		add_unmeasured(text, profile, steps, steps->cost.steps_count, steps->costs_until_ns,
			       true);
}

/* Against the devices' peak where they compute, else the host's. */
static double mfu_of(const struct profile *profile, const struct profile_steps *steps,
		     uint64_t flops, uint64_t ns)
{
	if (!steps->gpu.computes)
		return roofline_mfu(profile, steps->cost.dtype, flops, ns);
	if (!(steps->gpu.peak_flops_per_s > 0) || !ns)
		return -1;
	return (double)flops * 1e9 / (double)ns / steps->gpu.peak_flops_per_s;
}

/* Without the FLOPs of a call a step's are no figure; a few calls of many hardly change one. */
#define UNREAD_SHARE 0.001

struct step_rates steps_rates(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_step_cost *cost = &process->steps.cost;
	struct step_rates rates = {.flops = -1, .flops_per_s = -1, .thread_share = -1, .mfu = -1};

	/* calls from overflow sums have no type */
	FOR_EACH (row, process->compute.dtypes)
		if (row->dtype == PERFX_DTYPE_UNKNOWN)
			rates.unrecorded_flops = row->flops;
	if (!cost->counted_count || !cost->steps_count ||
	    (double)cost->unread_count > UNREAD_SHARE * (double)cost->counted_count ||
	    !((double)rates.unrecorded_flops <= DROPPED_MOST * (double)process->compute.cost.flops))
		return rates;
	rates.flops = (double)cost->flops / (double)cost->steps_count;
	if (cost->flops)
		rates.thread_share = (double)cost->thread_flops / (double)cost->flops;
	rates.roof = roofline_whole_roof(profile, cost->dtype);
	if (!cost->ns || !steps_are_typical(&process->steps, cost->steps_count, cost->ns))
		return rates;
	rates.flops_per_s = (double)cost->flops * 1e9 / (double)cost->ns;
	rates.mfu = mfu_of(profile, &process->steps, cost->flops, cost->ns);
	return rates;
}

double steps_mfu(const struct profile *profile, const struct profile_steps *steps,
		 const struct profile_step *step)
{
	if (!steps->cost.counted_count || step->computed_count < step->count)
		return -1;
	return mfu_of(profile, steps, step->flops, step->total_ns);
}

bool steps_slow(const struct profile_steps *steps, const struct profile_step *step)
{
	return (double)step->max_ns > STEPS_SLOW * (double)steps->p50_ns;
}

uint64_t steps_unrecorded(const struct profile_process *process)
{
	for (size_t i = 0; process->steps.count && i < process->rows_count; i++)
		if (process->rows[i].function == process->steps.function)
			return process->rows[i].overflow_count;
	return 0;
}

struct gpu_rates gpu_rates(const struct profile_process *process)
{
	const struct profile_gpu *gpu = &process->gpu;
	const struct profile_step_cost *steps = &process->steps.cost;
	bool in_steps = steps->flops && steps->ns;
	double flops = (double)(in_steps ? steps->flops : gpu->flops);
	double ns = (double)(in_steps ? steps->ns : roofline_wall_ns(process));
	struct gpu_rates rates = {-1, -1};

	if (!gpu->flops || !gpu->flops_ns)
		return rates;
	rates.flops_per_s = (double)gpu->flops * 1e9 / (double)gpu->flops_ns;
	if (gpu->peak_flops_per_s > 0 && ns > 0)
		rates.mfu = flops * 1e9 / ns / gpu->peak_flops_per_s;
	return rates;
}
