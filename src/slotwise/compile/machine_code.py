"""Compile functions that only compiled functions call: linked into their callers, nowhere else.

numba optimises every function together with all that it calls and makes machine code of the
result, so a function below five others is optimised six times. A function of `LinkedCompiler` is
translated once and kept as LLVM's intermediate code; it is optimised where it is linked in. That
is nearly half of the time of a first page on a machine where nothing is compiled yet.

A function that Python calls, or a loop that is given it, is compiled by `EntryCompiler`. What is
linked into it is private to it, so LLVM may drop arguments that are not used: a state is dozens of
arrays, and passing all of them on to each function takes longer than the function.

On disk the intermediate code lies where numba keeps the code for linking, beside machine code
that defines no function: numba reads it like any other.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numba.core import codegen, compiler, compiler_machinery, typed_passes

llvm: Any = codegen.ll  # type: ignore[attr-defined]

UNUSED = frozenset(
    {
        "DumpParforDiagnostics",
        "InlineClosureLikes",
        "InlineInlinables",
        "InlineOverloads",
        "LiteralPropagationSubPipelinePass",
        "LiteralUnroll",
        "MakeFunctionToJitFunction",
        "NopythonRewrites",
        "RewriteDynamicRaises",
        "WithLifting",
    }
)
"""Steps for closures, comprehensions, `with` and array expressions, which take 4 % of the time of a
first page. Linked functions have none of these: they allocate nothing."""

ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin that numba sets in the machine code of every function."""


class _LinkedLibrary(codegen.JITCodeLibrary):
    """The intermediate code of a function and of those that it calls."""

    def _optimize_final_module(self) -> None:
        """Leave the code as it is: the caller's is optimised."""

    def _finalize_final_module(self) -> None:
        """Keep the code for linking, and make machine code of no function."""
        code: Any = self._final_module
        for function in code.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # each caller has its copy
        self._shared_module = code
        environments = [str(one) for one in code.global_variables if ENVIRONMENT in one.name]
        generator: Any = self._codegen
        empty = generator._create_empty_module(self.name)
        self._final_module = llvm.parse_assembly("\n".join([str(empty), *environments]))
        finalize: Any = super()._finalize_final_module
        finalize()


class _EntryLibrary(codegen.JITCodeLibrary):
    """The machine code of a function that is called from outside; what it calls is private."""

    def _optimize_final_module(self) -> None:
        """Optimise, with leave to change how the functions linked in take their arguments."""
        code: Any = self._final_module
        for function in code.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = "internal"
        optimize: Any = super()._optimize_final_module
        optimize()


_register: Any = compiler_machinery.register_pass


class _Lowering(typed_passes.NativeLowering):
    """Translate a typed function into a library of the class `library`."""

    _name: Any = "lowering"
    library: ClassVar[Any]

    def run_pass(self, state: Any) -> bool:
        """Translate the function of `state`."""
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        translate: Any = super().run_pass
        return bool(translate(state))


@_register(mutates_CFG=True, analysis_only=False)
class _LinkedLowering(_Lowering):
    _name = "linked_lowering"
    library = _LinkedLibrary


@_register(mutates_CFG=True, analysis_only=False)
class _EntryLowering(_Lowering):
    _name = "entry_lowering"
    library = _EntryLibrary


class LinkedCompiler(compiler.CompilerBase):
    """numba's compiler, with another lowering as its last step but one."""

    lowering: ClassVar[Any] = _LinkedLowering
    left_out: ClassVar[frozenset[str]] = UNUSED

    def define_pipelines(self) -> list[Any]:
        """Return the steps of numba's own compiler, lowering exchanged, some of them left out."""
        builder: Any = compiler.DefaultPassBuilder
        new_manager: Any = compiler_machinery.PassManager
        manager = new_manager("linked")
        for step, description in builder.define_nopython_pipeline(self.state).passes:
            if step.__name__ not in self.left_out:
                is_lowering = step is typed_passes.NativeLowering
                manager.add_pass(self.lowering if is_lowering else step, description)
        manager.finalize()
        return [manager]


class EntryCompiler(LinkedCompiler):
    """The compiler of functions that Python, or a loop that is given them, calls."""

    lowering = _EntryLowering
    left_out = frozenset()
