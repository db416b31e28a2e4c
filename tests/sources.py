"""The sources of the package as syntax trees: who imports what, and what the functions are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import vsbq

PACKAGE = Path(vsbq.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def identify(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def imports(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {f"{module}.{alias.name}" for alias in node.names} if module == "vsbq" else {module}
    return found


class Import(NamedTuple):
    """One import of a module of the package."""

    file: str
    importer: str
    module: str
    kind: str  # "top", "lazy" (in a function) or "typing" (never run)


def module_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def with_kind(node: ast.AST, kind: str = "top") -> Iterator[tuple[ast.AST, str]]:
    """All nodes below one, with the kind that an import there would be of."""
    for child in ast.iter_child_nodes(node):
        inside = kind
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = "lazy"
        elif isinstance(child, ast.If) and dotted(child.test).endswith("TYPE_CHECKING"):
            inside = "typing"
        yield child, inside
        yield from with_kind(child, inside)


def names_imported(node: ast.AST, importer: str, is_package: bool) -> list[str]:
    """Full names that a statement imports, each with what it takes from a module: `vsbq.errors.VsbqError`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parts = importer.split(".")
        here = parts[: len(parts) - node.level + is_package] if node.level else []
        return [".".join([*here, *filter(None, [node.module]), alias.name]) for alias in node.names]
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in {"import_module", "__import__"}:
        return [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
    return []


def imports_within(package: Path) -> list[Import]:
    """What the modules of a package import from each other."""
    modules = {module_of(path, package): path for path in sorted(package.rglob("*.py"))}
    found = []
    for importer, path in modules.items():
        for node, kind in with_kind(ast.parse(path.read_text(encoding="utf-8"))):
            for name in names_imported(node, importer, path.name == "__init__.py"):
                inside = name == package.name or name.startswith(package.name + ".")
                module = name if name in modules else name.rpartition(".")[0]
                if inside:
                    found.append(Import(path.relative_to(package).as_posix(), importer, module, kind))
    return found


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements of a function after its docstring."""
    return function.body[ast.get_docstring(function) is not None :]
