"""Makes `src/folio_client/synchronous` of `src/folio_client/asynchronous`: the same without waiting for others.

python tools/unasync.py           # writes it
python tools/unasync.py --check   # fails if it is not what would be written
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "folio_client" / "asynchronous"
TARGET = SOURCE.with_name("synchronous")

RULES = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync(Folio|Run|Scratchbook|Wire|Generator)\b", r"\1"),
    (r"\bhttpx\.AsyncClient\b", "httpx.Client"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(close|closing|read|iter_bytes)\b", r"\1"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"for programs with `asyncio`", "for programs that wait"),
]


def translated(text: str) -> str:
    """A module without `async`."""
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    lines = text.split("\n")
    imports_time = "import time" in lines
    lines = [
        line if line != "import asyncio" else "import time"
        for line in lines
        if line != "import asyncio" or not imports_time
    ]
    first = next((at for at, line in enumerate(lines) if line.startswith(("import ", "from "))), 0)
    last = next((at for at in range(first, len(lines)) if not lines[at].startswith("import ")), first)
    lines[first:last] = sorted(lines[first:last])
    return "# Made by tools/unasync.py of asynchronous; changed there and nowhere else.\n" + "\n".join(lines)


def main() -> int:
    wrong = []
    TARGET.mkdir(exist_ok=True)
    for source in sorted(SOURCE.glob("*.py")):
        target, wanted = TARGET / source.name, translated(source.read_text(encoding="utf-8"))
        if "--check" not in sys.argv[1:]:
            target.write_text(wanted, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != wanted:
            wrong.append(target.name)
    if wrong:
        print(
            f"not what asynchronous says: {', '.join(wrong)}: python clients/python/tools/unasync.py", file=sys.stderr
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
