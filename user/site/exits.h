/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the exit probes sit. */
#ifndef PERFX_SITE_EXITS_H
#define PERFX_SITE_EXITS_H

#include "site/body.h"
#include "site/site.h"

/* Fills exits*, exits_state, exits_note, entry_is_exit; after the entry is chosen. 0, -ENOMEM. */
int exits_find(struct body *body, const struct site_options *options, struct site_plan *plan);

#endif
