"""How arithmetic becomes machine code; the only package that imports numba and llvmlite.

Functions are declared with decorators (`decorators`) and stay plain Python. They are interpreted
until machine code pays (`switch`). Then numba makes it (`machine_code`), with some interfaces that
numba does not document (`internals`) and with passes in LLVM's vectors (`vector_code`), often in a
process of its own (`__main__`). The code is stored on disk under a digest of its sources (`cache`).

Importing this package does not import numba. Without numba, everything is interpreted. With a numba
that lacks one of the undocumented interfaces, functions are compiled by plain `njit`.
"""

from slotwise.compile.decorators import (
    can_be_compiled as can_be_compiled,
)
from slotwise.compile.decorators import (
    compiled as compiled,
)
from slotwise.compile.decorators import (
    hot as hot,
)
from slotwise.compile.decorators import (
    inner as inner,
)
from slotwise.compile.decorators import (
    int64 as int64,
)
from slotwise.compile.decorators import (
    is_dispatcher as is_dispatcher,
)
from slotwise.compile.decorators import (
    loop_maker as loop_maker,
)
from slotwise.compile.decorators import (
    vector_pass as vector_pass,
)
from slotwise.compile.switch import (
    Code as Code,
)
from slotwise.compile.switch import (
    announce_compiling as announce_compiling,
)
from slotwise.compile.switch import (
    code_for as code_for,
)
from slotwise.compile.switch import (
    compiled_first as compiled_first,
)
from slotwise.compile.switch import (
    compiler_version as compiler_version,
)
from slotwise.compile.switch import (
    compiles as compiles,
)
from slotwise.compile.switch import (
    support_numba as support_numba,
)
from slotwise.compile.switch import (
    switching as switching,
)
