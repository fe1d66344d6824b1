// SPDX-License-Identifier: BSD-2-Clause
/*
 * C++: operators new and delete, and the exits of them that are no return.
 *
 *	memory_new plain	new, new[], aligned, sized delete: counted
 *	memory_new throw	bad_alloc is thrown through new and caught, a hundred times
 *	memory_new handler	a new_handler makes room, and the second try succeeds
 *	memory_new jump		a new_handler leaves new by longjmp
 *
 * Exceptions live in blocks that the library takes from malloc, of a size of its own: there the
 * expectations are of the program's functions only.
 */
#include <csetjmp>
#include <cstdlib>
#include <new>

extern "C" {
#include "memory.h"
}

static volatile std::size_t too_much = std::size_t(1) << 62;
static std::jmp_buf out;
static void *reserve;
static uint64_t throws, jumps;

struct alignas(128) wide {
	char bytes[1280];
};

extern "C" TRACED void *take(std::size_t size)
{
	void *block = memory_took(::operator new(size), size);

	KEEP(block);
	return block;
}

extern "C" TRACED void take_kinds()
{
	int *many = new int[250];
	wide *aligned = new wide;
	void *nothrow = ::operator new(600, std::nothrow);

	memory_took(many, 1000);
	memory_took(aligned, sizeof(wide));
	memory_took(nothrow, 600);
	memory_gave(many, 1000);
	delete[] many;
	memory_gave(aligned, sizeof(wide));
	delete aligned;
}

static void plain()
{
	for (int i = 0; i < 50; i++) {
		void *block = take(3000), *other = take(64);

		memory_gave(block, 3000);
		::operator delete(block, 3000);
		memory_gave(other, 64);
		::operator delete(other);
		take(40);
		take_kinds();
	}
}

extern "C" TRACED void take_too_much()
{
	void *block = ::operator new(too_much);

	KEEP(block);
}

static void throwing()
{
	for (int i = 0; i < 100; i++) {
		try {
			take_too_much();
			known_require(false, "nothing was thrown");
		} catch (const std::bad_alloc &) {
			throws++;
		}
		take(500);
	}
}

/* The first call makes room if possible; then the request is still too large. */
static void give_reserve()
{
	if (!reserve)
		throw std::bad_alloc();
	memory_gave(reserve, 700);
	std::free(reserve);
	reserve = nullptr;
}

static void handling()
{
	std::set_new_handler(give_reserve);
	for (int i = 0; i < 20; i++) {
		reserve = memory_took(std::malloc(700), 700);
		try {
			take_too_much();
		} catch (const std::bad_alloc &) {
			known_require(!reserve, "the handler");
			throws++;
		}
		take(500);
	}
	std::set_new_handler(nullptr);
}

static void jump_out()
{
	std::longjmp(out, 1);
}

static void jumping()
{
	static volatile int i;

	std::set_new_handler(jump_out);
	for (i = 0; i < 100; i++) {
		if (!setjmp(out)) {
			take_too_much();
			known_require(false, "nothing jumped");
		}
		jumps++;
		take(500);
	}
	std::set_new_handler(nullptr);
}

static const struct memory_scenario scenarios[] = {
	{"plain", plain},  {"throw", throwing}, {"handler", handling},
	{"jump", jumping}, {nullptr, nullptr},
};

int main(int argc, char **argv)
{
	void (*scenario)(void) = memory_find(scenarios, argc > 1 ? argv[1] : nullptr);
	uint64_t runs = known_main(scenario);

	known_require(scenario != throwing || throws == runs * 100, "throws");
	known_require(scenario != handling || throws == runs * 20, "throws after the handler");
	known_require(scenario != jumping || jumps == runs * 100, "jumps");
	if (scenario == plain || scenario == jumping)
		memory_expect();
	else
		known_expect("memory", "current_bytes", memory.current_bytes);
	return 0;
}
