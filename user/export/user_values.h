/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of the traced programs as tracks: what each is after every sample. */
#ifndef PERFX_EXPORT_USER_VALUES_H
#define PERFX_EXPORT_USER_VALUES_H

#include "base/map64.h"
#include "export/export.h"

struct value_track {
	size_t process; /* place in the profile */
	const struct profile_user_value *value;
	double now;
	uint64_t data; /* the writer's */
};

struct value_tracks {
	struct map64 ids; /* process << 32 | value → tracks[] */
	struct value_track *tracks;
	size_t count;
};

/* One for each value of the profile, in its order. 0 or -ENOMEM; to be cleared in any case. */
int value_tracks_make(struct value_tracks *tracks, const struct profile *profile);
void value_tracks_clear(struct value_tracks *tracks);
/* What a value is after this record. NULL: it is not in the profile, or now no finite number. */
struct value_track *value_tracks_follow(struct value_tracks *tracks,
					const struct perfx_user_value *record);

#endif
