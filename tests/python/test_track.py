# SPDX-License-Identifier: BSD-2-Clause
"""@perfx.track and perfx.scope: nesting, and that functions keep their properties."""
import asyncio
import contextlib
import functools
import inspect
import pickle
import threading

import perfx
import pytest


@perfx.track
def documented(first: int, *rest, key=1) -> int:
    """What it does."""
    return first + len(rest) + key


def test_keeps_name_signature_and_doc():
    assert documented.__name__ == "documented" and documented.__doc__ == "What it does."
    assert str(inspect.signature(documented)) == "(first: int, *rest, key=1) -> int"
    assert pickle.loads(pickle.dumps(documented)) is documented


def test_calls_are_ranges(heard):
    assert documented(1, 2, key=3) == 5
    assert documented(0) == 1
    assert heard.paths == ["documented", "documented"]


def test_names(heard):
    class Net:
        @perfx.track
        def forward(self):
            return self

        @perfx.track(name="renamed | `x`")
        def other(self):
            return self

        @perfx.track("short")
        @staticmethod
        def static(x):
            return x

        @perfx.track
        @classmethod
        def made(cls):
            return cls

    net = Net()
    assert net.forward() is net and net.other() is net and Net.static(4) == 4 and net.made() is Net
    perfx.track(functools.partial(documented.__wrapped__, 3))()
    assert heard.paths == ["Net.forward", "renamed | `x`", "short", "Net.made", "documented"]


def test_nesting_and_exceptions(heard):
    @perfx.track
    def inner():
        raise KeyError("x")

    @perfx.track
    def outer():
        with perfx.scope("try"):
            with contextlib.suppress(KeyError):
                inner()
        with perfx.scope("after"):
            pass

    outer()
    with pytest.raises(KeyError):
        inner()
    assert heard.paths == ["outer", "outer/try", "outer/try/inner", "outer/after", "inner"]


def test_scope_entered_again(heard):
    scope = perfx.scope("again")
    with scope, scope:
        pass
    assert heard.paths == ["again", "again/again"]


