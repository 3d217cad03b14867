"""The C kernels, which are optional: without a compiler the package is pure Python."""

from glob import glob

from setuptools import Extension, setup

# One build serves every Python from 3.11 on (PEP 384: buffers are part of the stable ABI since then).
kernels = Extension(
    "dualpca.native._kernels",
    sources=["src/dualpca/native/_kernels.c"],
    depends=sorted(glob("src/dualpca/native/*.h")),
    # Roots and comparisons of vectors, where nobody asks for errno or traps.
    extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math"],
    extra_link_args=["-pthread"],
    py_limited_api=True,
    optional=True,
)
setup(ext_modules=[kernels], options={"bdist_wheel": {"py_limited_api": "cp311"}})
