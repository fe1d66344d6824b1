// SPDX-License-Identifier: BSD-2-Clause
#include "plan/interest.h"

#include "plan/allocators.h"
#include "plan/annotations.h"
#include "plan/defaults.h"

#include <string.h>

int interest_collect(struct prefixes *mangled)
{
	int err = default_prefixes(mangled);

	if (!err)
		err = annotation_prefixes(mangled);
	if (!err)
		err = allocator_prefixes(mangled);
	prefixes_sort(mangled);
	return err;
}

/* Nearly all names of a big library are mangled. C's are few: there the rules themselves are asked.
 */
bool interest_has(const char *name, void *ctx)
{
	const struct interest *interest = ctx;
	enum host_level level;
	struct perfx_annotation annotation;
	const char *shown;

	if (!strncmp(name, "_Z", 2))
		return prefixes_match(interest->mangled, name);
	return default_function(interest->base, name) ||
	       annotation_find(name, &annotation, &shown, &level) || allocator_concerns(name);
}
