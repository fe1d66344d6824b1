/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of the program's own: an account for each name in each process. */
#ifndef PERFX_AGGREGATE_USER_VALUES_H
#define PERFX_AGGREGATE_USER_VALUES_H

#include "base/grow.h"

struct aggregate;
struct finish_ctx;
struct value_account;

struct values {
	const char **names; /* by id; NULL: not described */
	size_t names_capacity;
	struct value_account **accounts;
	size_t accounts_capacity, accounts_count;
	struct map64 account_ids; /* process << 32 | value → accounts[] */
};

/* The processes' values. 0 or -ENOMEM. */
int values_fill(struct finish_ctx *ctx);
void values_clear(struct values *values);

#endif
