// SPDX-License-Identifier: BSD-2-Clause
/*
 * The comparison for programs: perfx.diff/1. A number is {"a", "b", "change", "ratio"}, where
 * change is (b - a) / a; unknown numbers are left out.
 */
#include "analyze/location.h"
#include "decode/names.h"
#include "diff/diff.h"
#include "report/json/output.h"

#include <math.h>

static json_t *json_of_pair(struct diff_pair pair)
{
	if (isnan(pair.a) && isnan(pair.b))
		return json_null();
	return json_object_of({"a", json_of_number(pair.a)}, {"b", json_of_number(pair.b)},
			      {"change", json_of_number(diff_change(pair))},
			      {"ratio", json_of_number(diff_ratio(pair))});
}

static json_t *side_of(unsigned in)
{
	static const char *const names[] = {"", "a", "b", "both"};

	return json_string(names[in]);
}

static json_t *json_of_spreads(const struct sample *a, const struct sample *b)
{
	return json_of_pair((struct diff_pair){a->stddev < 0 ? NAN : a->stddev,
					       b->stddev < 0 ? NAN : b->stddev});
}

/* Members of the test whether two means differ. */
#define WELCH(welch)                                                      \
	{"t", json_of_number((welch).known ? (welch).t : NAN)},           \
		{"df", json_of_number((welch).known ? (welch).df : NAN)}, \
	{                                                                 \
		"p", json_of_number((welch).known ? (welch).p : NAN)      \
	}

static json_t *function_object(const struct diff_function *f)
{
	bool is_range = f->function->flags & PERFX_FUNCTION_RANGE;
	bool has_rate = !isnan(diff_change(f->flops_per_s));
	struct text line = {0};
	json_t *object;

	if (f->line)
		location_frame(&line, f->line, LOCATION_FULL);
	object = json_object_of(
		{"name", json_of_string(f->function->name)},
		{"label", json_of_string(function_label(f->function))},
		{"module", json_of_string(f->function->module)},
		{"offset", json_of_integer(f->function->offset)},
		{"source", json_of_string(name_of_source(f->function->source))},
		{"python_line", json_of_any_string(text_peek(&line))},
		{"kind", is_range ? json_string("range") : json_null()}, {"in", side_of(f->in)},
		{"calls", json_of_pair(f->calls)}, {"avg_ns", json_of_pair(f->avg_ns)},
		{"stddev_ns", json_of_spreads(&f->a, &f->b)},
		{"total_share", json_of_pair(f->total_share)},
		{"self_share", json_of_pair(f->self_share)},
		{"calls_per_s", json_of_pair(f->calls_per_s)},
		{"flops_per_call", json_of_pair(f->flops_per_call)},
		{"flops_per_s", json_of_pair(f->flops_per_s)},
		{"impact_share", json_of_number(f->impact)}, WELCH(f->welch),
		{"time", json_of_string(diff_time_word(f->time))},
		{"rate", has_rate ? json_of_string(diff_time_word(f->rate)) : json_null()},
		{"regression", json_boolean(f->regressed)});
	text_clear(&line);
	return object;
}

static json_t *steps_object(const struct diff_steps *steps)
{
	json_t *breakdown = json_object();

	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
		json_set(breakdown, profile_phase_name((enum profile_phase)phase),
			 json_of_pair(steps->phases_ns[phase]));
	return json_object_of({"in", side_of(steps->in)}, {"count", json_of_pair(steps->count)},
			      {"avg_ns", json_of_pair(steps->avg_ns)},
			      {"stddev_ns", json_of_spreads(&steps->a, &steps->b)},
			      {"p50_ns", json_of_pair(steps->p50_ns)},
			      {"p95_ns", json_of_pair(steps->p95_ns)},
			      {"max_ns", json_of_pair(steps->max_ns)}, {"breakdown", breakdown},
			      {"flops", json_of_pair(steps->flops)},
			      {"flops_per_s", json_of_pair(steps->flops_per_s)},
			      {"mfu", json_of_pair(steps->mfu)},
			      {"gpu_busy_ns", json_of_pair(steps->gpu_busy_ns)},
			      {"gpu_kernels", json_of_pair(steps->gpu_kernels)},
			      {"gpu_wait_ns", json_of_pair(steps->gpu_wait_ns)},
			      {"gpu_energy_j", json_of_pair(steps->gpu_energy_j)},
			      WELCH(steps->welch),
			      {"time", json_of_string(diff_time_word(steps->time))},
			      {"regression", json_boolean(steps->regressed)});
}

