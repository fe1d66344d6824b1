// SPDX-License-Identifier: BSD-2-Clause
#include "report/json/output.h"
#include "report/report.h"

void json_put_energy(struct json_output *o, const struct profile *profile,
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
