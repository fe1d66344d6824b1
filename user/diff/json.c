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

static json_t *pair_object(struct diff_pair pair)
{
	json_t *object = json_object();

	json_set_number(object, "a", pair.a);
	json_set_number(object, "b", pair.b);
	json_set_number(object, "change", diff_change(pair));
	json_set_number(object, "ratio", diff_ratio(pair));
	return object;
}

static void set_pair(json_t *object, const char *key, struct diff_pair pair)
{
	if (!isnan(pair.a) || !isnan(pair.b))
		json_object_set_new(object, key, pair_object(pair));
}

static void put_pair(struct json_output *o, const char *key, struct diff_pair pair)
{
	if (!isnan(pair.a) || !isnan(pair.b))
		json_put(o, key, pair_object(pair));
}

static json_t *side_of(unsigned in)
{
	static const char *const names[] = {"", "a", "b", "both"};

	return json_string(names[in]);
}

static double spread(const struct sample *sample)
{
	return sample->stddev < 0 ? NAN : sample->stddev;
}

static void set_welch(json_t *object, const struct welch *welch)
{
	if (!welch->known)
		return;
	json_set_number(object, "t", welch->t);
	json_set_number(object, "df", welch->df);
	json_set_number(object, "p", welch->p);
}

static void set_line(json_t *object, const struct profile_frame *line)
{
	struct text text = {0};

	if (line)
		location_frame(&text, line, LOCATION_FULL);
	if (text.length)
		json_set_string(object, "python_line", text_peek(&text));
	text_clear(&text);
}

static json_t *function_object(const struct diff_function *f)
{
	json_t *object = json_object();

	json_set_string(object, "name", f->function->name);
	json_set_string(object, "label", function_label(f->function));
	json_set_string(object, "module", f->function->module);
	json_set_integer(object, "offset", f->function->offset);
	json_set_string(object, "source", name_of_source(f->function->source));
	set_line(object, f->line);
	if (f->function->flags & PERFX_FUNCTION_RANGE)
		json_set_string(object, "kind", "range");
	json_object_set_new(object, "in", side_of(f->in));
	set_pair(object, "calls", f->calls);
	set_pair(object, "avg_ns", f->avg_ns);
	set_pair(object, "stddev_ns", (struct diff_pair){spread(&f->a), spread(&f->b)});
	set_pair(object, "total_share", f->total_share);
	set_pair(object, "self_share", f->self_share);
	set_pair(object, "calls_per_s", f->calls_per_s);
	set_pair(object, "flops_per_call", f->flops_per_call);
	set_pair(object, "flops_per_s", f->flops_per_s);
	json_set_number(object, "impact_share", f->impact);
	set_welch(object, &f->welch);
	json_set_string(object, "time", diff_time_word(f->time));
	if (!isnan(diff_change(f->flops_per_s)))
		json_set_string(object, "rate", diff_time_word(f->rate));
	json_object_set_new(object, "regression", json_boolean(f->regressed));
	return object;
}

static json_t *steps_object(const struct diff_steps *steps)
{
	json_t *object = json_object(), *breakdown = json_object();

	for (int phase = PROFILE_PHASES - 1; phase >= 0; phase--)
		set_pair(breakdown, profile_phase_name((enum profile_phase)phase),
			 steps->phases_ns[phase]);
	json_object_set_new(object, "in", side_of(steps->in));
	set_pair(object, "count", steps->count);
	set_pair(object, "avg_ns", steps->avg_ns);
	set_pair(object, "stddev_ns", (struct diff_pair){spread(&steps->a), spread(&steps->b)});
	set_pair(object, "p50_ns", steps->p50_ns);
	set_pair(object, "p95_ns", steps->p95_ns);
	set_pair(object, "max_ns", steps->max_ns);
	json_object_set_new(object, "breakdown", breakdown);
	set_pair(object, "flops", steps->flops);
	set_pair(object, "flops_per_s", steps->flops_per_s);
	set_pair(object, "mfu", steps->mfu);
	set_pair(object, "gpu_busy_ns", steps->gpu_busy_ns);
	set_pair(object, "gpu_kernels", steps->gpu_kernels);
	set_pair(object, "gpu_wait_ns", steps->gpu_wait_ns);
	set_pair(object, "gpu_energy_j", steps->gpu_energy_j);
	set_welch(object, &steps->welch);
	json_set_string(object, "time", diff_time_word(steps->time));
	json_object_set_new(object, "regression", json_boolean(steps->regressed));
	return object;
}

