/* SPDX-License-Identifier: BSD-2-Clause */
/* often FUNCTION: calls that function of tinyblas.so, sgemm_ or dgemm_, so often that no default
 * can afford to trace it, and strsm_ seldom. */
#include "known.h"

#define OFTEN  50000
#define SELDOM 2

void sgemm_(const float *a, const float *b, float *c);
void dgemm_(const double *a, const double *b, double *c);
void strsm_(const float *a, float *b);

static bool in_double;

static void scenario(void)
{
	float a = 2, b = 0.5f, c = 0;
	double double_a = 2, double_b = 0.5, double_c = 0;

	for (int i = 0; i < OFTEN && !in_double; i++)
		sgemm_(&a, &b, &c);
	for (int i = 0; i < OFTEN && in_double; i++)
		dgemm_(&double_a, &double_b, &double_c);
	known_require(c + double_c == OFTEN, "the sum of products");
	for (int i = 0; i < SELDOM; i++)
		strsm_(&a, &b);
}

int main(int argc, char **argv)
{
	uint64_t runs;

	in_double = argc > 1 && !strcmp(argv[1], "dgemm_");
	runs = known_main(scenario);
	known_expect(in_double ? "dgemm_" : "sgemm_", "at_most", runs * OFTEN);
	known_expect("strsm_", "calls", runs * SELDOM);
	return 0;
}
