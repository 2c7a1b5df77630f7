"""Parsed kernel names: function, namespaces, template arguments, lambdas, and texts that are no C++ function."""

from __future__ import annotations

from gpuprof.model.kernel_names import harmless, parse_name
from gpuprof.model.name_tree import Type, tokens_of, tree_of, walk
from gpuprof.model.type_words import callable_name, first_dtype, short


def _type(text: str) -> Type:
    return tree_of(tokens_of(text))


def test_name_has_its_function_namespaces_and_arguments() -> None:
    name = parse_name("void at::native::scale<float, (int)4>(float*)")
    assert (name.base, name.library, name.plain) == ("scale", "at", False)
    assert [scope.name for scope in name.scopes] == ["at", "native"]
    assert [short(arg) for arg in name.args] == ["float", "4"]

    assert parse_name("void at::scale<4>(int)").tokens == ("scale", "<", "4", ">", "(", "int", ")", "void", "at", "::")
    assert parse_name("_ZN3foo6kernelILi4EEvPf").base == "kernel"
    for text in ("ampere_sgemm_128x64_nn", "Memcpy HtoD (Pageable -> Device)", "step 12"):
        assert (parse_name(text).plain, parse_name(text).base) == (True, text)


def test_unbalanced_brackets_close_at_the_end() -> None:
    assert [part.name for part in walk([_type("a<b<c, d")])] == ["a", "b", "c", "d"]


def test_lambdas_of_all_demanglers_have_one_name() -> None:
    for text in ("main::{lambda(int)#2}", "main::[lambda(int) (instance 2)]", "main::'lambda2'(int)"):
        assert callable_name(_type(text)) == "main::lambda#2"


def test_first_data_type_is_found_inside_arguments() -> None:
    assert first_dtype([_type("ns::Op<4, ns::It<c10::Half>, float>")]) == "fp16"


def test_controls_are_replaced_and_spaces_kept() -> None:
    assert harmless("a\x1bb\u2003c") == "a\N{REPLACEMENT CHARACTER}b c"
