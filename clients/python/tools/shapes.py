"""Makes `src/folio_client/shapes.py` of `docs/openapi.json`, so that no type of this client is written by hand.

python tools/shapes.py           # writes it
python tools/shapes.py --check   # fails if it is not what would be written
"""

import json
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DESCRIPTION = HERE.parents[2] / "docs" / "openapi.json"
TARGET = HERE.parent / "src" / "folio_client" / "shapes.py"

HEAD = '''"""The shapes of what Folio takes and gives, as `docs/openapi.json` has them.

Made by `tools/shapes.py`; changed there and nowhere else.
"""

import sys
from typing import Any, Literal, NotRequired, TypeAlias

# Pydantic reads no other before Python 3.12.
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict

'''

QUOTE = '"'
Schema = dict[str, Any]


def type_of(schema: Schema | bool) -> str:
    """The type of a value that `schema` describes."""
    if isinstance(schema, bool):
        return "Any"
    if "$ref" in schema:
        return f'"{schema["$ref"].rsplit("/", 1)[-1]}"'
    if "enum" in schema:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    for way in ("anyOf", "oneOf"):
        if way in schema:
            return union(type_of(one) for one in schema[way])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return union(type_of({**schema, "type": kind}) for kind in kinds)
    match kinds:
        case "array":
            return f"list[{type_of(schema.get('items', True))}]"
        case "object":
            return f"dict[str, {type_of(schema.get('additionalProperties', True))}]"
        case "string":
            return "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "null":
            return "None"
    return "Any"


def union(types: Any) -> str:
    """One of `types`. A name stands in quotes as a whole, because it may be defined further down."""
    names = list(dict.fromkeys(types))
    joined = " | ".join(name.strip('"') for name in names)
    return f'"{joined}"' if any(name.startswith('"') for name in names) else joined


def is_structure(schema: Schema) -> bool:
    return bool(schema.get("properties"))


def with_alternatives(schema: Schema, schemas: dict[str, Schema]) -> Schema:
    """Returns `schema`, an object, with the fields of the objects that it may be besides (`anyOf`). Those that all of
    them require are required. One class with all fields, since a union cannot be indexed before it is narrowed."""
    alternatives = [
        with_alternatives(schemas[one["$ref"].rsplit("/", 1)[-1]] if "$ref" in one else one, schemas)
        for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
    ]
    if not alternatives:
        return schema
    found: dict[str, list[Any]] = {}
    for one in (schema, *alternatives):
        for field, of in one.get("properties", {}).items():
            if of not in found.setdefault(field, []):
                found[field].append(of)
    common = set.intersection(*(set(one.get("required", ())) for one in alternatives))
    return {
        **{name: value for name, value in schema.items() if name not in ("anyOf", "oneOf")},
        "properties": {field: ofs[0] if len(ofs) == 1 else {"anyOf": ofs} for field, ofs in sorted(found.items())},
        "required": sorted({*schema.get("required", ()), *common}),
    }


def comment(text: str, indent: str) -> list[str]:
    """`text` as comment lines."""
    return textwrap.wrap(" ".join(text.split()), 118, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def structure(name: str, schema: Schema) -> list[str]:
    """A class with the fields of an object."""
    required = set(schema.get("required", []))
    lines = [f"class {name}(TypedDict):"]
    about = schema.get("description", "").strip() or name
    lines += textwrap.wrap(f'"""{" ".join(about.split())}"""', 116, initial_indent="    ", subsequent_indent="    ")
    lines.append("")
    for field, of in schema["properties"].items():
        if isinstance(of, dict) and of.get("description"):
            lines += comment(of["description"], "    ")
        kind = type_of(of)
        lines.append(f"    {field}: {kind if field in required else f'NotRequired[{kind}]'}")
    return lines


def functional(name: str, schema: Schema) -> list[str]:
    """The same where a field is called as a word of the language."""
    required = set(schema.get("required", []))
    lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
    for field, of in schema["properties"].items():
        kind = type_of(of)
        lines.append(f'        "{field}": {kind if field in required else f"NotRequired[{kind}]"},')
    return [*lines, "    },", ")"]


def module(document: Schema) -> str:
    """The whole module."""
    schemas = document["components"]["schemas"]
    classes, aliases = [], {}
    for name, schema in sorted(schemas.items()):
        about = comment(schema.get("description", ""), "")
        if not is_structure(schema):
            # Names of classes stand in quotes, since they may be defined further down. All are defined above aliases,
            # which would otherwise be texts when a program looks at the types.
            aliases[name] = [*about, f"{name}: TypeAlias = {type_of(schema).replace(QUOTE, '')}"]
            continue
        schema = with_alternatives(schema, schemas)
        is_functional = any(keyword.iskeyword(field) for field in schema["properties"])
        classes.append([*about, *functional(name, schema)] if is_functional else structure(name, schema))
    parts = ["\n".join(lines) for lines in (*classes, *in_order(aliases))]
    return HEAD + "\n" + "\n\n\n".join(parts) + "\n"


def in_order(aliases: dict[str, list[str]]) -> Iterator[list[str]]:
    """Yields the lines of `aliases`, each after those that it names."""
    left = dict(aliases)
    while left:
        name = next(one for one in left if not left.keys() & (set(re.findall(r"\w+", left[one][-1])) - {one}))
        yield left.pop(name)


def main() -> int:
    wanted = module(json.loads(DESCRIPTION.read_text(encoding="utf-8")))
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") != wanted:
            print(
                f"{TARGET.name} is not what docs/openapi.json says: python clients/python/tools/shapes.py",
                file=sys.stderr,
            )
            return 1
        return 0
    TARGET.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
