/* SPDX-License-Identifier: BSD-2-Clause */
/* A BLAS whose matrices have one element: called more often than default tracing allows. */
#include "known.h"

/* Its exit is its ret, which is single-stepped. */
__attribute__((noipa)) void sgemm_(const float *a, const float *b, float *c)
{
	*c += *a * *b;
}

/* Its exit is the stack protector's branch, which is cheap. */
__attribute__((noipa)) void dgemm_(const double *a, const double *b, double *c)
{
	char room[32];
	double *copy = memcpy(room, a, sizeof(*a));

	KEEP(copy);
	*c += *copy * *b;
}

/* Ends a step of a booster that hardly computes. */
__attribute__((noipa)) void XGBoosterUpdateOneIter(const float *a, const float *b, float *c)
{
	*c += *a * *b;
}

__attribute__((noipa)) void strsm_(const float *a, float *b)
{
	*b /= *a;
}
