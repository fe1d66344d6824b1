// SPDX-License-Identifier: BSD-2-Clause
#include "aggregate/process.h"

#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of doubles, with the rounding errors kept (Neumaier 1974): a million times 0.1 is 100,000. */
struct precise_sum {
	double sum, error;
};

struct value_account {
	uint32_t process, value;
	uint64_t samples_count, added_count, strange_count, lost_count, unsummed_count;
	struct precise_sum sum;
	double lowest, highest;
	double base;		  /* as it was set last */
	uint64_t base_ns;	  /* when */
	struct precise_sum added; /* since then */
	struct profile_user_value_point *points;
	size_t points_count;
	struct thinning points_thinning;
};

/* Values of the program's own: an account for each name in each process. */
struct values {
	const char **names; /* by id; NULL: not described */
	size_t names_capacity;
	struct value_account **accounts;
	size_t accounts_capacity, accounts_count;
	struct map64 account_ids; /* process << 32 | value → accounts[] */
};

static void sum_add(struct precise_sum *to, double number)
{
	double sum = to->sum + number;

	to->error +=
		fabs(to->sum) >= fabs(number) ? to->sum - sum + number : number - sum + to->sum;
	to->sum = sum;
}

static double sum_value(const struct precise_sum *sum)
{
	double value = sum->sum + sum->error;

	/* beyond the range of a double the error is no number */
	return isnan(value) ? sum->sum : value;
}

/* NULL with errno: ERANGE, ENOMEM. */
static struct value_account *account_of(struct aggregate *a, uint32_t process, uint32_t value)
{
	struct values *values = a->values;
	uint64_t key = MAP64_PAIR(process, value);
	struct value_account **known = MAP64_FIND(values->account_ids, key, values->accounts);
	struct value_account *account;

	if (known)
		return *known;
	errno = ERANGE;
	if (!value || value > AGGREGATE_VALUES_MAX ||
	    values->accounts_count >= AGGREGATE_VALUES_MAX || !process_get(a, process))
		return NULL;
	account = calloc(1, sizeof(*account));
	if (!account || GROW_BY_ONE(values->accounts) ||
	    map64_put(&values->account_ids, key, (uint32_t)values->accounts_count)) {
		free(account);
		errno = ENOMEM;
		return NULL;
	}
	*account = (struct value_account){
		.process = process, .value = value, .lowest = INFINITY, .highest = -INFINITY};
	values->accounts[values->accounts_count++] = account;
	return account;
}

