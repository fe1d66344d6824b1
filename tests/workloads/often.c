/* SPDX-License-Identifier: BSD-2-Clause */
/* often FUNCTION: calls that function of tinyblas.so too often for default tracing, and strsm_
 * seldom. */
#include "known.h"

#define OFTEN  50000
#define SELDOM 2

void sgemm_(const float *a, const float *b, float *c);
void dgemm_(const double *a, const double *b, double *c);
void XGBoosterUpdateOneIter(const float *a, const float *b, float *c);
void strsm_(const float *a, float *b);

static const char *often = "sgemm_";

static void scenario(void)
{
	float a = 2, b = 0.5f, c = 0;
	double double_a = 2, double_b = 0.5, double_c = 0;

	for (int i = 0; i < OFTEN && *often == 's'; i++)
		sgemm_(&a, &b, &c);
	for (int i = 0; i < OFTEN && *often == 'd'; i++)
		dgemm_(&double_a, &double_b, &double_c);
	for (int i = 0; i < OFTEN && *often == 'X'; i++)
		XGBoosterUpdateOneIter(&a, &b, &c);
	known_require(c + double_c == OFTEN, "the sum of products");
	for (int i = 0; i < SELDOM; i++)
		strsm_(&a, &b);
}

int main(int argc, char **argv)
{
	uint64_t runs;

	often = argc > 1 ? argv[1] : often;
	runs = known_main(scenario);
	known_expect(often, "at_most", runs * OFTEN);
	known_expect("strsm_", "calls", runs * SELDOM);
	return 0;
}
