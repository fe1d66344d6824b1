/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalogue of findings as text: for `explain`, and for docs/findings.md. */
#ifndef PERFX_REPORT_EXPLAIN_H
#define PERFX_REPORT_EXPLAIN_H

#include "analyze/catalogue.h"
#include "analyze/thresholds.h"
#include "base/text.h"

/* All kinds, a line each. */
void explain_all(struct text *into, const struct thresholds *thresholds);
void explain_kind(struct text *into, const struct finding_kind *kind,
		  const struct thresholds *thresholds);
/* The page of the documentation, with the defaults as thresholds. */
void explain_markdown(struct text *into, const struct thresholds *thresholds);

#endif