static double double_of(uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

static double value_now(const struct value_account *account)
{
	return account->base + sum_value(&account->added);
}

static int add_point(struct value_account *account, uint64_t time_ns)
{
	double value = value_now(account);
	struct profile_user_value_point *point;

	if (!isfinite(value))
		return 0;
	point = THINNED_POINT(account, PROFILE_VALUE_POINTS_MAX);
	if (!point)
		return -errno;
	*point = (struct profile_user_value_point){.time_ns = time_ns, .value = value};
	return 0;
}

static void set_base(struct value_account *account, double number, uint64_t time_ns)
{
	/* threads may record in another order than that of their clocks */
	if (time_ns < account->base_ns)
		return;
	account->base = number;
	account->base_ns = time_ns;
	account->added = (struct precise_sum){0};
}

static int handle_user_value(struct aggregate *a, const struct event *event)
{
	const struct perfx_user_value *record = &event->user_value;
	struct value_account *account = account_of(a, record->process, record->value);
	double number = double_of(record->number_bits);
	bool added = record->flags & PERFX_USER_VALUE_ADDED;

	if (!account)
		return rejected(a);
	if (record->flags & PERFX_USER_VALUE_BEFORE) {
		set_base(account, number, record->time_ns);
		return 0;
	}
	saw_time(a, record->time_ns);
	account->samples_count++;
	account->added_count += added;
	if (!added)
		set_base(account, number, record->time_ns);
	if (!isfinite(number)) {
		account->strange_count++;
		return 0;
	}
	if (added)
		sum_add(&account->added, number);
	sum_add(&account->sum, number);
	account->lowest = fmin(account->lowest, number);
	account->highest = fmax(account->highest, number);
	return add_point(account, record->time_ns);
}

static int handle_user_value_name(struct aggregate *a, const struct event *event)
{
	struct values *values = a->values;
	uint32_t value = event->user_value_name.value;

	if (!value || value > AGGREGATE_VALUES_MAX)
		return undecoded(a);
	if (grow_array(&values->names, &values->names_capacity, (size_t)value + 1,
		       sizeof(*values->names)))
		return -ENOMEM;
	values->names[value] = pool_add(&a->strings, event->strings[0]);
	return values->names[value] ? 0 : -ENOMEM;
}

static int handle_overflow_values(struct aggregate *a, const struct event *event)
{
	const struct perfx_overflow_values *record = &event->overflow_values;
	struct value_account *account = account_of(a, record->process, record->value);
	uint64_t lost = add_capped(record->sets_count, record->adds_count);

	if (!account)
		return rejected(a);
	add_up(&account->samples_count, lost);
	add_up(&account->lost_count, lost);
	add_up(&account->added_count, record->adds_count);
	add_up(&account->unsummed_count, record->unsummed_count);
	sum_add(&account->sum, (double)record->sum);
	if (!record->sets_count)
		sum_add(&account->added, (double)record->sum);
	else if (record->last_ns)
		set_base(account, double_of(record->last_bits), record->last_ns);
	return 0;
}

static struct profile_user_value value_of(const struct values *values,
					  const struct value_account *account, uint64_t recorded_ns)
{
	struct profile_user_value value = {
		.id = account->value,
		.name = values->names[account->value],
		.samples_count = account->samples_count,
		.added_count = account->added_count,
		.strange_count = account->strange_count,
		.lost_count = account->lost_count,
		.unsummed_count = account->unsummed_count,
		/* lost additions are in no value unless they were summed */
		.value = account->unsummed_count && account->added_count ? NAN : value_now(account),
		.sum = sum_value(&account->sum),
		.lowest = account->lowest,
		.highest = account->highest,
		.points = account->points,
		.points_count = account->points_count,
	};

	if (recorded_ns)
		value.rate = value.sum * 1e9 / (double)recorded_ns;
	return value;
}

ORDER(by_samples, struct profile_user_value, DESCENDING(a->samples_count, b->samples_count),
      strcmp(a->name, b->name))

/* NULL: nothing described its process or its name. */
static struct profile_process *owner_of(const struct finish_ctx *w,
					const struct value_account *account)
{
	const struct values *values = w->a->values;

	/* it may be known from before alone */
	if (!account->samples_count || account->value >= values->names_capacity ||
	    !values->names[account->value])
		return NULL;
	return process_at(w, account->process);
}

static int values_fill(struct finish_ctx *w)
{
	const struct values *values = w->a->values;
	struct profile *p = w->profile;

	if (!values->accounts_count)
		return 0;
	FOR_EACH (account, values->accounts) {
		struct profile_process *process = owner_of(w, *account);

		if (process)
			process->values_count++;
		else
			add_up(&w->hidden_records,
			       (*account)->samples_count - (*account)->lost_count);
	}
	FOR_EACH (process, p->processes) {
		process->values = calloc(process->values_count + 1, sizeof(*process->values));
		if (!process->values)
			return -ENOMEM;
		process->values_count = 0;
	}
	FOR_EACH (account, values->accounts) {
		struct profile_process *process = owner_of(w, *account);

		if (!process)
			continue;
		process->values[process->values_count++] =
			value_of(values, *account, profile_recorded_ns(p, process));
		add_up(&p->value_samples_count, (*account)->samples_count);
	}
	FOR_EACH (process, p->processes)
		SORT_ITEMS(process->values, process->values_count, by_samples);
	return 0;
}

static void values_clear(void *state)
{
	struct values *values = state;

	FOR_EACH (account, values->accounts) {
		free((*account)->points);
		free(*account);
	}
	free(values->accounts);
	free(values->names);
	map64_clear(&values->account_ids);
}

const struct part part_values = {
	PART_STATE(values),
	.add = {TAKES(USER_VALUE, user_value), TAKES(USER_VALUE_NAME, user_value_name),
		TAKES(OVERFLOW_VALUES, overflow_values)},
	.finish = values_fill,
	.clear = values_clear,
};