static json_t *gpu_object(const struct diff_gpu *gpu)
{
	json_t *object = json_object();

	set_pair(object, "busy_share", gpu->busy_share);
	set_pair(object, "utilisation", gpu->utilisation);
	set_pair(object, "launches_per_s", gpu->launches_per_s);
	set_pair(object, "launch_latency_p50_ns", gpu->latency_p50_ns);
	set_pair(object, "wait_share", gpu->wait_share);
	set_pair(object, "exposed_communication_share", gpu->exposed_share);
	set_pair(object, "flops_per_s", gpu->flops_per_s);
	set_pair(object, "mfu", gpu->mfu);
	set_pair(object, "power_w", gpu->power_w);
	return object;
}

static void set_kind_of_work(json_t *object, const struct diff_gpu_work *work)
{
	if (diff_gpu_table(work->op) == DIFF_GPU_COPIES) {
		json_set_string(object, "direction", name_of_gpu_copy(work->op, work->direction));
		json_set_string(object, "host_memory", name_of_gpu_host_memory(work->host_memory));
		return;
	}
	json_set_string(object, "name", work->name);
	if (*work->caller)
		json_set_string(object, "function", work->caller);
}

static json_t *gpu_work_object(const struct diff_gpu_work *work)
{
	json_t *object = json_object();

	json_set_string(object, "op", name_of_gpu_op(work->op));
	set_kind_of_work(object, work);
	json_object_set_new(object, "in", side_of(work->in));
	set_pair(object, "calls", work->calls);
	set_pair(object, "calls_per_s", work->calls_per_s);
	set_pair(object, "avg_ns", work->avg_ns);
	set_pair(object, "stddev_ns", (struct diff_pair){spread(&work->a), spread(&work->b)});
	set_pair(object, "total_share", work->share);
	set_pair(object, "bytes_per_s", work->bytes_per_s);
	set_pair(object, "rate_bytes_per_s", work->rate);
	if (!work->welch.known)
		return object;
	json_set_number(object, "impact_share", work->impact);
	set_welch(object, &work->welch);
	json_set_string(object, "time", diff_time_word(work->time));
	json_object_set_new(object, "regression", json_boolean(work->regressed));
	return object;
}

