"""The explanation of a kernel as a JSON document."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.model.session import KernelProfile, Session
from gpuprof.store.write import dumped
from gpuprof.words.explain_node import ExplanationNode


def tree_lines(session: Session, kernel: KernelProfile, tree: ExplanationNode) -> Iterator[str]:
    """Yield the explanation of a kernel as a JSON document, line by line."""
    yield "{"
    yield f'  "schema_version": {session.schema_version},'
    yield f'  "gpuprof_version": {dumped(session.gpuprof_version)},'
    yield f'  "kernel": {dumped(kernel.id)},'
    yield f'  "label": {dumped(kernel.label)},'
    yield f'  "demangled": {dumped(kernel.demangled)},'
    yield f'  "tree": {dumped(tree)}'
    yield "}"
