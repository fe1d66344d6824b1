# SPDX-License-Identifier: BSD-2-Clause
"""@perfx.track makes each call of a function a range."""
import functools
import inspect
import types

from . import _ranges
from ._library import encode


def plain(fn, name):
    @functools.wraps(fn)
    def tracked(*args, **kwargs):
        outer = _ranges.push(name)
        try:
            return fn(*args, **kwargs)
        finally:
            _ranges.pop(outer)

    return tracked


def coroutine(fn, name):
    @functools.wraps(fn)
    async def tracked(*args, **kwargs):
        opened = _ranges.start(name)
        try:
            return await fn(*args, **kwargs)
        finally:
            _ranges.end(opened)

    return tracked


def generator(fn, name):
    """Each resumption of the generator, up to its next yield, is a call."""

    @functools.wraps(fn)
    def tracked(*args, **kwargs):
        inner = fn(*args, **kwargs)
        run, value = inner.send, None
        while True:
            outer = _ranges.push(name)
            try:
                item = run(value)
            except StopIteration as stop:
                return stop.value
            finally:
                _ranges.pop(outer)
            try:
                run, value = inner.send, (yield item)
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as error:  # pylint: disable=broad-exception-caught
                run, value = inner.throw, error

    return tracked


def async_generator(fn, name):
    @functools.wraps(fn)
    async def tracked(*args, **kwargs):
        inner = fn(*args, **kwargs)
        run, value = inner.asend, None
        while True:
            opened = _ranges.start(name)
            try:
                item = await run(value)
            except StopAsyncIteration:
                return
            finally:
                _ranges.end(opened)
            try:
                run, value = inner.asend, (yield item)
            except GeneratorExit:
                await inner.aclose()
                raise
            except BaseException as error:  # pylint: disable=broad-exception-caught
                run, value = inner.athrow, error

    return tracked


def wrapper(fn):
    """Which of these fits a callable; of an object with __call__, that decides."""
    for candidate in (fn, getattr(type(fn), "__call__", None)):
        while isinstance(candidate, functools.partial):
            candidate = candidate.func
        if inspect.iscoroutinefunction(candidate):
            return coroutine
        if inspect.isasyncgenfunction(candidate):
            return async_generator
        if inspect.isgeneratorfunction(candidate):
            return generator
    return plain


class TrackedCallable:
    """Stands for a callable that is no Python function, as jax.jit makes them: what is asked of it
    other than to be called (.lower, .trace, …) is asked of the original."""

    def __init__(self, fn, name):
        own = self.__dict__  # __setattr__ changes the original
        own["__wrapped__"] = fn
        own["__perfx_name__"] = name
        own["_perfx_run"] = wrapper(fn)(fn, name)
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(fn, attribute):
                own[attribute] = getattr(fn, attribute)

    def __call__(self, *args, **kwargs):
        return self._perfx_run(*args, **kwargs)

    def __get__(self, instance, owner=None):
        if instance is None or not hasattr(type(self.__wrapped__), "__get__"):
            return self
        return types.MethodType(self, instance)

    def __getattr__(self, name):
        if name == "__wrapped__":  # during construction or copying
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name, value):
        setattr(self.__wrapped__, name, value)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self.__wrapped__)})

    def __repr__(self):
        return f"<perfx.track of {self.__wrapped__!r}>"

    def __reduce__(self):
        return self.__qualname__


def name_of(fn):
    """A function's name in reports: its qualified name, without the function that defines it."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__qualname__
    return name.rpartition("<locals>.")[2]


def track(fn=None, *, name=None):
    """Makes each call of a function a range with the function's name, or `name`.

    For functions, methods (also above @staticmethod and @classmethod), coroutine functions (from
    the first step to the last, whatever else the event loop runs in between), generators (each
    resumption is a call), and other callables, such as jitted functions: put it above @jax.jit.
    The result has the signature and the attributes of the original.
    """
    if fn is None or isinstance(fn, (str, bytes)):
        return functools.partial(track, name=fn if name is None else name)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(track(fn.__func__, name=name))
    if isinstance(fn, type):
        raise TypeError(f"perfx.track: {fn.__name__} is a class: track its methods")
    if not callable(fn):
        raise TypeError(f"perfx.track: a {type(fn).__name__} cannot be called")
    label = encode(name_of(fn) if name is None else name)
    if isinstance(fn, types.FunctionType):
        tracked = wrapper(fn)(fn, label)
        tracked.__perfx_name__ = label
        return tracked
    return TrackedCallable(fn, label)


def is_tracked(fn):
    return "__perfx_name__" in getattr(fn, "__dict__", {})

