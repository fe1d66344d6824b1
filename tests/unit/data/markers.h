/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef MARKERS_H
#define MARKERS_H

#include <stdint.h>

uint64_t other_range(uint64_t parent);

#endif
