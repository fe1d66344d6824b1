/* SPDX-License-Identifier: BSD-2-Clause */
/* Which instruction the entry probe sits on. */
#ifndef PERFX_SITE_ENTRY_H
#define PERFX_SITE_ENTRY_H

#include "site/body.h"
#include "site/site.h"

/* Fills entry_vaddr, entry_kind, entry_note, entry_repeats. -ENOTSUP: no probe can be placed. */
int entry_choose(const struct body *body, const struct site_options *options,
		 struct site_plan *plan);

/* The same where nothing is known of the function but its first instruction. */
int entry_keep(const struct insn *first, const struct site_options *options, const char *note,
	       struct site_plan *plan);

#endif
