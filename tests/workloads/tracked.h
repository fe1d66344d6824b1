/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_WORKLOADS_TRACKED_H
#define TESTS_WORKLOADS_TRACKED_H

int library_step(int x);

#endif
