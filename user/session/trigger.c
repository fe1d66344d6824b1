// SPDX-License-Identifier: BSD-2-Clause
#include "session/trigger.h"

#include "base/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "step>"

int trigger_parse(const char *text, struct trigger *trigger)
{
	const char *value = text + strlen(PREFIX);
	char *end;

	*trigger = (struct trigger){0};
	if (strncmp(text, PREFIX, strlen(PREFIX)))
		return -EINVAL;
	/* strtod takes more than numbers */
	if (*value < '0' || *value > '9')
		return -EINVAL;
	trigger->times = strtod(value, &end);
	if (!strcmp(end, "x"))
		return trigger->times >= 1 && trigger->times <= 1e6 ? 0 : -EINVAL;
	trigger->times = 0;
	return parse_duration(value, &trigger->ns) || !trigger->ns ? -EINVAL : 0;
}

bool trigger_fires(const struct trigger *trigger, const struct slow_step *step,
		   uint64_t steps_count)
{
	if (trigger->ns)
		return step->duration_ns > trigger->ns;
	return steps_count >= TRIGGER_STEPS_MIN &&
	       (double)step->duration_ns > trigger->times * (double)step->median_ns;
}
