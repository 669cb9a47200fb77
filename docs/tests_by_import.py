"""Which test files use a definition of the package, found by what they import: for docs/paper_index.py.

Files are parsed, not imported. A name counts where its first part is imported: `op.theory.predict` after
`import overparam as op`, whatever the room exports it as; a bare `predict` that is imported from nowhere does not.
"""

from __future__ import annotations

import ast
from pathlib import Path

DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def module_of(path: Path) -> str:
    """The name a file is imported by, from the folder above its package on; of a test helper its bare name."""
    parts = [path.stem] if path.stem != "__init__" else []
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def below(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, but operators, contexts and the like: `ast.iter_child_nodes` takes twice as long."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and value._fields:
            found.append(value)
    return found


class Scope:
    """A file or a function while it is read: the names it binds, and those it uses, each with the definition around it."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        self.own: set[str] = set()
        self.used: list[tuple[str, list[str]]] = []


class File:
    """A file of the package or of its tests: what its names mean by import, and what each definition in it uses.

    A name is held as `module:definition`, because a room may export a function that is called like one of its files.
    """

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.uses: dict[str, set[str]] = {}
        """By definition (`f`, `Class`, `Class.method`; "" for the rest of the file): the names it uses."""
        self.attributes: dict[str, set[str]] = {}
        """By definition: every `.name` it asks of anything."""
        self.bases: dict[str, set[str]] = {}
        self.returns: dict[str, set[str]] = {}
        self._types: list[tuple[dict[str, set[str]], str, list[ast.expr]]] = []
        whole, defined = Scope(), {}
        for node in tree.body:
            if isinstance(node, DEFINED):
                defined[node.name] = f"{module}:{node.name}"
            assigned = _assigned(node)
            for name in assigned:
                # `analyze = verb(prepare_analyze)`: whoever asks for the one asks for the other
                made = [call for call in ast.walk(node) if isinstance(call, ast.Call) and _chain(call.func) == ["verb"]]
                defined[name] = f"{module}:{_chain(made[0].args[0])[0] if made else name}"
            self._read(node, assigned[0] if assigned else "", whole)
        if "__getattr__" in defined:  # a front door that imports when first asked: a table of names and places
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                    table = ast.literal_eval(node.value)
                    defined |= {name: f"{module}.{place}:{name}" for name, place in table.items()}
        self.bound = whole.imports | defined
        """By name as written here: what it is imported from, defined as, or made of."""
        for inside, chain in whole.used:
            self._use(inside, chain, self.bound)
        for table, inside, types in self._types:
            chains = [_chain(each) for node in types for each in ast.walk(node)]
            table[inside] = {_joined(self.bound[c[0]], *c[1:]) for c in chains if c and c[0] in self.bound}

    def _read(self, node: ast.AST, inside: str, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                scope.own.add(node.id)
            scope.used.append((inside, [node.id]))
            return
        if isinstance(node, ast.Attribute):
            self.attributes.setdefault(inside, set()).add(node.attr)
            if chain := _chain(node):
                scope.used.append((inside, chain))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                scope.imports[alias.asname or whole] = f"{whole}:"
        elif isinstance(node, ast.ImportFrom):
            scope.imports |= {alias.asname or alias.name: f"{node.module}:{alias.name}" for alias in node.names}
        elif isinstance(node, ast.arg):
            scope.own.add(node.arg)
        elif isinstance(node, DEFINED):
            inside = f"{inside}.{node.name}".lstrip(".")
            self.uses.setdefault(inside, set())
            types = (self.bases, node.bases) if isinstance(node, ast.ClassDef) else (self.returns, [node.returns])
            self._types.append((types[0], inside, [each for each in types[1] if each is not None]))
        around, scope = scope, Scope() if isinstance(node, FUNCTIONS) else scope
        for child in below(node):
            self._read(child, inside, scope)
        if scope is not around:
            for place, chain in scope.used:
                if chain[0] in scope.imports:
                    self._use(place, chain, scope.imports)
                elif chain[0] not in scope.own:
                    around.used.append((place, chain))

    def _use(self, inside: str, chain: list[str], bound: dict[str, str]) -> None:
        if chain[0] in bound:
            self.uses.setdefault(inside, set()).add(_joined(bound[chain[0]], *chain[1:]))


def _chain(node: ast.AST) -> list[str]:
    """["op", "theory", "predict"] of `op.theory.predict`; empty where it does not open with a name."""
    rest: list[str] = []
    while isinstance(node, ast.Attribute):
        rest.insert(0, node.attr)
        node = node.value
    return [node.id, *rest] if isinstance(node, ast.Name) else []


def _joined(name: str, *parts: str) -> str:
    return ".".join((name, *parts)).replace(":.", ":")


def _assigned(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


class Users:
    """Which tests use a definition, found by import; where none does, which callers in the package stand for it."""

    def __init__(self, root: Path) -> None:
        source, tests = (
            {path: module_of(path) for path in sorted((root / top).rglob("*.py"))} for top in ("src", "tests")
        )
        self.files = {
            module: File(module, ast.parse(path.read_text(encoding="utf-8")))
            for path, module in (source | tests).items()
        }
        self.of_tests = set(tests.values())
        """Modules of the tests, what they share among them."""
        self.tests = {
            path.relative_to(root / "tests").as_posix(): self._used(module)
            for path, module in tests.items()
            if path.name.startswith("test_")
        }
        """By test file: the definitions and the attributes it uses."""
        self.uses, self.bases, self.returns = (
            {
                f"{module}:{inside}": {self.resolve(name) for name in names}
                for module in source.values()
                for inside, names in getattr(self.files[module], what).items()
            }
            for what in ("uses", "bases", "returns")
        )

    def resolve(self, name: str) -> str:
        """Where a name is defined, through re-exports to the end."""
        module, _, rest = name.partition(":")
        first, _, more = rest.partition(".")
        if module not in self.files or not first:
            return name
        meant = self.files[module].bound.get(first, "")
        if meant in ("", f"{module}:{first}") and f"{module}.{first}" in self.files:
            meant = f"{module}.{first}:"  # a file of the package, which may import it by its own name
        whole = _joined(meant, more) if more else meant
        return name if whole in ("", name) else self.resolve(whole)

    def _used(self, module: str) -> tuple[set[str], set[str]]:
        """What a test file uses, itself and by what it imports from other files of the tests."""
        used: set[str] = set()
        attributes: set[str] = set()
        todo = [f"{module}:"]
        while todo:
            home, _, definition = todo.pop().partition(":")
            file = self.files[home]
            for inside in file.uses:
                if not definition or f"{inside}.".startswith(f"{definition}."):
                    attributes |= file.attributes.get(inside, set())
                    new = {self.resolve(name) for name in file.uses[inside]} - used
                    used |= new
                    todo += [name for name in new if name.partition(":")[0] in self.of_tests]
        return used, attributes

    def tests_of(self, dotted: str) -> list[str]:
        """The test files that use a definition or, of a class, a subclass of it.

        Of a module: any of its definitions. Of a method: its class, or a function that is annotated to give one, and the
        attribute.
        """
        name = self._name(dotted)
        wanted = self._subclasses(name)
        home, _, method = name.rpartition(".")
        makers = self._subclasses(home, method) if home in self.bases else set()
        makers |= {maker for maker, made in self.returns.items() if made & makers}
        return [
            place
            for place, (used, attributes) in self.tests.items()
            if used & wanted
            or (method in attributes and used & makers)
            or (name.endswith(":") and any(each.startswith(name) for each in used))
        ]

    def callers_of(self, dotted: str) -> dict[str, list[str]]:
        """The nearest public definitions of the package that use a definition, private ones between, with their tests."""
        level = {self._name(dotted)}
        seen = set(level)
        while level:
            level = {caller for caller, used in self.uses.items() if used & level} - seen
            seen |= level
            private = {caller for caller in level if caller.endswith(":") or "._" in caller.replace(":", ".")}
            tests = {caller.replace(":", "."): self.tests_of(caller.replace(":", ".")) for caller in level - private}
            if any(tests.values()):
                return {caller: tests[caller] for caller in sorted(tests) if tests[caller]}
            level = private
        return {}

    def _name(self, dotted: str) -> str:
        module = max((each for each in self.files if f"{dotted}.".startswith(f"{each}.")), key=len)
        return f"{module}:{dotted[len(module) + 1 :]}"

    def _subclasses(self, name: str, method: str = "") -> set[str]:
        """A class and its subclasses, without those that have a `method` of their own."""
        found = {name}
        while new := {
            sub
            for sub, bases in self.bases.items()
            if bases & found and sub not in found and f"{sub}.{method}" not in self.uses
        }:
            found |= new
        return found
