// SPDX-License-Identifier: BSD-2-Clause
#include "site/site.h"

#include "site/body.h"
#include "site/entry.h"
#include "site/exits.h"

#include <errno.h>
#include <stdlib.h>

static void exits_unknown(struct site_plan *plan, const char *note)
{
	plan->exits_state = EXITS_UNKNOWN;
	plan->exits_note = note;
}

#if defined(__x86_64__)
/* All that can be said of a function that is not decoded whole. */
static int plan_entry_alone(struct image *image, uint64_t vaddr, const char *note,
			    const struct site_options *options, struct site_plan *plan)
{
	struct insn first;
	size_t available;
	const uint8_t *code = image__code(image, vaddr, &available);

	exits_unknown(plan, note);
	if (insn_decode(code, available, vaddr, &first)) {
		plan->entry_kind = SITE_STEPPED;
		plan->entry_note = "the first bytes are no instruction";
		return -ENOTSUP;
	}
	return entry_keep(&first, options, note, plan);
}

static int plan_body(struct body *body, const struct site_options *options, struct site_plan *plan)
{
	int err;

	plan->calls_itself = body->calls_itself;
	plan->switches_stack = body->switches_stack;
	err = entry_choose(body, options, plan);
	if (err) {
		exits_unknown(plan, plan->entry_note);
		return err;
	}
	return exits_find(body, options, plan);
}

static int plan_x86(struct image *image, uint64_t vaddr, uint64_t size,
		    const struct site_options *options, struct site_plan *plan)
{
	struct body body;
	int err;

	if (!size)
		return plan_entry_alone(image, vaddr, "its size is not known", options, plan);
	err = body__decode(&body, image, vaddr, size);
	if (!err)
		err = body.undecoded ? plan_entry_alone(image, vaddr, body.undecoded, options, plan)
				     : plan_body(&body, options, plan);
	body__clear(&body);
	return err;
}
#endif

int site_plan(struct image *image, uint64_t vaddr, uint64_t size,
	      const struct site_options *options, struct site_plan *plan)
{
	size_t available;

	*plan = (struct site_plan){.entry_vaddr = vaddr,
				   .entry_kind = SITE_STEPPED,
				   .arguments = {0, 1, 2, 3, 4, 5, 6}};
	if (!image__code(image, vaddr, &available)) {
		exits_unknown(plan, "not in the file's code");
		return -ENOENT;
	}
#if defined(__x86_64__)
	return plan_x86(image, vaddr, size, options, plan);
#else
	(void)size;
	(void)options;
	plan->entry_note = "code of this architecture is not decoded";
	exits_unknown(plan, plan->entry_note);
	return 0;
#endif
}

void site_plan__clear(struct site_plan *plan)
{
	free(plan->exits);
	plan->exits = NULL;
	plan->exits_count = 0;
}
