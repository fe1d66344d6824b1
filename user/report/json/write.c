// SPDX-License-Identifier: BSD-2-Clause
/*
 * The JSON report, "perfx.report/1": a contract, so fields are only ever added. Integers are
 * nanoseconds and bytes; values that were not measured are left out. Rows of long arrays are
 * written one by one, so that memory does not grow with the report:
 *
 *     "overhead": {
 *       "hits": 24690,
 *       "probes": [
 *         {"name": "gemm", "module": "libblas.so.3", "offset": 4096, …},
 *         {"name": "gemm", …}
 *       ]
 *     },
 */
#include "analyze/account.h"
#include "analyze/location.h"
#include "analyze/operators.h"
#include "analyze/roofline.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"
#include "report/dump.h"
#include "report/json/output.h"
#include "report/report.h"

#include <errno.h>
#include <math.h>

json_t *json_of_place(const struct finding_place *place)
{
	return json_object_of({"function", json_of_string(place->function)},
			      {"file", json_of_any_string(place->file)},
			      {"line", json_of_count(place->line)});
}

json_t *json_of_arguments(const char *cmdline)
{
	json_t *array = json_array();
	struct text word = {0};

	if (!array || !*cmdline)
		return array;
	for (const char *p = cmdline;; p++) {
		if (*p && *p != PROFILE_ARGUMENT_END) {
			text_add_bytes(&word, p, 1);
			continue;
		}
		json_array_append_new(array, json_of_string(text_peek(&word)));
		text_clear(&word);
		if (!*p)
			return array;
	}
}

/* "part": {"kind": "flight", "after_ns": 690000000000, "why": "SIGUSR1", …}: of the recording, so
 * much lies before. */
static void put_time_slice(struct json_output *o, const struct profile *p)
{
	const struct profile_time_slice *slice = &p->time_slice;
	uint32_t left_out = slice->left_out;
	json_t *kinds = json_array();

	/* sums of which those at the slice's ends are missing: ["hits", "loss"] */
	for (enum perfx_kind kind = PERFX_KIND_OVERFLOW_CALLS; left_out; kind++, left_out >>= 1)
		if (left_out & 1 && name_of_kind(kind))
			json_array_append_new(kinds, json_string(name_of_kind(kind)));
	json_put_object(
		o, "part",
		json_object_of(
			{"kind",
			 json_string(slice->flags & PERFX_TIME_SLICE_VIEW ? "view" : "flight")},
			{"after_ns", json_of_integer(p->start_ns - slice->recording_ns)},
			{"why", json_of_any_string(slice->why)},
			{"memory_full", json_boolean(slice->flags & PERFX_TIME_SLICE_FULL)},
			{"left_out_calls", json_of_integer(slice->left_out_count)},
			{"left_out", slice->left_out ? json_incref(kinds) : json_null()}));
	json_decref(kinds);
}

static void put_capture(struct json_output *o, const struct profile *p)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} partial[] = {
		{PROFILE_PARTIAL_KILLED, "target_killed"},
		{PROFILE_PARTIAL_TRUNCATED, "truncated"},
		{PROFILE_PARTIAL_LOSSY, "lossy"},
	};
	json_t *reasons = json_array();
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < sizeof(partial) / sizeof(partial[0]); i++)
		if (p->partial & partial[i].flag)
			json_array_append_new(reasons, json_string(partial[i].name));
	json_open(o, "capture", '{');
	json_put_integer(o, "start_unix_ns", p->start_unix_ns);
	json_put_integer(o, "duration_ns", p->duration_ns);
	if (p->recording_windows_count) { /* since the start, as peak_at_ns is */
		json_open(o, "windows", '[');
		for (size_t i = 0; i < p->recording_windows_count; i++) {
			const struct profile_interval *window = &p->recording_windows[i];

			sum_ns += window->to_ns - window->from_ns;
			json_put(o, NULL,
				 json_object_of({"start_ns",
						 json_of_integer(window->from_ns - p->start_ns)},
						{"end_ns",
						 json_of_integer(window->to_ns - p->start_ns)}));
		}
		json_close(o, ']');
		json_put_integer(o, "recorded_ns", sum_ns);
	}
	json_put(o, "partial", json_boolean(p->partial != 0));
	json_put(o, "partial_reasons", reasons);
	if (p->time_slice.flags)
		put_time_slice(o, p);
	json_put_object(
		o, "host",
		json_object_of({"name", json_of_string(p->host_name)},
			       {"kernel", json_of_string(p->kernel)},
			       {"cpus", json_of_integer(p->cpus_count)},
			       {"memory_bytes", json_of_count((uint64_t)p->memory_mib << 20)},
			       {"boot_id", json_of_any_string(p->boot_id)},
			       {"busy_ns", json_of_measured(p->host_busy_ns)},
			       {"others_cpu_ns", json_of_measured(profile_others_cpu_ns(p))},
			       {"steal_ns", json_of_measured(p->host_steal_ns)}));
	json_close(o, '}');
}

