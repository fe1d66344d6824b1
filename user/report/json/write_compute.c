// SPDX-License-Identifier: BSD-2-Clause
/*
 * Floating-point work in the JSON report. Of a function the numbers are inclusive, as its total_ns
 * is; own_flops and own_bytes are those of its own calls. Absent is not measured: a function of
 * which no call has a known cost, nor any call that it made, has no flops.
 */
#include "analyze/roofline.h"
#include "decode/names.h"
#include "report/json/output.h"

static void set_integer(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_of_integer(value));
}

static void set_positive(json_t *object, const char *key, double value, double unit)
{
	if (value > 0)
		json_object_set_new(object, key, json_real(value / unit));
}

json_t *json_of_call_costs(const struct profile_cost *cost)
{
	json_t *object = json_object();

	set_integer(object, "counted", cost->counted_count);
	set_integer(object, "unread", cost->unread_count);
	set_integer(object, "silenced", cost->nested_count);
	if (cost->opaque_count)
		set_integer(object, "opaque", cost->opaque_count);
	if (cost->submitted_count)
		set_integer(object, "submitted", cost->submitted_count);
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
	set_integer(object, "bus_bytes", cost->bus_bytes);
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
			set_integer(flops, name, cost->flops);
		json_object_set_new(calls, name, json_of_call_costs(cost));
	}
	json_put(o, "sources", flops);
	json_put(o, "figures_by_source", calls);
}

static void put_dtypes(struct json_output *o, const struct profile_compute *compute)
{
	json_t *object = json_object();

	for (size_t i = 0; i < compute->dtypes_count; i++)
		set_integer(object, name_of_dtype(compute->dtypes[i].dtype),
			    compute->dtypes[i].flops);
	json_put(o, "dtypes", object);
}

/* What is known only with operations: rates and the peak. */
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
				  profile_wall_ns(process)),
		     1);
	set_positive(object, "cores", roofline_cores(profile, process), 1);
	set_bus(object, &process->compute.cost, profile_wall_ns(process));
	return object;
}

void json_put_compute(struct json_output *o, const struct profile *profile,
		      const struct profile_process *process)
{
	const struct profile_compute *compute = &process->compute;
	double attributed = roofline_attributed(compute);

	if (!compute->measured)
		return;
	json_open(o, "compute", '{');
	if (compute->cost.counted_count) {
		json_put(o, "flops", json_of_integer(compute->cost.flops));
		json_put(o, "bytes", json_of_integer(compute->cost.bytes));
		json_put(o, "moved_bytes", json_of_integer(compute->cost.moved_bytes));
	}
	json_put_members(o, rates_of(profile, process));
	put_sources(o, compute);
	put_dtypes(o, compute);
	json_put(o, "figures", json_of_call_costs(&compute->cost));
	json_put(o, "counted_ns", json_of_integer(compute->counted_ns));
	json_put(o, "unread_ns", json_of_integer(compute->unread_ns));
	if (compute->opaque_ns)
		json_put(o, "opaque_ns", json_of_integer(compute->opaque_ns));
	if (attributed >= 0)
		json_put(o, "attributed", json_real(attributed));
	json_close(o, '}');
}

void json_put_peaks(struct json_output *o, const struct profile *profile)
{
	if (!profile->peaks_count)
		return;
	json_open(o, "peaks", '[');
	for (size_t i = 0; i < profile->peaks_count; i++) {
		const struct perfx_peak *peak = &profile->peaks[i];
		json_t *object = json_object();

		set_integer(object, "threads", peak->threads);
		if (peak->dtype != PERFX_DTYPE_UNKNOWN)
			json_object_set_new(object, "dtype",
					    json_string(name_of_dtype(peak->dtype)));
		set_positive(object, "gflops_per_s", (double)peak->flops_per_s, 1e9);
		if (peak->bytes_per_s)
			set_integer(object, "bytes_per_s", peak->bytes_per_s);
		json_object_set_new(object, "origin",
				    json_string(name_of_peak_origin(peak->origin)));
		json_put(o, NULL, object);
	}
	json_close(o, ']');
}
