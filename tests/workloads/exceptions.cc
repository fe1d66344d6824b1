/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * C++ exceptions across traced frames. frame() recurses a hundred deep, then throws; the functions
 * around it return in different ways: at a ret, by a tail call, through a switch. A return probe on
 * any of them ends this program by std::terminate.
 */
#include "known.h"

#include <stdexcept>
#include <string>

static const int depth = 100, rounds = 400;
static uint64_t destroyed;

struct guard {
	guard()
	{
	}
	~guard()
	{
		destroyed++;
	}
};

TRACED int frame(int n, bool fail)
{
	if (!n) {
		if (fail)
			throw std::runtime_error("at the bottom");
		return 1;
	}
	int got = frame(n - 1, fail);

	KEEP(got);
	return got + 1;
}

/* Has a landing pad: runs a destructor and continues unwinding. */
TRACED int guarded(bool fail)
{
	guard g;

	return frame(depth - 1, fail);
}

/* Ends by a jump, not by a ret. */
TRACED int tail(bool fail)
{
	return guarded(fail);
}

TRACED int switched(int kind, bool fail)
{
	switch (kind) {
	case 0:
		return tail(fail) + 2;
	case 1:
		return guarded(fail) - 1;
	case 2:
		return tail(fail) * 3;
	case 3:
		return frame(depth - 1, fail) + 7;
	case 4:
		return tail(fail) ^ 9;
	default:
		return -1;
	}
}

/* Catches and throws again: its own frame is left by exception too. */
TRACED int rethrower(int kind, bool fail)
{
	try {
		return switched(kind, fail);
	} catch (const std::runtime_error &) {
		throw;
	}
}

/* Catches for good and returns normally. */
TRACED int catcher(int kind, bool fail)
{
	int got = 0;

	try {
		got = rethrower(kind, fail);
	} catch (const std::exception &error) {
		known_require(!strcmp(error.what(), "at the bottom"), "the exception's text");
		got = -100;
	}
	KEEP(got);
	return got;
}

/* Methods and templates, thrown through and returned from. */
template <class T> struct holder {
	TRACED T method(T value)
	{
		if (value % 2)
			throw value;
		return value;
	}
};

static void scenario()
{
	holder<int> held;
	int thrown = 0;

	for (int i = 0; i < rounds; i++) {
		int got = catcher(i % 5, i % 4 == 3);

		known_require((got == -100) == (i % 4 == 3), "every fourth call throws");
	}
	for (int i = 0; i < rounds; i++) {
		try {
			held.method(i);
		} catch (int value) {
			thrown += value == i;
		}
	}
	known_require(thrown == rounds / 2, "every second integer thrown");
}

int main()
{
	/* A fifth of the calls has each kind, and a quarter of each kind throws. */
	uint64_t calls = known_main(scenario) * rounds;

	known_require(destroyed == calls / 5 * 4, "every destructor ran");
	known_expect("catcher", "calls", calls);
	known_expect("rethrower", "calls", calls);
	known_expect("rethrower", "unwound", calls / 4);
	known_expect("switched", "calls", calls);
	known_expect("switched", "unwound", calls / 4);
	known_expect("tail", "calls", calls / 5 * 3);
	/* Left by its jump before an exception is thrown. */
	known_expect("tail", "unwound", 0);
	known_expect("guarded", "calls", calls / 5 * 4);
	known_expect("guarded", "unwound", calls / 5);
	known_expect("frame", "calls", calls * depth);
	known_expect("frame", "unwound", calls / 4 * depth);
	known_expect("frame", "depth", depth);
	known_expect("holder<int>::method", "calls", calls);
	known_expect("holder<int>::method", "unwound", calls / 2);
	return 0;
}
