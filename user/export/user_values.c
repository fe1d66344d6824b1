// SPDX-License-Identifier: BSD-2-Clause
#include "export/user_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int value_tracks_make(struct value_tracks *tracks, const struct profile *profile)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->processes_count; i++)
		count += profile->processes[i].values_count;
	tracks->tracks = calloc(count + 1, sizeof(*tracks->tracks));
	if (!tracks->tracks)
		return -ENOMEM;
	for (size_t i = 0; i < profile->processes_count; i++) {
		const struct profile_process *process = &profile->processes[i];

		for (size_t j = 0; j < process->values_count; j++) {
			uint64_t key = (uint64_t)process->index << 32 | process->values[j].id;

			if (map64_put(&tracks->ids, key, (uint32_t)tracks->count))
				return -ENOMEM;
			tracks->tracks[tracks->count++] =
				(struct value_track){.process = i, .value = &process->values[j]};
		}
	}
	return 0;
}

void value_tracks_clear(struct value_tracks *tracks)
{
	map64_clear(&tracks->ids);
	free(tracks->tracks);
	*tracks = (struct value_tracks){0};
}

struct value_track *value_tracks_follow(struct value_tracks *tracks,
					const struct perfx_user_value *record)
{
	uint32_t at = map64_get(&tracks->ids, (uint64_t)record->process << 32 | record->value);
	struct value_track *track;
	double number;

	if (at == MAP64_NONE)
		return NULL;
	track = &tracks->tracks[at];
	memcpy(&number, &record->number_bits, sizeof(number));
	if (!(record->flags & PERFX_USER_VALUE_ADDED))
		track->now = number;
	else if (isfinite(number))
		track->now += number;
	return isfinite(track->now) ? track : NULL;
}
