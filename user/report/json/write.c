// SPDX-License-Identifier: BSD-2-Clause
/*
 * The JSON report, "perfx.report/1": a contract, so fields are only ever added. Integers are
 * nanoseconds and bytes; what was not measured is left out. Rows of long arrays are written one by
 * one, so that memory does not grow with the report:
 *
 *     "overhead": {
 *       "hits": 24690,
 *       "probes": [
 *         {"name": "gemm", "module": "libblas.so.3", "offset": 4096, …},
 *         {"name": "gemm", …}
 *       ]
 *     },
 */
#include "analyze/location.h"
#include "analyze/operators.h"
#include "analyze/roofline.h"
#include "base/text.h"
#include "base/units.h"
#include "decode/names.h"
#include "report/document/compose.h"
#include "report/json/output.h"
#include "report/report.h"

#include <errno.h>
#include <math.h>

/* A command line of the recording shell → its arguments. */
static json_t *arguments_of_line(const char *line)
{
	json_t *array = json_array();
	struct text word = {0};

	while (array && (line = shell_word(&word, line))) {
		json_array_append_new(array, json_of_string(text_peek(&word)));
		text_clear(&word);
	}
	text_clear(&word);
	return array;
}

json_t *json_of_place(const struct finding_place *place)
{
	json_t *object = json_object();

	json_set_string(object, "function", place->function);
	if (place->file[0])
		json_set_string(object, "file", place->file);
	json_set_count(object, "line", place->line);
	return object;
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

/* Since the start, as peak_at_ns is. */
static void put_recording_windows(struct json_output *o, const struct profile *p)
{
	uint64_t sum_ns = 0;

	if (!p->recording_windows_count)
		return;
	json_open(o, "windows", '[');
	for (size_t i = 0; i < p->recording_windows_count; i++) {
		const struct profile_interval *recording_window = &p->recording_windows[i];
		json_t *object = json_object();

		sum_ns += recording_window->to_ns - recording_window->from_ns;
		json_set_integer(object, "start_ns", recording_window->from_ns - p->start_ns);
		json_set_integer(object, "end_ns", recording_window->to_ns - p->start_ns);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
	json_put_integer(o, "recorded_ns", sum_ns);
}

/* "left_out": ["hits", "loss"]: sums of which those at the slice's ends are missing. */
static void put_left_out(struct json_output *o, uint32_t left_out)
{
	json_t *kinds;

	if (!left_out)
		return;
	kinds = json_array();
	for (enum perfx_kind kind = PERFX_KIND_OVERFLOW_CALLS; left_out; kind++, left_out >>= 1)
		if (left_out & 1 && name_of_kind(kind))
			json_array_append_new(kinds, json_string(name_of_kind(kind)));
	json_put(o, "left_out", kinds);
}

/* "part": {"kind": "flight", "after_ns": 690000000000, "why": "SIGUSR1", …}: of the recording, so
 * much lies before. */
static void put_time_slice(struct json_output *o, const struct profile *p)
{
	const struct profile_time_slice *time_slice = &p->time_slice;

	if (!time_slice->flags)
		return;
	json_open(o, "part", '{');
	json_put(o, "kind",
		 json_string(time_slice->flags & PERFX_TIME_SLICE_VIEW ? "view" : "flight"));
	json_put_integer(o, "after_ns", p->start_ns - time_slice->recording_ns);
	if (*time_slice->why)
		json_put_string(o, "why", time_slice->why);
	json_put(o, "memory_full", json_boolean(time_slice->flags & PERFX_TIME_SLICE_FULL));
	json_put_integer(o, "left_out_calls", time_slice->left_out_count);
	put_left_out(o, time_slice->left_out);
	json_close(o, '}');
}

static void put_capture(struct json_output *o, const struct profile *p)
{
	json_t *reasons = json_array();

	if (p->partial & PROFILE_PARTIAL_KILLED)
		json_array_append_new(reasons, json_string("target_killed"));
	if (p->partial & PROFILE_PARTIAL_TRUNCATED)
		json_array_append_new(reasons, json_string("truncated"));
	if (p->partial & PROFILE_PARTIAL_LOSSY)
		json_array_append_new(reasons, json_string("lossy"));
	json_open(o, "capture", '{');
	json_put_integer(o, "start_unix_ns", p->start_unix_ns);
	json_put_integer(o, "duration_ns", p->duration_ns);
	put_recording_windows(o, p);
	json_put(o, "partial", json_boolean(p->partial != 0));
	json_put(o, "partial_reasons", reasons);
	put_time_slice(o, p);
	json_open(o, "host", '{');
	json_put_string(o, "name", p->host_name);
	json_put_string(o, "kernel", p->kernel);
	json_put_integer(o, "cpus", p->cpus_count);
	if (p->memory_mib)
		json_put_integer(o, "memory_bytes", (uint64_t)p->memory_mib << 20);
	if (p->boot_id[0])
		json_put_string(o, "boot_id", p->boot_id);
	json_put_measured(o, "busy_ns", p->host_busy_ns);
	json_put_measured(o, "others_cpu_ns", profile_others_cpu_ns(p));
	json_put_measured(o, "steal_ns", p->host_steal_ns);
	json_close(o, '}');
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
		json_put_measured(o, "error_ns", capture->facts.error_ns);
		json_put(o, "drift_ppb", json_integer(capture->facts.drift_ppb));
		json_put_integer(o, "pairs", capture->facts.pairs_count);
		put_losses(o, capture->losses);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static json_t *probe_object(const struct profile *p, const struct profile_probe *probe)
{
	const struct profile_function *function = profile_function(p, probe->function);
	json_t *object = json_object();

	json_set_string(object, "name", function ? function->name : "");
	json_set_string(object, "module", function ? function->module_base : "");
	json_set_integer(object, "offset", probe->offset);
	json_object_set_new(object, "link", json_string(name_of_link(probe->link)));
	json_object_set_new(object, "return", json_string(name_of_return(probe->ret)));
	json_object_set_new(object, "site", json_string(name_of_site(probe->site)));
	json_object_set_new(object, "at", json_string(probe->is_exit ? "exit" : "entry"));
	json_set_integer(object, "hits", probe->hits_count);
	if (probe->cost_ns > 0)
		json_object_set_new(object, "ns_per_hit", json_real(probe->cost_ns));
	return object;
}

static void put_observed(struct json_output *o, const struct profile *p)
{
	const struct profile_observed *observed = &p->observed;

	if (!observed->without_ns)
		return;
	json_open(o, "observed", '{');
	json_put_integer(o, "steps_without", observed->steps_without);
	json_put_integer(o, "steps_with", observed->steps_with);
	json_put_integer(o, "without_ns", observed->without_ns);
	json_put_integer(o, "with_ns", observed->with_ns);
	json_put(o, "percent", json_real(profile_observed_percent(observed)));
	json_put(o, "noise_percent", json_real(observed->noise_percent));
	if (p->overhead_percent >= 0) {
		enum slowdown_agreement agreement = profile_slowdown_agreement(p);

		if (agreement == SLOWDOWN_AGREES || agreement == SLOWDOWN_DISAGREES)
			json_put(o, "agrees", json_boolean(agreement == SLOWDOWN_AGREES));
	}
	json_close(o, '}');
}

/* Lists the probes that were hit; with `all` every probe. */
static void put_probes(struct json_output *o, const struct profile *p, bool all)
{
	size_t left_out = 0;

	json_open(o, "probes", '[');
	for (size_t i = 0; i < p->probes_count; i++) {
		if (all || p->probes[i].hits_count)
			json_put(o, NULL, probe_object(p, &p->probes[i]));
		else
			left_out++;
	}
	json_close(o, ']');
	json_put_integer(o, "probes_left_out", left_out);
}

static void put_overhead(struct json_output *o, const struct profile *p, bool full)
{
	json_open(o, "overhead", '{');
	json_put_integer(o, "hits", p->hits_count);
	if (p->hits_count && p->overhead_ns > 0)
		json_put(o, "ns_per_hit", json_real(p->overhead_ns / (double)p->hits_count));
	if (p->overhead_percent >= 0)
		json_put(o, "estimated_percent", json_real(p->overhead_percent));
	if (p->tracer_wait_percent > 0)
		json_put(o, "tracer_wait_percent", json_real(p->tracer_wait_percent));
	put_observed(o, p);
	json_put(o, "compensated", json_boolean(p->compensated));
	json_put_measured(o, "tracer_cpu_ns", p->tracer_cpu_ns);
	json_put_measured(o, "tracer_rss_anon_bytes", p->tracer_rss_anon_bytes);
	if (p->tracer_rss_peak_bytes)
		json_put_integer(o, "tracer_rss_peak_bytes", p->tracer_rss_peak_bytes);
	json_put_measured(o, "tracer_looks", p->maps_read_count);
	json_put_measured(o, "tracer_strangers_read", p->untraced_read_count);
	put_probes(o, p, full);
	if (p->samples_cost_ns || p->waits_cost_ns) {
		json_put_integer(o, "samples_cost_ns", p->samples_cost_ns);
		json_put_integer(o, "waits_cost_ns", p->waits_cost_ns);
	}
	json_close(o, '}');
}

static void put_not_attached(struct json_output *o, const struct profile *p)
{
	json_open(o, "not_attached", '[');
	for (size_t i = 0; i < p->not_attached_count; i++) {
		const struct profile_not_attached *row = &p->not_attached[i];
		json_t *object = json_object();

		json_set_string(object, "name", row->name);
		json_set_string(object, "reason", row->reason);
		json_set_integer(object, "count", row->count);
		json_object_set_new(object, "by_design", json_boolean(row->by_design));
		json_put(o, NULL, object);
	}
	json_close(o, ']');
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
		json_t *object = json_object();

		json_set_string(object, "name", named ? named->name : "");
		json_set_integer(object, "total_ns", function->total_ns);
		json_set_integer(object, "threads", function->parallelism.threads_count);
		json_object_set_new(object, "speedup", json_real(function->parallelism.speedup));
		json_object_set_new(object, "efficiency",
				    json_real(function->parallelism.efficiency));
		json_set_integer(object, "samples", function->parallelism.samples_count);
		json_put(o, NULL, object);
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

static json_t *object_of_user_value(const struct profile_user_value *value)
{
	json_t *object = json_object();
	bool any = value->lowest <= value->highest;

	json_set_string(object, "name", value->name);
	json_set_number(object, "value", value->value);
	json_object_set_new(object, "unit", json_string(""));
	json_set_integer(object, "samples", value->samples_count);
	json_set_count(object, "added", value->added_count);
	json_set_number(object, "last", value->value);
	json_set_number(object, "sum", any || value->lost_count ? value->sum : NAN);
	json_set_number(object, "min", any ? value->lowest : NAN);
	json_set_number(object, "max", any ? value->highest : NAN);
	json_set_number(object, "rate", any || value->lost_count ? value->rate : NAN);
	json_set_count(object, "not_finite", value->strange_count);
	json_set_count(object, "lost", value->lost_count);
	json_set_count(object, "not_summed", value->unsummed_count);
	return object;
}

static void put_values(struct json_output *o, const struct profile_process *process)
{
	if (!process->values_count)
		return;
	json_open(o, "counters", '[');
	for (size_t i = 0; i < process->values_count; i++)
		json_put_exact(o, NULL, object_of_user_value(&process->values[i]));
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
		object = json_object();
		json_set_string(object, "name", counter->name);
		json_set_integer(object, "value", process->perf.values[i]);
		json_set_string(object, "unit", counter->unit);
		json_set_integer(object, "samples", process->perf.threads_count);
		json_object_set_new(object, "counted_share", json_real(perf_share(&process->perf)));
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

static void set_positive(json_t *object, const char *key, double value, double unit)
{
	if (value > 0)
		json_object_set_new(object, key, json_real(value / unit));
}

json_t *json_of_call_costs(const struct profile_cost *cost)
{
	json_t *object = json_object();

	json_set_integer(object, "counted", cost->counted_count);
	json_set_integer(object, "unread", cost->unread_count);
	json_set_integer(object, "silenced", cost->nested_count);
	json_set_count(object, "opaque", cost->opaque_count);
	json_set_count(object, "submitted", cost->submitted_count);
	json_set_count(object, "assumed", cost->assumed_count);
	return object;
}

static void set_roofline(json_t *object, const struct roofline *line)
{
	const char *bound = roofline_class_name(line->bound);
	const char *withheld = roofline_withheld_name(line->withheld);

	set_positive(object, "gflops_per_s", line->flops_per_s, 1e9);
	set_positive(object, "intensity", line->intensity, 1);
	set_positive(object, "attainable_gflops_per_s", line->attainable_flops_per_s, 1e9);
	if (bound)
		json_object_set_new(object, "roofline", json_string(bound));
	if (withheld)
		json_object_set_new(object, "rate_withheld", json_string(withheld));
}

/* By the process's time: the calls themselves return when the work has been handed to the GPU. */
static void set_bus(json_t *object, const struct profile_cost *cost, uint64_t wall_ns)
{
	if (wall_ns)
		set_positive(object, "moved_bytes_per_s",
			     (double)cost->moved_bytes / (double)wall_ns, 1e-9);
	if (!profile_bus_known(cost))
		return;
	json_set_integer(object, "bus_bytes", cost->bus_bytes);
	if (wall_ns)
		set_positive(object, "bus_bytes_per_s", (double)cost->bus_bytes / (double)wall_ns,
			     1e-9);
}

static void put_sources(struct json_output *o, const struct profile_compute *compute)
{
	json_t *flops = json_object(), *calls = json_object();

	for (size_t i = 0; i < compute->sources_count; i++) {
		const struct profile_cost *cost = &compute->sources[i].cost;
		const char *name = name_of_source(compute->sources[i].source);

		if (cost->counted_count)
			json_set_integer(flops, name, cost->flops);
		json_object_set_new(calls, name, json_of_call_costs(cost));
	}
	json_put(o, "sources", flops);
	json_put(o, "figures_by_source", calls);
}

/* Rates and the peak, which need known operations. */
static json_t *rates_of(const struct profile *profile, const struct profile_process *process)
{
	struct roofline line = roofline_of_process(profile, process);
	enum perfx_dtype dtype = roofline_dtype(process);
	struct roof roof = roofline_whole_roof(profile, dtype);
	json_t *object = json_object();

	set_roofline(object, &line);
	set_positive(object, "peak_gflops_per_s", roof.flops_per_s, 1e9);
	if (roof.flops_per_s > 0)
		json_object_set_new(object, "peak_dtype", json_string(name_of_dtype(roof.dtype)));
	if (roof.estimated)
		json_object_set_new(object, "peak_estimated", json_true());
	set_positive(object, "peak_bytes_per_s", roof.bytes_per_s, 1);
	set_positive(object, "mfu",
		     roofline_mfu(profile, dtype, process->compute.cost.flops,
				  roofline_wall_ns(process)),
		     1);
	set_positive(object, "cores", roofline_cores(profile, process), 1);
	set_bus(object, &process->compute.cost, profile_wall_ns(process));
	return object;
}

/* Until when all operations were counted: rates are of that time, `flops` is a lower bound. */
static void put_cut(struct json_output *o, const struct profile *profile,
		    const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	struct text why = {0};

	add_reduction(&why, profile, compute->until_ns, true);
	json_put_integer(o, "measured_flops", compute->until_flops);
	json_put_integer(o, "measured_ns",
			 compute->until_ns > process->from_ns ? compute->until_ns - process->from_ns
							      : 0);
	json_put(o, "why", json_of_sentence(text_peek(&why)));
	text_clear(&why);
}

static void put_compute(struct json_output *o, const struct profile *profile,
			const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	double attributed = roofline_is_cut(process) ? -1 : roofline_attributed(compute);
	json_t *dtypes;

	if (!compute->measured)
		return;
	json_open(o, "compute", '{');
	if (compute->cost.counted_count) {
		json_put_integer(o, "flops", compute->cost.flops);
		json_put_integer(o, "bytes", compute->cost.bytes);
		json_put_integer(o, "moved_bytes", compute->cost.moved_bytes);
	}
	json_put_members(o, rates_of(profile, process));
	put_sources(o, compute);
	dtypes = json_object();
	for (size_t i = 0; i < compute->dtypes_count; i++)
		json_set_integer(dtypes, name_of_dtype(compute->dtypes[i].dtype),
				 compute->dtypes[i].flops);
	json_put(o, "dtypes", dtypes);
	json_put(o, "figures", json_of_call_costs(&compute->cost));
	json_put_integer(o, "counted_ns", compute->counted_ns);
	json_put_integer(o, "unread_ns", compute->unread_ns);
	if (compute->opaque_ns)
		json_put_integer(o, "opaque_ns", compute->opaque_ns);
	if (attributed >= 0)
		json_put(o, "attributed", json_real(attributed));
	if (roofline_is_cut(process))
		put_cut(o, profile, process);
	json_close(o, '}');
}

static void put_peaks(struct json_output *o, const struct profile *profile)
{
	if (!profile->peaks_count)
		return;
	json_open(o, "peaks", '[');
	for (size_t i = 0; i < profile->peaks_count; i++) {
		const struct perfx_peak *peak = &profile->peaks[i];
		json_t *object = json_object();

		json_set_integer(object, "threads", peak->threads);
		if (peak->dtype != PERFX_DTYPE_UNKNOWN)
			json_set_string(object, "dtype", name_of_dtype(peak->dtype));
		set_positive(object, "gflops_per_s", (double)peak->flops_per_s, 1e9);
		if (peak->bytes_per_s)
			json_set_integer(object, "bytes_per_s", peak->bytes_per_s);
		json_set_string(object, "origin", name_of_peak_origin(peak->origin));
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_energy(struct json_output *o, const struct profile *profile,
		       const struct report_options *options)
{
	const struct profile_host_energy *energy = &profile->energy;

	if (energy->host_uj == PROFILE_ABSENT && energy->gpu_mj == PROFILE_ABSENT)
		return;
	json_open(o, "energy", '{');
	json_put_measured(o, "host_uj", energy->host_uj);
	json_put_measured(o, "gpu_mj", energy->gpu_mj);
	if (options->carbon_intensity > 0)
		json_put(o, "carbon_g",
			 json_real(report_carbon_g(report_joules(energy),
						   options->carbon_intensity)));
	json_close(o, '}');
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

static json_t *frame_string(const struct profile_frame *frame)
{
	struct text text = {0};
	json_t *json = NULL;

	location_frame(&text, frame,
		       frame->language == PERFX_LANGUAGE_PYTHON ? LOCATION_BRIEF : LOCATION_FULL);
	if (!text.failed)
		json = json_of_string(text_peek(&text));
	text_clear(&text);
	return json;
}

json_t *json_of_frames(const struct profile_frame *const *frames, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, frame_string(frames[i]));
	return array;
}

json_t *json_of_windows(const struct profile_memory *memory, const struct profile_hotspot *hotspot)
{
	json_t *array = json_array();

	for (size_t i = 0; i < memory->alloc_windows_count && i < PROFILE_ALLOC_WINDOWS; i++)
		json_array_append_new(array, json_of_integer(hotspot->live_windows[i]));
	return array;
}

static void put_hotspots(struct json_output *o, const struct profile *p,
			 const struct data_table_row *of_memory)
{
	const struct profile_memory *memory = &of_memory->process->memory[of_memory->item];
	struct data_table table = {.kind = data_table_kind_named("hotspots"), .profile = p};
	struct data_table_row row = *of_memory;
	size_t count =
		memory->hotspots_count < HOTSPOTS_MAX ? memory->hotspots_count : HOTSPOTS_MAX;

	json_put_integer(o, "hotspots_left_out", memory->hotspots_count - count);
	json_open(o, "hotspots", '[');
	for (; row.part < count; row.part++)
		json_put(o, NULL, json_of_row(&table, &row));
	json_close(o, ']');
	data_table_clear(&table);
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

static void put_allocators(struct json_output *o, const struct profile_memory *memory)
{
	bool frees_seen = memory->current_bytes != PROFILE_ABSENT;

	json_open(o, "allocators", '[');
	for (size_t i = 0; i < memory->allocators_count; i++) {
		const struct profile_allocator *allocator = &memory->allocators[i];
		json_t *object = json_object();

		json_set_string(object, "name", allocator->name);
		json_set_string(object, "module", allocator->module);
		json_set_integer(object, "allocs", allocator->allocs_count);
		if (frees_seen)
			json_set_integer(object, "frees", allocator->frees_count);
		json_set_integer(object, "allocated_bytes", allocator->allocated_bytes);
		if (frees_seen)
			json_set_measured(object, "live_bytes", allocator->live_bytes);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_sizes(struct json_output *o, const struct profile_memory *memory)
{
	json_open(o, "sizes", '[');
	for (unsigned i = 0; i < PROFILE_SIZES; i++) {
		json_t *object;

		if (!memory->sizes[i])
			continue;
		object = json_object();
		json_set_integer(object, "min_bytes", i ? largest_size(i - 1) + 1 : 0);
		if (i < PROFILE_SIZES - 1)
			json_set_integer(object, "max_bytes", largest_size(i));
		json_set_integer(object, "allocs", memory->sizes[i]);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_series(struct json_output *o, const struct profile *p,
		       const struct profile_memory *memory)
{
	json_open(o, "series", '[');
	for (size_t i = 0; i < memory->points_count; i++) {
		const struct profile_memory_point *point = &memory->points[i];
		json_t *object = json_object();

		json_set_integer(object, "at_ns", profile_since_start(p, point->time_ns));
		if (memory->current_bytes != PROFILE_ABSENT)
			json_set_measured(object, "live_bytes", point->live_bytes);
		json_set_integer(object, "allocs", point->allocs_count);
		json_set_integer(object, "allocated_bytes", point->allocated_bytes);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_domain(struct json_output *o, struct data_table *table,
		       const struct data_table_row *row)
{
	const struct profile_memory *memory = &row->process->memory[row->item];
	const char *unjudged = row->analysis->memory[row->item].unjudged;
	const struct profile *p = table->profile;

	json_open(o, NULL, '{');
	json_put_members(o, json_of_row(table, row));
	put_allocators(o, memory);
	put_sizes(o, memory);
	if (memory->alloc_windows_count) {
		json_put_integer(o, "window_ns", memory->alloc_window_ns);
		json_put_integer(o, "windows_from_ns",
				 profile_since_start(p, memory->alloc_windows_from_ns));
	}
	put_series(o, p, memory);
	if (unjudged)
		json_put(o, "leaks_not_judged", json_string(unjudged));
	put_hotspots(o, p, row);
	json_close(o, '}');
}

static void put_memory(struct json_output *o, const struct profile *p,
		       const struct data_table_row *of_process)
{
	struct data_table table = {.kind = data_table_kind_named("memory"), .profile = p};
	struct data_table_row row = *of_process;

	if (!row.process->memory_count)
		return;
	json_open(o, "memory", '[');
	for (; row.item < row.process->memory_count; row.item++)
		put_domain(o, &table, &row);
	json_close(o, ']');
	data_table_clear(&table);
}

static void put_untraced(struct json_output *o, const struct profile_process *process)
{
	const struct profile_untraced *untraced = &process->untraced;
	uint64_t process_ns = profile_wall_ns(process);
	json_t *object;

	if (!untraced->tid)
		return;
	object = json_object();
	json_set_integer(object, "tid", untraced->tid);
	json_set_integer(object, "wall_ns", untraced->wall_ns);
	json_set_integer(object, "self_ns", untraced->self_ns);
	if (process_ns)
		json_object_set_new(
			object, "self_percent",
			json_real(100.0 * (double)untraced->self_ns / (double)process_ns));
	json_set_integer(object, "traced_ns",
			 untraced->wall_ns - untraced->self_ns - untraced->running_ns);
	json_set_integer(object, "running_ns", untraced->running_ns);
	json_object_set_new(object, "at_least", json_boolean(untraced->at_least));
	json_set_measured(object, "on_cpu_min_ns", untraced->on_cpu_min_ns);
	json_set_measured(object, "on_cpu_max_ns", untraced->on_cpu_max_ns);
	json_put(o, "untraced", object);
}

static json_t *late_object(const struct profile_late *row)
{
	static const char *const causes[] = {
		[PERFX_LATE_INVALID] = "unknown",
		[PERFX_LATE_FORKED] = "fork",
		[PERFX_LATE_MAPPED] = "map",
		[PERFX_LATE_EXECUTED] = "exec",
	};
	json_t *object = json_object();

	/* a later version may have more */
	json_object_set_new(object, "after",
			    json_string(row->cause <= PERFX_LATE_EXECUTED ? causes[row->cause]
									  : causes[0]));
	json_set_integer(object, "late_ns", row->late_ns);
	json_set_integer(object, "functions", row->functions_count);
	json_set_integer(object, "files", row->files_count);
	if (*row->module)
		json_set_string(object, "path", row->module);
	return object;
}

/* attached_late: code that was not traced from its begin on; ended_unseen_ns: lifetime of an
 * untraced process. */
static void put_late(struct json_output *o, const struct profile *p, uint32_t process)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < p->late_count; i++) {
		if (p->late[i].process != process)
			continue;
		if (p->late[i].functions_count)
			json_array_append_new(rows, late_object(&p->late[i]));
		else
			json_put_integer(o, "ended_unseen_ns", p->late[i].late_ns);
	}
	if (json_array_size(rows))
		json_put(o, "attached_late", json_incref(rows));
	json_decref(rows);
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
	for (size_t i = 0; i < operators.count; i++) {
		json_t *object = json_object();

		json_set_string(object, "name", operators.list[i].name);
		json_set_integer(object, "samples", operators.list[i].count);
		json_set_integer(object, "on_cpu_ns", operators.list[i].ns);
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}

static void put_process(struct json_output *o, const struct profile *p,
			const struct data_table_row *row)
{
	struct data_table processes = {.kind = data_table_kind_named("processes"), .profile = p};
	const struct profile_process *process = row->process;

	json_open(o, NULL, '{');
	json_put_members(o, json_of_row(&processes, row));
	put_late(o, p, process->index);
	json_put_rows(o, "functions", "functions", p, row);
	put_parallel(o, p, &row->analysis->parallel);
	put_untraced(o, process);
	json_put_code(o, p, row);
	put_memory(o, p, row);
	json_put_gpu(o, p, row);
	put_compute(o, p, process);
	json_put_steps(o, p, row);
	json_put_step_time(o, row->analysis);
	put_values(o, process);
	put_counters(o, p, process);
	json_put_rows(o, "threads", "threads", p, row);
	json_put_rows(o, "findings", "findings", p, row);
	if (row->analysis->silence)
		json_put(o, "silence", json_of_sentence(row->analysis->silence));
	put_sampled_operators(o, p, process);
	json_close(o, '}');
	data_table_clear(&processes);
}

int report_write_json(FILE *out, const struct profile *profile, const struct analysis *analysis,
		      const struct report_options *options)
{
	struct json_output o = {.file = out};

	json_open(&o, NULL, '{');
	json_put(&o, "schema", json_string("perfx.report/1"));
	json_put(&o, "verdict", json_of_sentence(analysis->verdict));
	json_open(&o, "tool", '{');
	json_put(&o, "name", json_string("perfx-trace"));
	json_put_string(&o, "version", profile->tool_version);
	json_put(&o, "command", arguments_of_line(profile->command));
	json_close(&o, '}');
	if (analysis->rules_file) {
		json_open(&o, "rules", '{');
		json_put_string(&o, "file", analysis->rules_file);
		json_put_integer(&o, "silenced", analysis->silenced_count);
		json_close(&o, '}');
	}
	put_capture(&o, profile);
	put_losses(&o, profile->losses);
	put_captures(&o, profile);
	put_overhead(&o, profile, options->full);
	put_not_attached(&o, profile);
	put_peaks(&o, profile);
	put_energy(&o, profile, options);
	json_put_ranks(&o, profile, &analysis->ranks);
	if (profile->perf_counters_why)
		json_put_string(&o, "perf_counters_missing", profile->perf_counters_why);
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
