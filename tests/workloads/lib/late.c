/* SPDX-License-Identifier: BSD-2-Clause */
/* Opened by dlopen.c. */
#include "known.h"

TRACED int late_inner(int x)
{
	KEEP(x);
	return x + 1;
}

TRACED int late_work(int x)
{
	return late_inner(x) + late_inner(x + 1);
}
