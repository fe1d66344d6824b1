/* SPDX-License-Identifier: BSD-2-Clause */
/* Orders for qsort, and the median. */
#ifndef PERFX_BASE_ORDER_H
#define PERFX_BASE_ORDER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The order of two values, the smaller or the larger first, as a function for qsort returns it. It
 * is 0 where they are equal: ASCENDING(a->x, b->x) ?: strcmp(a->name, b->name) */
#define ASCENDING(a, b)	 (((a) > (b)) - ((a) < (b)))
#define DESCENDING(a, b) ASCENDING(b, a)

/* Defines a function for qsort that compares two elements, a and b, by up to six such values: each
 * decides where those before it are 0. */
#define ORDER(name, type, ...)                               \
	static int name(const void *left, const void *right) \
	{                                                    \
		const type *a = left, *b = right;            \
                                                             \
		return ORDER_OF(__VA_ARGS__, 0, 0, 0, 0, 0); \
	}
#define ORDER_OF(a, b, c, d, e, f, ...) ((a) ?: (b) ?: (c) ?: (d) ?: (e) ?: (f))

/* Binary search, as std::partition_point: the first index i, up to count, for which the condition
 * is false. It must be true of all before that and false of all behind it:
 *     size_t first = PARTITION_POINT(i, count, values[i] < value); */
#define PARTITION_POINT(i, count, condition)                                    \
	({                                                                      \
		size_t low_of_##i = 0, high_of_##i = (count);                   \
		while (low_of_##i < high_of_##i) {                              \
			size_t i = low_of_##i + (high_of_##i - low_of_##i) / 2; \
			if (condition)                                          \
				low_of_##i = i + 1;                             \
			else                                                    \
				high_of_##i = i;                                \
		}                                                               \
		(size_t) low_of_##i;                                            \
	})

/* Sorts a list, which may be NULL where it is empty. */
#define SORT_ITEMS(list, count, order) \
	((count) > 1 ? qsort((list), (count), sizeof(*(list)), (order)) : (void)0)

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline int compare_u64(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return ASCENDING(*a, *b);
}

static inline int compare_double(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return ASCENDING(*a, *b);
}

/* Sorts one value or more; the mean of the two in the middle where there are two. */
static inline double sort_median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_double);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

#endif
