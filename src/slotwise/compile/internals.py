"""What slotwise uses of numba beyond its documented interface.

`slotwise.compile.machine_code` imports this module when something is compiled. If a release of
numba lacks one of these interfaces, the import fails, and functions are compiled by plain `njit`:
more slowly called, not stored on disk, with the same results.

- `EntryCompiler`: what is linked into a function that Python calls is private to that function, so
  LLVM may drop arguments that are not used. A state is dozens of arrays, and passing all of them on
  to each function takes longer than the function.
- `intrinsic_type`: code in LLVM's vectors instead of a compiled Python function.
- `DiskCache`: machine code under the digest of all that determines it.
- `OPTIONS`: options of `njit` that the documentation does not list.

Used by `machine_code`.
"""

from __future__ import annotations

import contextlib
import inspect
import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

from llvmlite import binding
from numba.core import codegen, compiler, compiler_machinery, extending, serialize, typed_passes
from numba.core.cpu import CPUContext, CPUTargetOptions
from numba.core.types import (
    BaseTuple,
    Float,
    Function as FunctionOfTemplate,
    Integer,
    Type,
    float64,
    int64,
)
from numba.core.typing.templates import Signature, infer, make_intrinsic_template

from slotwise.compile.cache import code_file, note_use, remove_unused, write_whole
from slotwise.compile.vector_code import CODE, Codegen

ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin that numba sets in the machine code of every function."""


class _CalleeLibrary(codegen.JITCodeLibrary):
    """The intermediate code of a function and of those that it calls."""

    def _optimize_final_module(self) -> None:
        """Leave the code as it is: it is optimised as a part of its caller."""

    def _finalize_final_module(self) -> None:
        """Store the code for linking, and make machine code of no function."""
        code: binding.ModuleRef = self._final_module
        for function in code.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"  # each caller has its copy
        self._shared_module = code
        variables = [str(one) for one in code.global_variables if ENVIRONMENT in one.name]
        empty = self._codegen._create_empty_module(self.name)
        self._final_module = binding.parse_assembly("\n".join([str(empty), *variables]))
        finalize: Any = super()._finalize_final_module
        finalize()


class _EntryLibrary(codegen.JITCodeLibrary):
    """The machine code of a function that is called from outside; what it calls is private."""

    def _optimize_final_module(self) -> None:
        """Optimise, with leave to change how the functions linked in take their arguments."""
        code: binding.ModuleRef = self._final_module
        for function in code.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "internal"
        optimize: Any = super()._optimize_final_module
        optimize()


class _Lowering(typed_passes.NativeLowering):
    """Translate a typed function into a library of the class `library`."""

    _name = "lowering"
    library: ClassVar[type[codegen.JITCodeLibrary]]

    def run_pass(self, state: compiler.StateDict) -> bool:
        """Translate the function of `state`."""
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        translate: Any = super().run_pass
        return bool(translate(state))


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _CalleeLowering(_Lowering):
    _name = "callee_lowering"
    library = _CalleeLibrary


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _EntryLowering(_Lowering):
    _name = "entry_lowering"
    library = _EntryLibrary


class CalleeCompiler(compiler.CompilerBase):
    """numba's compiler of functions that compiled functions call, with another lowering."""

    lowering: ClassVar[type[_Lowering]] = _CalleeLowering

    def define_pipelines(self) -> list[compiler_machinery.PassManager]:
        """Return the steps of numba's own compiler with the lowering exchanged."""
        manager = compiler_machinery.PassManager("slotwise")
        builder = compiler.DefaultPassBuilder
        for step, description in builder.define_nopython_pipeline(self.state).passes:
            is_lowering = step is typed_passes.NativeLowering
            manager.add_pass(self.lowering if is_lowering else step, description)
        manager.finalize()
        return [manager]


class EntryCompiler(CalleeCompiler):
    """The compiler of functions that Python calls."""

    lowering = _EntryLowering


ENTRY_OPTIONS: dict[str, object] = {"no_cfunc_wrapper": True, "pipeline_class": EntryCompiler}
CALLEE_OPTIONS: dict[str, object] = {
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "pipeline_class": CalleeCompiler,
}
COUNTS_REFERENCES = "_nrt"

for _name in ("no_cfunc_wrapper", "no_cpython_wrapper", COUNTS_REFERENCES):
    getattr(CPUTargetOptions, _name)  # an AttributeError where numba has no such option


@cache
def intrinsic_type(twin: FunctionType) -> FunctionOfTemplate:
    """Return the type of a vector pass: calls of `twin` become the code of `vector_code`."""
    result, write = CODE[twin.__name__]

    def typed(_: object, *arguments: Type) -> tuple[Signature, Codegen]:
        wide = [float64 if isinstance(one, Float) else one for one in arguments]
        whole = [int64 if isinstance(one, Integer) else one for one in wide]
        return result(*whole), write

    context = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [context, *inspect.signature(twin).parameters.values()]
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    handle = extending._Intrinsic(twin.__name__, typed)
    template = make_intrinsic_template(
        handle, typed, twin.__name__, prefer_literal=False, kwargs={}
    )
    infer(template)
    return FunctionOfTemplate(template)


class DiskCache:
    """The machine code of one function on disk, as numba's dispatchers look for it.

    The file of an entry has the name of its described arguments, so that it can be found without
    numba; `expected` are their types, and code for other types is not stored.
    """

    cache_path = None

    def __init__(
        self,
        function: FunctionType,
        kind: str,
        described: str = "",
        expected: tuple[Type, ...] | None = None,
    ) -> None:
        self._function, self._kind = function, kind
        self._described, self._expected = described, expected

    def file_for(self, signature: Signature | Sequence[Type]) -> Path | None:
        """Return the file of the code for these types; None where it is not stored."""
        arguments = tuple(signature.args if isinstance(signature, Signature) else signature)
        if self._expected is None:
            types = " ".join(map(_type_name, arguments))
        elif arguments == self._expected:
            types = self._described
        else:
            return None
        return code_file(self._function, self._kind, types)

    def load_overload(self, signature: Sequence[Type], target: CPUContext) -> Any:
        """Return the code for these types, or None."""
        target.refresh()
        file = self.file_for(signature)
        if file is None or not file.exists():
            return None
        try:
            processor, reduced = pickle.loads(file.read_bytes())
            if processor == target.codegen().magic_tuple():
                found = compiler.CompileResult._rebuild(target, *reduced)
                note_use(file)
                # A class of a program's main file is another one in every process.
                return found if found.signature.args == tuple(signature) else None
        except (OSError, EOFError, ImportError, AttributeError, pickle.UnpicklingError):
            pass  # it is compiled again
        return None

    def save_overload(self, signature: Signature, code: Any) -> None:
        """Store the code, unless it depends on addresses of this process."""
        file = self.file_for(signature)
        if file is None or code.library.has_dynamic_globals or code.lifted:
            return
        with contextlib.suppress(OSError, AttributeError, pickle.PicklingError):
            write_whole(file, serialize.dumps((code.codegen.magic_tuple(), code._reduce())))
            remove_unused(file.parent)

    def enable(self) -> None:
        """Do nothing: the cache is always used."""

    disable = flush = enable


def _type_name(one: Type) -> str:
    """Return the name of a type, with the modules and fields of its tuples."""
    if not isinstance(one, BaseTuple):
        return str(one)
    kind: type = getattr(one, "instance_class", tuple)
    parts: Any = one
    names = [*map(_type_name, parts), *getattr(kind, "_fields", ())]
    return f"{kind.__module__}.{kind.__qualname__}({', '.join(names)})"
