// SPDX-License-Identifier: BSD-2-Clause
/*
 *     GPU energy 2.50 kJ · 12.5 J per step · 0.333 g CO2
 *
 * and, of the host as a whole:
 *
 *     Processors and memory of the host used 523 J (52.3 W), the GPUs 2.50 kJ: 0.403 g CO2 at
 *     480 g/kWh. That is what all programs used.
 */
#include "base/units.h"
#include "report/document/compose.h"

static void add_carbon(const struct composer *c, struct text *text, const char *before,
		       double joules)
{
	double g_per_kwh = c->options->carbon_intensity;

	if (!(g_per_kwh > 0))
		return;
	text_add(text, before);
	add_si(text, report_carbon_g(joules, g_per_kwh), "g");
	text_add(text, " CO2");
}

void compose_process_energy(struct composer *c, const struct profile_process *p)
{
	const struct profile_energy *energy = &p->energy;
	struct text text = {0};

	if (energy->gpu_mj == PROFILE_ABSENT || !energy->gpu_mj)
		return;
	text_add(&text, "GPU energy ");
	add_si(&text, (double)energy->gpu_mj / 1e3, "J");
	if (energy->steps_mj != PROFILE_ABSENT) {
		text_add(&text, " · ");
		add_si(&text, (double)energy->steps_mj / 1e3 / (double)p->steps.count, "J");
		text_add(&text, " per step");
	}
	add_carbon(c, &text, " · ", (double)energy->gpu_mj / 1e3);
	if (energy->estimated)
		text_add(&text, " · estimated: its share of a GPU that other processes use, too, "
				"by the time that its kernels ran");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}

void compose_energy(struct composer *c)
{
	const struct profile_host_energy *energy = &c->profile->energy;
	bool host = energy->host_uj != PROFILE_ABSENT && energy->host_ns;
	bool gpu = energy->gpu_mj != PROFILE_ABSENT;
	struct text text = {0};

	if (!host && !gpu)
		return;
	document_say(c->document, BLOCK_HEADING, "Energy");
	if (host) {
		double joules = (double)energy->host_uj / 1e6;

		text_add(&text, "Processors and memory of the host used ");
		add_si(&text, joules, "J");
		text_add(&text, " (");
		add_si(&text, joules * 1e9 / (double)energy->host_ns, "W");
		text_add(&text, ")");
	}
	if (gpu) {
		text_add(&text, host ? ", the GPUs " : "The GPUs used ");
		add_si(&text, (double)energy->gpu_mj / 1e3, "J");
	}
	add_carbon(c, &text, ": ", report_joules(energy));
	if (c->options->carbon_intensity > 0)
		text_printf(&text, " at %.4g g/kWh", c->options->carbon_intensity);
	text_add(&text, ". That is what all programs used.");
	document_add(c->document, BLOCK_PARAGRAPH, &text);
}
