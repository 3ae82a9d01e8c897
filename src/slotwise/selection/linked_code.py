"""Compile functions that only compiled functions call: linked into their callers, nowhere else.

numba optimises every function together with all that it calls and makes machine code of the
result, so a function below five others is optimised six times. A function of `LinkedCompiler` is
translated once and kept as LLVM's intermediate code; it is optimised where it is linked in. That
is nearly half of the time of a first page on a machine where nothing is compiled yet.

On disk the intermediate code lies where numba keeps the code for linking, beside machine code
that defines no function: numba reads it like any other.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen, compiler, compiler_machinery, typed_passes

__all__ = ["LinkedCompiler"]

llvm: Any = codegen.ll  # type: ignore[attr-defined]

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


_register: Any = compiler_machinery.register_pass


@_register(mutates_CFG=True, analysis_only=False)
class _LinkedLowering(typed_passes.NativeLowering):
    """Translate a typed function into a `_LinkedLibrary`."""

    _name = "linked_lowering"

    def run_pass(self, state: Any) -> bool:
        """Translate the function of `state`."""
        if state.library is None:
            library: Any = _LinkedLibrary
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        translate: Any = super().run_pass
        return bool(translate(state))


class LinkedCompiler(compiler.CompilerBase):
    """numba's compiler, with `_LinkedLowering` as its last step but one."""

    def define_pipelines(self) -> list[Any]:
        """Return the steps of numba's own compiler, lowering exchanged."""
        builder: Any = compiler.DefaultPassBuilder
        new_manager: Any = compiler_machinery.PassManager
        manager = new_manager("linked")
        for step, description in builder.define_nopython_pipeline(self.state).passes:
            is_lowering = step is typed_passes.NativeLowering
            manager.add_pass(_LinkedLowering if is_lowering else step, description)
        manager.finalize()
        return [manager]