static void put_losses(struct json_output *o, const uint64_t losses[PERFX_LOSS_KINDS])
{
	json_open(o, "losses", '{');
	for (int i = 0; i < PERFX_LOSS_KINDS; i++)
		json_put(o, name_of_loss(i), json_of_integer(losses[i]));
	json_close(o, '}');
}

/* Those that were merged. */
static void put_captures(struct json_output *o, const struct profile *p)
{
	if (!p->captures_count)
		return;
	json_open(o, "captures", '[');
	for (size_t i = 0; i < p->captures_count; i++) {
		const struct profile_capture *capture = &p->captures[i];

		json_open(o, NULL, '{');
		json_put_string(o, "host", capture->host_name);
		json_put_string(o, "boot_id", capture->boot_id);
		json_put_string(o, "command", capture->command);
		json_put_integer(o, "cpus", capture->facts.cpus_count);
		json_put_integer(o, "start_unix_ns", capture->facts.start_unix_ns);
		json_put_integer(o, "duration_ns", capture->facts.end_ns - capture->facts.start_ns);
		json_put(o, "aligned_by", json_string(name_of_alignment(capture->facts.alignment)));
		json_put(o, "offset_ns", json_integer(capture->facts.offset_ns));
		json_put(o, "error_ns", json_of_measured(capture->facts.error_ns));
		json_put(o, "drift_ppb", json_integer(capture->facts.drift_ppb));
		json_put_integer(o, "pairs", capture->facts.pairs_count);
		put_losses(o, capture->losses);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static void put_observed(struct json_output *o, const struct profile *p)
{
	const struct profile_observed *observed = &p->observed;
	enum slowdown_agreement agreement =
		p->overhead_percent >= 0 ? profile_slowdown_agreement(p) : SLOWDOWN_NOT_OBSERVED;
	bool judged = agreement == SLOWDOWN_AGREES || agreement == SLOWDOWN_DISAGREES;

	if (!observed->without_ns)
		return;
	json_put_object(
		o, "observed",
		json_object_of({"steps_without", json_of_integer(observed->steps_without)},
			       {"steps_with", json_of_integer(observed->steps_with)},
			       {"without_ns", json_of_integer(observed->without_ns)},
			       {"with_ns", json_of_integer(observed->with_ns)},
			       {"percent", json_real(profile_observed_percent(observed))},
			       {"noise_percent", json_real(observed->noise_percent)},
			       {"agrees", judged ? json_boolean(agreement == SLOWDOWN_AGREES)
						 : json_null()}));
}

/* Lists the probes that were hit; with `all` every probe. */
static void put_overhead(struct json_output *o, const struct profile *p, bool all)
{
	size_t left_out = 0;

	json_open(o, "overhead", '{');
	json_put_integer(o, "hits", p->hits_count);
	if (p->hits_count)
		json_put(o, "ns_per_hit", json_of_positive(p->overhead_ns / (double)p->hits_count));
	json_put(o, "estimated_percent", json_of_known(p->overhead_percent));
	json_put(o, "tracer_wait_percent", json_of_positive(p->tracer_wait_percent));
	put_observed(o, p);
	json_put(o, "compensated", json_boolean(p->compensated));
	json_put(o, "tracer_cpu_ns", json_of_measured(p->tracer_cpu_ns));
	json_put(o, "tracer_rss_anon_bytes", json_of_measured(p->tracer_rss_anon_bytes));
	json_put(o, "tracer_rss_peak_bytes", json_of_count(p->tracer_rss_peak_bytes));
	json_put(o, "tracer_looks", json_of_measured(p->maps_read_count));
	json_put(o, "tracer_strangers_read", json_of_measured(p->untraced_read_count));
	json_open(o, "probes", '[');
	for (size_t i = 0; i < p->probes_count; i++) {
		const struct profile_probe *probe = &p->probes[i];
		const struct profile_function *function = profile_function(p, probe->function);

		if (!all && !probe->hits_count) {
			left_out++;
			continue;
		}
		json_put(o, NULL,
			 json_object_of({"name", json_of_string(function ? function->name : "")},
					{"module",
					 json_of_string(function ? function->module_base : "")},
					{"offset", json_of_integer(probe->offset)},
					{"link", json_string(name_of_link(probe->link))},
					{"return", json_string(name_of_return(probe->ret))},
					{"site", json_string(name_of_site(probe->site))},
					{"at", json_string(probe->is_exit ? "exit" : "entry")},
					{"hits", json_of_integer(probe->hits_count)},
					{"ns_per_hit", json_of_positive(probe->cost_ns)}));
	}
	json_close(o, ']');
	json_put_integer(o, "probes_left_out", left_out);
	if (p->samples_cost_ns || p->waits_cost_ns) {
		json_put_integer(o, "samples_cost_ns", p->samples_cost_ns);
		json_put_integer(o, "waits_cost_ns", p->waits_cost_ns);
	}
	json_close(o, '}');
}

/* Functions that several threads share. */
static void put_parallel(struct json_output *o, const struct profile *p,
			 const struct parallel_functions *functions)
{
	if (!functions->count)
		return;
	json_open(o, "parallel", '[');
	for (size_t i = 0; i < functions->count; i++) {
		const struct parallel_function *function = &functions->list[i];
		const struct profile_function *named = profile_function(p, function->function);

		json_put(
			o, NULL,
			json_object_of(
				{"name", json_of_string(named ? named->name : "")},
				{"total_ns", json_of_integer(function->total_ns)},
				{"threads", json_of_integer(function->parallelism.threads_count)},
				{"speedup", json_real(function->parallelism.speedup)},
				{"efficiency", json_real(function->parallelism.efficiency)},
				{"samples", json_of_integer(function->parallelism.samples_count)}));
	}
	json_close(o, ']');
}

/*
 * The process's "counters": values of its own. (Perf events are "perf_counters".) Whole numbers are
 * integers; infinite and NaN values are left out.
 *
 *     {"name": "tokens", "value": 1280, "unit": "", "samples": 40, "added": 40, "last": 1280,
 *      "sum": 1280, "min": 32, "max": 32, "rate": 127.6}
 */
/* Calls that are units of inference. */
static void put_inferences(struct json_output *o, const struct profile *profile,
			   const struct profile_process *process)
{
	bool any = false;

	FOR_EACH (row, process->rows) {
		if (!profile_is_inference(profile, row))
			continue;
		if (!any)
			json_open(o, "inferences", '[');
		any = true;
		json_put_exact(
			o, NULL,
			json_object_of(
				{"name",
				 json_of_string(profile_function(profile, row->function)->name)},
				{"calls", json_of_integer(row->calls_count)},
				{"per_s",
				 json_of_known(profile_calls_per_s(profile, process, row))},
				{"threads", json_of_integer(row->threads_count)},
				{"avg_ns", json_of_measured(row->avg_ns)},
				{"p50_ns", json_of_measured(row->p50_ns)},
				{"p99_ns", json_of_measured(row->p99_ns)},
				{"max_ns", json_of_measured(row->max_ns)},
				{"gaps", json_of_integer(row->gaps.count)},
				{"gaps_ns", json_of_measured(row->gaps.total_ns)},
				{"gap_p50_ns", json_of_measured(row->gaps.p50_ns)},
				{"gap_p99_ns", json_of_measured(row->gaps.p99_ns)},
				{"gap_max_ns", json_of_measured(row->gaps.max_ns)}));
	}
	if (any)
		json_close(o, ']');
}

static void put_values(struct json_output *o, const struct profile_process *process)
{
	if (!process->values_count)
		return;
	json_open(o, "counters", '[');
	for (size_t i = 0; i < process->values_count; i++) {
		const struct profile_user_value *value = &process->values[i];
		bool any = value->lowest <= value->highest, summed = any || value->lost_count;

		json_put_exact(
			o, NULL,
			json_object_of({"name", json_of_string(value->name)},
				       {"value", json_of_number(value->value)},
				       {"unit", json_string("")},
				       {"samples", json_of_integer(value->samples_count)},
				       {"added", json_of_count(value->added_count)},
				       {"last", json_of_number(value->value)},
				       {"sum", json_of_number(summed ? value->sum : NAN)},
				       {"min", json_of_number(any ? value->lowest : NAN)},
				       {"max", json_of_number(any ? value->highest : NAN)},
				       {"rate", json_of_number(summed ? value->rate : NAN)},
				       {"not_finite", json_of_count(value->strange_count)},
				       {"lost", json_of_count(value->lost_count)},
				       {"not_summed", json_of_count(value->unsummed_count)}));
	}
	json_close(o, ']');
}

/*
 * Perf events in the JSON report, as "perf_counters" ("counters" are the program's own). A
 * function's are those of its calls, on the calling threads; a process's are those of all threads.
 * counted_flops and estimated_flops (computed from the arguments) are of the same calls; difference
 * is (counted - estimated) / estimated.
 */

static void set_estimate(json_t *object, const struct flops_check *flops)
{
	if (!flops->known)
		return;
	json_set_integer(object, "counted_flops", flops->counted);
	json_set_integer(object, "estimated_flops", flops->estimated);
	json_object_set_new(object, "difference", json_real(flops_check_difference(flops)));
}

json_t *json_of_perf_counters(const struct profile *profile, const struct profile_row *row)
{
	struct flops_check flops = flops_check_of_row(profile, row);
	const struct profile_call_counters *perf = row->perf;
	json_t *counters = json_object();

	json_set_integer(counters, "calls", perf->calls_count);
	json_set_integer(counters, "missed", perf->missed_count);
	for (int i = 0; perf->calls_count && i < PERFX_PERF_COUNTERS; i++)
		if (profile->perf_counters[i].name)
			json_set_integer(counters, profile->perf_counters[i].name, perf->values[i]);
	set_estimate(counters, &flops);
	return counters;
}

static void put_counters(struct json_output *o, const struct profile *profile,
			 const struct profile_process *process)
{
	struct flops_check flops = flops_check_of_process(profile, process);

	if (!process->perf.threads_count)
		return;
	json_open(o, "perf_counters", '[');
	for (int i = 0; i < PERFX_PERF_COUNTERS; i++) {
		const struct profile_perf_counter *counter = &profile->perf_counters[i];
		json_t *object;

		if (!counter->name)
			continue;
		object = json_object_of({"name", json_of_string(counter->name)},
					{"value", json_of_integer(process->perf.values[i])},
					{"unit", json_of_string(counter->unit)},
					{"samples", json_of_integer(process->perf.threads_count)},
					{"counted_share", json_real(perf_share(&process->perf))});
		if (counter->is_flops)
			set_estimate(object, &flops);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

/*
 * Floating-point work in the JSON report. A function's numbers are inclusive, as its total_ns is;
 * own_flops and own_bytes exclude its callees. A function has no flops if neither its calls nor
 * their callees have a known cost.
 */

json_t *json_of_call_costs(const struct profile_cost *cost)
{
	return json_object_of({"counted", json_of_integer(cost->counted_count)},
			      {"unread", json_of_integer(cost->unread_count)},
			      {"silenced", json_of_integer(cost->nested_count)},
			      {"opaque", json_of_count(cost->opaque_count)},
			      {"submitted", json_of_count(cost->submitted_count)},
			      {"assumed", json_of_count(cost->assumed_count)});
}

/* Rates and the peak, which need known operations. */
static json_t *rates_of(const struct profile *profile, const struct profile_process *process)
{
	const struct profile_cost *cost = &process->compute.cost;
	struct roofline line = roofline_of_process(profile, process);
	enum perfx_dtype dtype = roofline_dtype(process);
	struct roof roof = roofline_whole_roof(profile, dtype);
	/* of the process: the calls themselves return when the work has been handed to the GPU */
	double wall_s = (double)profile_wall_ns(process) * 1e-9;
	bool bus_known = profile_bus_known(cost);

	return json_object_of(
		{"gflops_per_s", json_of_positive(line.flops_per_s / 1e9)},
		{"intensity", json_of_positive(line.intensity)},
		{"attainable_gflops_per_s", json_of_positive(line.attainable_flops_per_s / 1e9)},
		{"roofline", json_of_any_string(roofline_class_name(line.bound))},
		{"rate_withheld", json_of_any_string(roofline_withheld_name(line.withheld))},
		{"peak_gflops_per_s", json_of_positive(roof.flops_per_s / 1e9)},
		{"peak_dtype",
		 roof.flops_per_s > 0 ? json_string(name_of_dtype(roof.dtype)) : json_null()},
		{"peak_estimated", roof.estimated ? json_true() : json_null()},
		{"peak_bytes_per_s", json_of_positive(roof.bytes_per_s)},
		{"mfu", json_of_positive(roofline_mfu(profile, dtype, cost->flops,
						      roofline_wall_ns(process)))},
		{"cores", json_of_positive(roofline_cores(profile, process))},
		{"moved_bytes_per_s",
		 wall_s > 0 ? json_of_positive((double)cost->moved_bytes / wall_s) : json_null()},
		{"bus_bytes", bus_known ? json_of_integer(cost->bus_bytes) : json_null()},
		{"bus_bytes_per_s", bus_known && wall_s > 0
					    ? json_of_positive((double)cost->bus_bytes / wall_s)
					    : json_null()});
}

static void put_compute(struct json_output *o, const struct profile *profile,
			const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	bool is_cut = roofline_is_cut(process);
	json_t *flops, *calls, *dtypes;
	struct text why = {0};

	if (!compute->measured)
		return;
	flops = json_object();
	calls = json_object();
	dtypes = json_object();
	for (size_t i = 0; i < compute->sources_count; i++) {
		const struct profile_cost *cost = &compute->sources[i].cost;
		const char *name = name_of_source(compute->sources[i].source);

		if (cost->counted_count)
			json_set_integer(flops, name, cost->flops);
		json_object_set_new(calls, name, json_of_call_costs(cost));
	}
	for (size_t i = 0; i < compute->dtypes_count; i++)
		json_set_integer(dtypes, name_of_dtype(compute->dtypes[i].dtype),
				 compute->dtypes[i].flops);
	json_open(o, "compute", '{');
	if (compute->cost.counted_count) {
		json_put_integer(o, "flops", compute->cost.flops);
		json_put_integer(o, "bytes", compute->cost.bytes);
		json_put_integer(o, "moved_bytes", compute->cost.moved_bytes);
	}
	json_put_members(o, rates_of(profile, process));
	json_put(o, "sources", flops);
	json_put(o, "figures_by_source", calls);
	json_put(o, "dtypes", dtypes);
	json_put(o, "figures", json_of_call_costs(&compute->cost));
	json_put_integer(o, "counted_ns", compute->counted_ns);
	json_put_integer(o, "unread_ns", compute->unread_ns);
	json_put(o, "opaque_ns", json_of_count(compute->opaque_ns));
	if (!is_cut)
		json_put(o, "attributed", json_of_known(roofline_attributed(compute)));
	if (is_cut) { /* rates are of the time in which all operations were counted */
		add_reduction(&why, profile, compute->until_ns, true);
		json_put_integer(o, "measured_flops", compute->until_flops);
		json_put_integer(o, "measured_ns",
				 compute->until_ns > process->from_ns
					 ? compute->until_ns - process->from_ns
					 : 0);
		json_put(o, "why", json_of_sentence(text_peek(&why)));
		text_clear(&why);
	}
	json_close(o, '}');
}

static void put_peaks(struct json_output *o, const struct profile *profile)
{
	if (!profile->peaks_count)
		return;
	json_open(o, "peaks", '[');
	for (size_t i = 0; i < profile->peaks_count; i++) {
		const struct perfx_peak *peak = &profile->peaks[i];

		json_put(
			o, NULL,
			json_object_of(
				{"threads", json_of_integer(peak->threads)},
				{"dtype", peak->dtype == PERFX_DTYPE_UNKNOWN
						  ? json_null()
						  : json_of_string(name_of_dtype(peak->dtype))},
				{"gflops_per_s", json_of_positive((double)peak->flops_per_s / 1e9)},
				{"bytes_per_s", json_of_count(peak->bytes_per_s)},
				{"origin", json_of_string(name_of_peak_origin(peak->origin))}));
	}
	json_close(o, ']');
}

static void put_energy(struct json_output *o, const struct profile *profile,
		       const struct report_options *options)
{
	const struct profile_host_energy *energy = &profile->energy;

	if (energy->host_uj == PROFILE_ABSENT && energy->gpu_mj == PROFILE_ABSENT)
		return;
	json_put_object(o, "energy",
			json_object_of({"host_uj", json_of_measured(energy->host_uj)},
				       {"gpu_mj", json_of_measured(energy->gpu_mj)},
				       {"carbon_g", options->carbon_intensity > 0
							    ? json_real(report_carbon_g(
								      report_joules(energy),
								      options->carbon_intensity))
							    : json_null()}));
}

/*
 * Memory in the JSON report: an entry for each domain, never summed. Beside the contract's fields:
 *
 *     "level": "exact", "recorded_ns": 10000000000, "frees_seen": true, "bound": "lower",
 *     "allocs_low": …, "allocs_high": …            when sampled: the truth 19 times out of 20
 *     "sizes": [{"min_bytes": 65, "max_bytes": 128, "allocs": 12}, …]
 *     "series": [{"at_ns": 1000, "live_bytes": 64, "allocs": 1, "allocated_bytes": 64}, …]
 *     "hotspots": [{"stack": ["append (/src/train.c:12)", "trainer+0x4321"], …}]
 */

#define HOTSPOTS_MAX 1000

json_t *json_of_frames(const struct profile_frame *const *frames, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		bool is_python = frames[i]->language == PERFX_LANGUAGE_PYTHON;
		struct text text = {0};

		location_frame(&text, frames[i], is_python ? LOCATION_BRIEF : LOCATION_FULL);
		json_array_append_new(array, text.failed ? NULL : json_of_string(text_peek(&text)));
		text_clear(&text);
	}
	return array;
}

json_t *json_of_windows(const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	json_t *array = json_array();

	for (size_t i = 0; i < memory->alloc_windows_count && i < PROFILE_ALLOC_WINDOWS; i++)
		json_array_append_new(array, json_of_integer(hotspot->live_windows[i]));
	return array;
}

/* Each name once: the CUDA runtime and the driver are two files. */
json_t *json_of_allocators(const struct profile_memory *memory)
{
	json_t *array = json_array();

	for (size_t i = 0; i < memory->allocators_count; i++) {
		json_t *name = json_of_string(memory->allocators[i].name), *known;
		bool is_new = true;
		size_t k;

		json_array_foreach(array, k, known) is_new = is_new && !json_equal(known, name);
		if (is_new)
			json_array_append(array, name);
		json_decref(name);
	}
	return array;
}

static void put_domain(struct json_output *o, struct data_table *table,
		       const struct data_table_row *row)
{
	const struct profile_memory *memory = &row->process->memory[row->item];
	const char *unjudged = row->analysis->memory[row->item].unjudged;
	const struct profile *p = table->profile;
	bool frees_seen = memory->current_bytes != PROFILE_ABSENT;
	struct data_table hotspots = {.kind = data_table_kind_named("hotspots"), .profile = p};
	struct data_table_row hotspot = *row;
	size_t count =
		memory->hotspots_count < HOTSPOTS_MAX ? memory->hotspots_count : HOTSPOTS_MAX;

	json_open(o, NULL, '{');
	json_put_members(o, json_of_row(table, row));
	json_open(o, "allocators", '[');
	for (size_t i = 0; i < memory->allocators_count; i++) {
		const struct profile_allocator *a = &memory->allocators[i];
		uint64_t frees = frees_seen ? a->frees_count : PROFILE_ABSENT;
		uint64_t live_bytes = frees_seen ? a->live_bytes : PROFILE_ABSENT;

		json_put(o, NULL,
			 json_object_of({"name", json_of_string(a->name)},
					{"module", json_of_string(a->module)},
					{"allocs", json_of_integer(a->allocs_count)},
					{"frees", json_of_measured(frees)},
					{"allocated_bytes", json_of_integer(a->allocated_bytes)},
					{"live_bytes", json_of_measured(live_bytes)}));
	}
	json_close(o, ']');
	json_open(o, "sizes", '[');
	for (unsigned i = 0; i < PROFILE_SIZES; i++)
		if (memory->sizes[i])
			json_put(o, NULL,
				 json_object_of({"min_bytes",
						 json_of_integer(i ? largest_size(i - 1) + 1 : 0)},
						{"max_bytes",
						 i < PROFILE_SIZES - 1
							 ? json_of_integer(largest_size(i))
							 : json_null()},
						{"allocs", json_of_integer(memory->sizes[i])}));
	json_close(o, ']');
	if (memory->alloc_windows_count) {
		json_put_integer(o, "window_ns", memory->alloc_window_ns);
		json_put_integer(o, "windows_from_ns",
				 profile_since_start(p, memory->alloc_windows_from_ns));
	}
	json_open(o, "series", '[');
	for (size_t i = 0; i < memory->points_count; i++) {
		const struct profile_memory_point *point = &memory->points[i];
		uint64_t live_bytes = frees_seen ? point->live_bytes : PROFILE_ABSENT;

		json_put(o, NULL,
			 json_object_of(
				 {"at_ns", json_of_integer(profile_since_start(p, point->time_ns))},
				 {"live_bytes", json_of_measured(live_bytes)},
				 {"allocs", json_of_integer(point->allocs_count)},
				 {"allocated_bytes", json_of_integer(point->allocated_bytes)}));
	}
	json_close(o, ']');
	if (unjudged)
		json_put(o, "leaks_not_judged", json_string(unjudged));
	json_put_integer(o, "hotspots_left_out", memory->hotspots_count - count);
	json_open(o, "hotspots", '[');
	for (; hotspot.part < count; hotspot.part++)
		json_put(o, NULL, json_of_row(&hotspots, &hotspot));
	json_close(o, ']');
	data_table_clear(&hotspots);
	json_close(o, '}');
}

static void put_untraced(struct json_output *o, const struct profile_process *process)
{
	const struct profile_untraced *untraced = &process->untraced;
	double share = (double)untraced->self_ns / (double)profile_wall_ns(process);

	if (!untraced->tid)
		return;
	json_put(o, "untraced",
		 json_object_of(
			 {"tid", json_of_integer(untraced->tid)},
			 {"wall_ns", json_of_integer(untraced->wall_ns)},
			 {"self_ns", json_of_integer(untraced->self_ns)},
			 {"self_percent", isfinite(share) ? json_real(100.0 * share) : json_null()},
			 {"traced_ns", json_of_integer(untraced->wall_ns - untraced->self_ns -
						       untraced->running_ns)},
			 {"running_ns", json_of_integer(untraced->running_ns)},
			 {"at_least", json_boolean(untraced->at_least)},
			 {"on_cpu_min_ns", json_of_measured(untraced->on_cpu_min_ns)},
			 {"on_cpu_max_ns", json_of_measured(untraced->on_cpu_max_ns)}));
}

/* attached_late: code that was not traced from its begin on; ended_unseen_ns: lifetime of an
 * untraced process. */
static void put_late(struct json_output *o, const struct profile *p, uint32_t process)
{
	static const char *const causes[] = {
		[PERFX_LATE_INVALID] = "unknown",
		[PERFX_LATE_FORKED] = "fork",
		[PERFX_LATE_MAPPED] = "map",
		[PERFX_LATE_EXECUTED] = "exec",
	};
	json_t *rows = json_array();

	for (size_t i = 0; i < p->late_count; i++) {
		const struct profile_late *row = &p->late[i];
		/* a later version may have more causes */
		unsigned cause = row->cause <= PERFX_LATE_EXECUTED ? row->cause : 0;

		if (row->process != process)
			continue;
		if (!row->functions_count) {
			json_put_integer(o, "ended_unseen_ns", row->late_ns);
			continue;
		}
		json_array_append_new(
			rows, json_object_of({"after", json_string(causes[cause])},
					     {"late_ns", json_of_integer(row->late_ns)},
					     {"functions", json_of_integer(row->functions_count)},
					     {"files", json_of_integer(row->files_count)},
					     {"path", json_of_any_string(row->module)}));
	}
	json_put(o, "attached_late", json_unless_empty(rows));
}

/* sampled_operators: on a CPU, in time that no traced operator has. */
static void put_sampled_operators(struct json_output *o, const struct profile *p,
				  const struct profile_process *process)
{
	struct sampled_operators operators;

	if (sampled_operators_find(&operators, p, process))
		o->err = -ENOMEM;
	if (!operators.count)
		return;
	json_open(o, "sampled_operators", '[');
	for (size_t i = 0; i < operators.count; i++)
		json_put(o, NULL,
			 json_object_of({"name", json_of_string(operators.list[i].name)},
					{"samples", json_of_integer(operators.list[i].count)},
					{"on_cpu_ns", json_of_integer(operators.list[i].ns)}));
	json_close(o, ']');
}

static void put_process(struct json_output *o, const struct profile *p,
			const struct data_table_row *row)
{
	struct data_table processes = {.kind = data_table_kind_named("processes"), .profile = p};
	struct data_table memory = {.kind = data_table_kind_named("memory"), .profile = p};
	const struct profile_process *process = row->process;
	struct data_table_row domain = *row;

	json_open(o, NULL, '{');
	json_put_members(o, json_of_row(&processes, row));
	json_put_end(o, p, process);
	put_late(o, p, process->index);
	json_put_rows(o, "functions", "functions", p, row);
	put_parallel(o, p, &row->analysis->parallel);
	put_untraced(o, process);
	json_put_code(o, p, row);
	if (process->memory_count) {
		json_open(o, "memory", '[');
		for (; domain.item < process->memory_count; domain.item++)
			put_domain(o, &memory, &domain);
		json_close(o, ']');
	}
	json_put_gpu(o, p, row);
	put_compute(o, p, process);
	json_put_steps(o, p, row);
	json_put_step_time(o, row->analysis);
	put_inferences(o, p, process);
	put_values(o, process);
	json_put_memory_sums(o, p, process);
	json_put_files(o, process);
	put_counters(o, p, process);
	json_put_rows(o, "threads", "threads", p, row);
	json_put_rows(o, "findings", "findings", p, row);
	if (row->analysis->silence)
		json_put(o, "silence", json_of_sentence(row->analysis->silence));
	put_sampled_operators(o, p, process);
	json_close(o, '}');
	data_table_clear(&processes);
	data_table_clear(&memory);
}

int report_write_json(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	struct json_output o = {.file = out};
	const char *command = profile->command;
	json_t *arguments = json_array();
	struct text word = {0};

	while ((command = shell_word(&word, command))) {
		json_array_append_new(arguments, json_of_string(text_peek(&word)));
		text_clear(&word);
	}
	text_clear(&word);
	json_open(&o, NULL, '{');
	json_put(&o, "schema", json_string("perfx.report/1"));
	json_put(&o, "verdict", json_of_sentence(analysis->verdict));
	json_put_object(&o, "tool",
			json_object_of({"name", json_string("perfx-trace")},
				       {"version", json_of_string(profile->tool_version)},
				       {"command", arguments}));
	if (analysis->rules_file)
		json_put_object(
			&o, "rules",
			json_object_of({"file", json_of_string(analysis->rules_file)},
				       {"silenced", json_of_integer(analysis->silenced_count)}));
	put_capture(&o, profile);
	put_losses(&o, profile->losses);
	put_captures(&o, profile);
	put_overhead(&o, profile, options->full);
	json_open(&o, "not_attached", '[');
	for (size_t i = 0; i < profile->not_attached_count; i++) {
		const struct profile_not_attached *row = &profile->not_attached[i];

		json_put(&o, NULL,
			 json_object_of({"name", json_of_string(row->name)},
					{"reason", json_of_string(row->reason)},
					{"count", json_of_integer(row->count)},
					{"by_design", json_boolean(row->by_design)}));
	}
	json_close(&o, ']');
	put_peaks(&o, profile);
	put_energy(&o, profile, options);
	json_put_ranks(&o, profile, &analysis->ranks);
	if (analysis->dump) {
		json_open(&o, "dump", '{');
		dump_put_json(&o, profile, analysis->dump);
		json_close(&o, '}');
	}
	if (profile->perf_counters_why)
		json_put_string(&o, "perf_counters_missing", profile->perf_counters_why);
	json_put_job_memory(&o, profile);
	json_open(&o, "processes", '[');
	for (size_t i = 0; i < profile->processes_count; i++)
		put_process(&o, profile,
			    &(struct data_table_row){.process = &profile->processes[i],
						     .analysis = &analysis->processes[i]});
	json_close(&o, ']');
	return json_end(&o);
}

int report_json_text(char **text, size_t *size, const struct profile *profile,
		     const struct analysis *analysis, const struct report_options *options)
{
	FILE *out = open_memstream(text, size);
	int err = out ? report_write_json(out, profile, analysis, options) : -ENOMEM;

	if (out && fclose(out) && !err)
		err = -ENOMEM;
	return err;
}
