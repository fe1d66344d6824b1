/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs. Each returns an exit code (base/message.h) and has said what went wrong. */
#ifndef PERFX_CMD_CMD_H
#define PERFX_CMD_CMD_H

#include "cmd/options.h"

/* argv as main got it, for the report's "command". */
int cmd_trace(const struct options *options, char *const *argv); /* and record, and run */
int cmd_report(const struct options *options);
int cmd_export(const struct options *options);
int cmd_diff(const struct options *options);
int cmd_probes(const struct options *options);
int cmd_doctor(void);
int cmd_peaks(void);

/* Why a capture could not be opened, for a message: report.c. */
const char *capture_open_error(int err);
/* What of it could not be read, in a line; nothing when all could. */
struct capture_damage;
void capture_say_damage(const char *path, const struct capture_damage *damage);

#endif
