/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of the program's own: an account for each name in each process. */
#ifndef PERFX_AGGREGATE_VALUES_H
#define PERFX_AGGREGATE_VALUES_H

#include "aggregate/profile_values.h"
#include "base/map64.h"
#include "decode/event.h"

struct aggregate;
struct work;
struct value_account;

struct values {
	const char **names; /* by id; NULL: not described */
	size_t names_capacity;
	struct value_account **accounts;
	size_t accounts_capacity, accounts_count;
	struct map64 account_ids; /* process << 32 | value → accounts[] */
};

/* 0 or -ENOMEM. */
int values_value(struct aggregate *aggregate, const struct perfx_value *record);
int values_name(struct aggregate *aggregate, const struct event *event);
int values_book(struct aggregate *aggregate, const struct perfx_value_book *record);
/* The processes' values. 0 or -ENOMEM. */
int values_fill(struct work *work);
void values_clear(struct values *values);

#endif
