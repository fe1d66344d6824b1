// SPDX-License-Identifier: BSD-2-Clause
#include "live/judgement.h"

#include <errno.h>
#include <stdlib.h>

static int note_who(struct judgement *judgement, const struct profile *profile)
{
	struct profile *who = &judgement->who;

	who->processes = calloc(profile->processes_count + 1, sizeof(*who->processes));
	if (!who->processes)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		who->processes[i] = (struct profile_process){
			.index = process->index,
			.pid = process->pid,
			.comm = pool_add(&judgement->names, process->comm),
			.cmdline = pool_add(&judgement->names, process->cmdline),
		};
		if (!who->processes[i].comm || !who->processes[i].cmdline ||
		    map64_put(&judgement->places, process->index, (uint32_t)i))
			return -ENOMEM;
	}
	who->processes_count = profile->processes_count;
	return 0;
}

int judgement_make(struct judgement *judgement, const struct profile *profile,
		   const struct rule_set *rules)
{
	judgement_clear(judgement);
	judgement->analysis = analyze(profile, rules);
	if (judgement->analysis && !note_who(judgement, profile))
		return 0;
	judgement_clear(judgement);
	return -ENOMEM;
}

const struct process_analysis *judgement_of(const struct judgement *judgement,
					    const struct profile_process *process)
{
	uint32_t at = map64_get(&judgement->places, process->index);

	return at == MAP64_NONE ? NULL : &judgement->analysis->processes[at];
}

void judgement_clear(struct judgement *judgement)
{
	analysis__free(judgement->analysis);
	free(judgement->who.processes);
	pool_clear(&judgement->names);
	map64_clear(&judgement->places);
	*judgement = (struct judgement){0};
}
