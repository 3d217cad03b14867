"""Loops inside a test: one case runs a law for many seeds, shapes and kinds of data."""

import functools
import inspect
from contextlib import contextmanager


@contextmanager
def at(**where):
    """Add to a failure inside the block where it happened."""
    try:
        yield
    except BaseException as error:
        error.add_note("at " + ", ".join(f"{name}={value!r}" for name, value in where.items()))
        raise


def over(names, values, by=None):
    """Run a test for each of the values, as ``pytest.mark.parametrize`` does, but as one case.

    With ``by``, the values are a dictionary, and the argument of that name says which of its entries
    is meant; the test itself does not receive it.
    """
    single = isinstance(names, str)

    def decorate(test):
        @functools.wraps(test)
        def looped(**given):
            chosen = values if by is None else values[given.pop(by)]
            assert chosen, f"there is nothing to loop over for {names}"
            for value in chosen:
                arguments = {names: value} if single else dict(zip(names, value, strict=True))
                with at(**arguments):
                    test(**arguments, **given)

        looped_over = [names] if single else names
        signature = inspect.signature(test)
        parameters = [p for p in signature.parameters.values() if p.name not in looped_over]
        if by is not None:
            parameters.append(inspect.Parameter(by, inspect.Parameter.KEYWORD_ONLY))
        looped.__signature__ = signature.replace(parameters=parameters)
        return looped

    return decorate