static json_t *gpu_work_object(const struct diff_gpu_work *work)
{
	bool is_copy = diff_gpu_table(work->op) == DIFF_GPU_COPIES, judged = work->welch.known;

	return json_object_of(
		{"op", json_of_string(name_of_gpu_op(work->op))},
		{"direction", is_copy ? json_of_string(name_of_gpu_copy(work->op, work->direction))
				      : json_null()},
		{"host_memory", is_copy ? json_of_string(name_of_gpu_host_memory(work->host_memory))
					: json_null()},
		{"name", is_copy ? json_null() : json_of_string(work->name)},
		{"function", is_copy ? json_null() : json_of_any_string(work->caller)},
		{"in", side_of(work->in)}, {"calls", json_of_pair(work->calls)},
		{"calls_per_s", json_of_pair(work->calls_per_s)},
		{"avg_ns", json_of_pair(work->avg_ns)},
		{"stddev_ns", json_of_spreads(&work->a, &work->b)},
		{"total_share", json_of_pair(work->share)},
		{"bytes_per_s", json_of_pair(work->bytes_per_s)},
		{"rate_bytes_per_s", json_of_pair(work->rate)},
		{"impact_share", json_of_number(judged ? work->impact : NAN)}, WELCH(work->welch),
		{"time", judged ? json_of_string(diff_time_word(work->time)) : json_null()},
		{"regression", judged ? json_boolean(work->regressed) : json_null()});
}

static void put_gpu(struct json_output *o, const struct diff_gpu *gpu)
{
	json_t *object =
		json_object_of({"busy_share", json_of_pair(gpu->busy_share)},
			       {"utilisation", json_of_pair(gpu->utilisation)},
			       {"launches_per_s", json_of_pair(gpu->launches_per_s)},
			       {"launch_latency_p50_ns", json_of_pair(gpu->latency_p50_ns)},
			       {"wait_share", json_of_pair(gpu->wait_share)},
			       {"exposed_communication_share", json_of_pair(gpu->exposed_share)},
			       {"flops_per_s", json_of_pair(gpu->flops_per_s)},
			       {"mfu", json_of_pair(gpu->mfu)},
			       {"power_w", json_of_pair(gpu->power_w)});

	if (!json_object_size(object) && !gpu->works_count) {
		json_decref(object);
		return;
	}
	json_put(o, "gpu", object);
	json_open(o, "gpu_work", '[');
	for (size_t i = 0; i < gpu->works_count; i++)
		json_put(o, NULL, gpu_work_object(&gpu->works[i]));
	json_close(o, ']');
}

static void put_side(struct json_output *o, const char *key, const char *file,
		     const struct profile *profile)
{
	json_put(o, key,
		 json_object_of({"file", json_of_string(file)},
				{"start_unix_ns", json_of_integer(profile->start_unix_ns)},
				{"duration_ns", json_of_integer(profile->duration_ns)},
				{"host", json_of_string(profile->host_name)},
				{"partial", json_boolean(profile->partial)},
				{"overhead_percent", json_of_known(profile->overhead_percent)}));
}

static json_t *json_of_identity(const struct profile_process *p)
{
	return p ? json_object_of({"pid", json_of_integer(p->pid)},
				  {"comm", json_of_string(p->comm)})
		 : json_null();
}

