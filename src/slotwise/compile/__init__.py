"""Compile arithmetic to machine code; the only package that imports numba and llvmlite.

Functions are declared with decorators (`decorators`) and stay plain Python. They are interpreted
until machine code pays (`switch`). Then numba makes it (`machine_code`), with some interfaces that
numba does not document (`internals`) and with passes in LLVM's vectors (`vector_code`), often in a
separate process (`__main__`), to which `descriptions` are sent. The code is stored on disk under a
digest of its sources (`cache`).

Importing this package does not import numba. Without numba, everything is interpreted. With a numba
that lacks one of the undocumented interfaces, functions are compiled by plain `njit`.
"""

from slotwise.compile.decorators import (
    NotCompilable as NotCompilable,
    can_be_compiled as can_be_compiled,
    compiled as compiled,
    hot as hot,
    inner as inner,
    int64 as int64,
    is_dispatcher as is_dispatcher,
    loop_maker as loop_maker,
    nan_check as nan_check,
    vector_pass as vector_pass,
)
from slotwise.compile.switch import (
    Code as Code,
    announce_compiling as announce_compiling,
    code_for as code_for,
    compiled_first as compiled_first,
    compiler_version as compiler_version,
    compiles as compiles,
    support_numba as support_numba,
    switching as switching,
)
