"""What the tests of the C kernels share."""

import pytest

from dualpca import native


@pytest.fixture(params=native.kernels.instructions() if native.native_available() else [])
def instructions(request):
    """Each instruction set that this machine has."""
    best = native.kernels.instructions()[-1]
    native.kernels.instructions(request.param)
    yield request.param
    native.kernels.instructions(best)