static void put_process(struct json_output *o, const struct diff_process *p)
{
	json_open(o, NULL, '{');
	json_put(o, "a", json_of_identity(p->a));
	json_put(o, "b", json_of_identity(p->b));
	json_put(o, "wall_ns", json_of_pair(p->wall_ns));
	json_put(o, "cores", json_of_pair(p->cores));
	json_put(o, "flops_per_s", json_of_pair(p->flops_per_s));
	if (p->steps.in)
		json_put(o, "steps", steps_object(&p->steps));
	json_open(o, "findings", '[');
	for (size_t i = 0; i < p->findings_count; i++) {
		const struct finding *f = p->findings[i].finding;

		json_put(o, NULL,
			 json_object_of({"in", side_of(p->findings[i].in)},
					{"kind", json_of_string(f->kind)},
					{"severity",
					 json_of_string(finding_severity_name(f->severity))},
					{"subject", json_of_sentence(f->subject)},
					{"evidence", json_of_sentence(f->evidence)}));
	}
	json_close(o, ']');
	json_open(o, "functions", '[');
	for (size_t i = 0; i < p->functions_count; i++)
		json_put(o, NULL, function_object(&p->functions[i]));
	json_close(o, ']');
	put_gpu(o, &p->gpu);
	json_open(o, "memory", '[');
	for (size_t i = 0; i < p->memory_count; i++) {
		const struct diff_memory *m = &p->memory[i];
		const char *domain = m->domain ? name_of_domain(m->domain) : "resident";

		json_put(o, NULL,
			 json_object_of({"domain", json_of_string(domain)},
					{"peak_bytes", json_of_pair(m->peak_bytes)},
					{"allocated_bytes_per_s", json_of_pair(m->allocated_per_s)},
					{"allocs_per_s", json_of_pair(m->allocs_per_s)},
					{"exact", json_boolean(m->exact)},
					{"peak", json_of_string(diff_memory_word(m->verdict))},
					{"regression", json_boolean(m->regressed)}));
	}
	json_close(o, ']');
	json_open(o, "places", '[');
	for (size_t i = 0; i < p->places_count; i++) {
		const struct diff_place *place = &p->places[i];
		const char *domain = name_of_domain(place->memory->domain);
		struct text name = {0};

		location_hotspot(&name, place->profile, place->memory, place->hotspot);
		json_put(o, NULL,
			 json_object_of(
				 {"place", json_of_sentence(text_peek(&name))},
				 {"domain", json_of_string(domain)}, {"in", side_of(place->in)},
				 {"live_at_peak_bytes", json_of_pair(place->live_at_peak_bytes)},
				 {"live_bytes", json_of_pair(place->live_bytes)},
				 {"allocated_bytes_per_s", json_of_pair(place->allocated_per_s)},
				 {"allocs_per_s", json_of_pair(place->allocs_per_s)}));
		text_clear(&name);
	}
	json_close(o, ']');
	json_close(o, '}');
}

int diff_write_json(FILE *out, const struct diff *diff, const struct diff_options *options)
{
	struct json_output o = {.file = out};
	struct text verdict = {0};

	diff_say_verdict(&verdict, diff);
	json_open(&o, NULL, '{');
	json_put(&o, "schema", json_string("perfx.diff/1"));
	json_put(&o, "verdict", json_of_sentence(text_peek(&verdict)));
	text_clear(&verdict);
	put_side(&o, "a", options->name_a, diff->a);
	put_side(&o, "b", options->name_b, diff->b);
	json_put(&o, "summary",
		 json_object_of({"compared", json_of_integer(diff->compared_count)},
				{"tested", json_of_integer(diff->tested_count)},
				{"slower", json_of_integer(diff->worse_count)},
				{"faster", json_of_integer(diff->better_count)},
				{"regressions", json_of_integer(diff->regressions_count)},
				{"threshold", json_of_number(diff->threshold)}));
	json_open(&o, "processes", '[');
	for (size_t i = 0; i < diff->processes_count; i++)
		put_process(&o, &diff->processes[i]);
	json_close(&o, ']');
	return json_end(&o);
}
