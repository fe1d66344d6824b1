/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs. Each returns an exit code (base/message.h) and has said what went wrong. */
#ifndef PERFX_CMD_CMD_H
#define PERFX_CMD_CMD_H

#include "cmd/options.h"

/* argv as main got it, for the report's "command". */
int cmd_trace(const struct options *options, char *const *argv); /* and record, and run */
int cmd_report(const struct options *options);
int cmd_probes(const struct options *options);
int cmd_doctor(void);

#endif