def test_threads_have_their_own(heard):
    barrier = threading.Barrier(3)

    @perfx.track
    def work(name):
        with perfx.scope(name):
            barrier.wait()

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(3)]
    with perfx.scope("main"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(heard.paths) == ["main", *["work"] * 3, "work/t0", "work/t1", "work/t2"]


def test_tasks_have_their_own(heard):
    """Two tasks in turns: each range is inside those of its own task."""
    turns = []

    @perfx.track
    def sync(name):
        turns.append(name)
        with perfx.scope("deep"):
            pass

    @perfx.track(name="load")
    async def load(name):
        for _ in range(2):
            with perfx.scope(name):
                sync(name)
                await asyncio.sleep(0)
        return name

    async def main():
        with perfx.scope("main"):
            return await asyncio.gather(load("a"), load("b"))

    assert asyncio.run(main()) == ["a", "b"]
    assert turns == ["a", "b", "a", "b"]
    for name in "ab":
        mine = [path for path in heard.paths if f"/{name}" in path]
        assert mine == [f"main/load/{name}", f"main/load/{name}/sync",
                        f"main/load/{name}/sync/deep"] * 2
    assert heard.paths.count("main/load") == 2


def test_thread_of_a_task(heard):
    async def main():
        with perfx.scope("task"):
            await asyncio.to_thread(documented, 1)

    asyncio.run(main())
    assert heard.paths == ["task", "task/documented"]


def test_loop_inside_a_function(heard):
    async def child():
        with perfx.scope("child"):
            await asyncio.sleep(0)

    @perfx.track
    def run():
        asyncio.run(child())

    run()
    assert heard.paths == ["run", "run/child"]


def test_async_function_stays_one(heard):
    @perfx.track
    async def fails(x):
        await asyncio.sleep(0)
        raise ValueError(x)

    assert inspect.iscoroutinefunction(fails) and str(inspect.signature(fails)) == "(x)"
    with pytest.raises(ValueError):
        asyncio.run(fails(1))
    assert heard.paths == ["fails"]


def test_cancelled_task(heard):
    @perfx.track
    async def forever():
        with perfx.scope("wait"):
            await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert heard.paths == ["forever", "forever/wait"]


def test_generator(heard):
    """A call for each resumption; the consumer's work is outside."""
    log = []

    @perfx.track
    def numbers(n):
        try:
            for i in range(n):
                with perfx.scope("make"):
                    i *= 2
                try:
                    log.append((yield i))
                except KeyError as error:
                    log.append(error.args[0])
        finally:
            log.append("closed")
        return "end"

    assert inspect.isgeneratorfunction(numbers)

    def consume():
        with perfx.scope("all"):
            return (yield from numbers(1))

    with perfx.scope("loop"):
        for _ in numbers(2):
            with perfx.scope("use"):
                pass
    assert heard.paths == [
        "loop", "loop/numbers", "loop/numbers/make", "loop/use", "loop/numbers",
        "loop/numbers/make", "loop/use", "loop/numbers"]
    running = numbers(5)
    assert next(running) == 0 and running.send("sent") == 2 and running.throw(KeyError("thrown")) == 4
    running.close()
    assert log == [None, None, "closed", "sent", "thrown", "closed"]
    outer = consume()
    assert next(outer) == 0
    with pytest.raises(StopIteration) as stop:
        next(outer)
    assert stop.value.value == "end"


def test_scope_in_a_generator_ends_anywhere(heard):
    """Its consumer may leave it open, and meanwhile begin and end its own ranges."""
    def batches():
        for _ in range(2):
            with perfx.scope("batch"):
                yield

    first, second = batches(), batches()
    with perfx.scope("outer"):
        next(first)
        next(second)
        with perfx.scope("inner"):
            next(first)
    first.close()
    second.close()
    assert heard.paths == ["outer", "outer/batch", "outer/batch", "outer/inner",
                           "outer/inner/batch"]


def test_scope_in_context_managers(heard):
    @contextlib.contextmanager
    def timed(name):
        with perfx.scope(name):
            yield

    @contextlib.asynccontextmanager
    async def atimed(name):
        with perfx.scope(name):
            await asyncio.sleep(0)
            yield

    with timed("a"), perfx.scope("b"):
        with contextlib.ExitStack() as stack:
            stack.enter_context(perfx.scope("c"))
            documented(1)

    async def task(name):
        async with atimed(name):
            with contextlib.ExitStack() as stack:
                stack.enter_context(perfx.scope("in"))
                await asyncio.sleep(0)

    async def both():
        await asyncio.gather(task("x"), task("y"))

    asyncio.run(both())
    assert heard.paths[:4] == ["a", "a/b", "a/b/c", "a/b/c/documented"]
    assert sorted(heard.paths[4:]) == ["x", "x/in", "y", "y/in"]


def test_async_generator(heard):
    @perfx.track
    async def numbers(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def main():
        found = []
        async for i in numbers(2):
            with perfx.scope("use"):
                found.append(i)
        return found

    assert inspect.isasyncgenfunction(numbers)
    assert asyncio.run(main()) == [0, 1]
    assert heard.paths == ["numbers", "use", "numbers", "use", "numbers"]


class Jitted:
    """A stand-in for a function of jax.jit."""

    def __init__(self, fn):
        functools.update_wrapper(self, fn)

    def __call__(self, *args):
        return self.__wrapped__(*args)

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(self, instance)

    def lower(self, *args):
        return ("lowered", args)


def test_callable_objects(heard):
    def step(x, y=2):
        """Steps."""
        return x + y

    jitted = Jitted(step)
    tracked = perfx.track(jitted)
    assert tracked(1) == 3 and tracked.lower(5) == ("lowered", (5,))
    assert str(inspect.signature(tracked)) == "(x, y=2)"
    assert tracked.__name__ == "step" and tracked.__doc__ == "Steps."
    tracked.note = 5
    assert jitted.note == 5 and "lower" in dir(tracked)
    with pytest.raises(AttributeError):
        tracked.nothing

    class Net:
        @perfx.track(name="jitted method")
        @Jitted
        def forward(self, x):
            return self, x

    net = Net()
    assert net.forward(3) == (net, 3)
    assert perfx.track(len)("abc") == 3 and perfx.track(max, name="most")(1, 2) == 2
    assert heard.paths == ["step", "jitted method", "len", "most"]


def test_refuses():
    with pytest.raises(TypeError, match="track its methods"):
        perfx.track(Jitted)
    with pytest.raises(TypeError, match="cannot be called"):
        perfx.track(5)
    with pytest.raises(TypeError, match="a name must be"):
        perfx.scope(5)