static void put_gpu(struct json_output *o, const struct diff_gpu *gpu)
{
	json_t *object = gpu_object(gpu);

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

static json_t *memory_object(const struct diff_memory *m)
{
	json_t *object = json_object();

	json_set_string(object, "domain", m->domain ? profile_domain_name(m->domain) : "resident");
	set_pair(object, "peak_bytes", m->peak_bytes);
	set_pair(object, "allocated_bytes_per_s", m->allocated_per_s);
	set_pair(object, "allocs_per_s", m->allocs_per_s);
	json_object_set_new(object, "exact", json_boolean(m->exact));
	json_set_string(object, "peak", diff_memory_word(m->verdict));
	json_object_set_new(object, "regression", json_boolean(m->regressed));
	return object;
}

static json_t *place_object(const struct diff_place *p)
{
	json_t *object = json_object();
	struct text name = {0};

	location_hotspot(&name, p->profile, p->memory, p->hotspot);
	json_object_set_new(object, "place", json_of_sentence(text_peek(&name)));
	text_clear(&name);
	json_set_string(object, "domain", profile_domain_name(p->memory->domain));
	json_object_set_new(object, "in", side_of(p->in));
	set_pair(object, "live_at_peak_bytes", p->live_at_peak_bytes);
	set_pair(object, "live_bytes", p->live_bytes);
	set_pair(object, "allocated_bytes_per_s", p->allocated_per_s);
	set_pair(object, "allocs_per_s", p->allocs_per_s);
	return object;
}

static json_t *changed_finding_object(const struct diff_finding *changed)
{
	const struct finding *finding = changed->finding;
	json_t *object = json_object();

	json_object_set_new(object, "in", side_of(changed->in));
	json_set_string(object, "kind", finding->kind);
	json_set_string(object, "severity", finding_severity_name(finding->severity));
	json_object_set_new(object, "subject", json_of_sentence(finding->subject));
	json_object_set_new(object, "evidence", json_of_sentence(finding->evidence));
	return object;
}

static void put_side(struct json_output *o, const char *key, const char *file,
		     const struct profile *profile)
{
	json_t *object = json_object();

	json_set_string(object, "file", file);
	json_set_integer(object, "start_unix_ns", profile->start_unix_ns);
	json_set_integer(object, "duration_ns", profile->duration_ns);
	json_set_string(object, "host", profile->host_name);
	json_object_set_new(object, "partial", json_boolean(profile->partial));
	if (profile->overhead_percent >= 0)
		json_object_set_new(object, "overhead_percent",
				    json_real(profile->overhead_percent));
	json_put(o, key, object);
}

static void put_identity(struct json_output *o, const char *key, const struct profile_process *p)
{
	json_t *object;

	if (!p)
		return;
	object = json_object();
	json_set_integer(object, "pid", p->pid);
	json_set_string(object, "comm", p->comm);
	json_put(o, key, object);
}

static void put_process(struct json_output *o, const struct diff_process *p)
{
	json_open(o, NULL, '{');
	put_identity(o, "a", p->a);
	put_identity(o, "b", p->b);
	put_pair(o, "wall_ns", p->wall_ns);
	put_pair(o, "cores", p->cores);
	put_pair(o, "flops_per_s", p->flops_per_s);
	if (p->steps.in)
		json_put(o, "steps", steps_object(&p->steps));
	json_open(o, "findings", '[');
	for (size_t i = 0; i < p->findings_count; i++)
		json_put(o, NULL, changed_finding_object(&p->findings[i]));
	json_close(o, ']');
	json_open(o, "functions", '[');
	for (size_t i = 0; i < p->functions_count; i++)
		json_put(o, NULL, function_object(&p->functions[i]));
	json_close(o, ']');
	put_gpu(o, &p->gpu);
	json_open(o, "memory", '[');
	for (size_t i = 0; i < p->memory_count; i++)
		json_put(o, NULL, memory_object(&p->memory[i]));
	json_close(o, ']');
	json_open(o, "places", '[');
	for (size_t i = 0; i < p->places_count; i++)
		json_put(o, NULL, place_object(&p->places[i]));
	json_close(o, ']');
	json_close(o, '}');
}

static void put_summary(struct json_output *o, const struct diff *diff)
{
	json_t *object = json_object();

	json_set_integer(object, "compared", diff->compared_count);
	json_set_integer(object, "tested", diff->tested_count);
	json_set_integer(object, "slower", diff->worse_count);
	json_set_integer(object, "faster", diff->better_count);
	json_set_integer(object, "regressions", diff->regressions_count);
	json_set_number(object, "threshold", diff->threshold);
	json_put(o, "summary", object);
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
	put_summary(&o, diff);
	json_open(&o, "processes", '[');
	for (size_t i = 0; i < diff->processes_count; i++)
		put_process(&o, &diff->processes[i]);
	json_close(&o, ']');
	return json_end(&o);
}
