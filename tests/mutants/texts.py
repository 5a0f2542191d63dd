#!/usr/bin/env python3
"""Mutants of what the Rust compiler sees as mere text: DynamoDB's conditions and SQL. cargo-mutants does not touch these.

  texts.py list CRATE...          the names of all mutants
  texts.py run CRATE OUT K/N      tests every Nth one, starting with the Kth (counted from 0), in the current directory, whose
                                  sources are changed and put back; writes caught.txt, missed.txt and timeout.txt to OUT

CRATE is aws (the conditions of expressions) or sqlite (every statement).
"""

import pathlib
import re
import subprocess
import sys

# A mutant that takes this long waits for something that never comes.
TIMEOUT_S = 1_200

SOURCES = {"aws": ["crates/aws/src/expressions.rs", "crates/aws/src/expressions"], "sqlite": ["crates/sqlite/src"]}

# A string literal, also one that continues on the next line.
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)

# What is worth changing: DynamoDB's conditions are the values of constants, statements begin with a verb.
STATEMENT = re.compile(r'"\s*(SELECT|INSERT|REPLACE|UPDATE|DELETE)\b')

SWAPS = [
    (r"(?<![<>!])=(?!=)", ["<>"]),
    (r"<>", ["="]),
    (r"<=", ["<", ">"]),
    (r">=", [">", "<"]),
    (r"<(?![=>])", ["<=", ">"]),
    (r"(?<![<-])>(?!=)", [">=", "<"]),
    (r"\bAND\b", ["OR"]),
    (r"\bOR\b(?! IGNORE| REPLACE)", ["AND"]),
    (r"\battribute_exists\b", ["attribute_not_exists"]),
    (r"\battribute_not_exists\b", ["attribute_exists"]),
    (r"(?<=\():\w+, ", [""]),
    (r", :\w+(?=[,)])", [""]),
    (r"\bNOT EXISTS\b", ["EXISTS"]),
    (r"\bOR IGNORE\b", [""]),
    (r" ORDER BY [\w, ]+?(?= LIMIT|\")", [""]),
    (r" LIMIT \?\d", [""]),
]


def literals(text, path):
    """Start, end and name of each text that is a condition or a statement."""
    end_of_product = text.find("#[cfg(test)]")
    counts = {}
    for found in LITERAL.finditer(text, 0, end_of_product if end_of_product >= 0 else len(text)):
        line_start = text.rfind("\n", 0, found.start()) + 1
        if text[line_start:found.start()].lstrip().startswith("//"):
            continue
        before = text[:found.start()]
        constant = re.search(r"const (\w+): &str =\s*$", before)
        if "/expressions" in path:
            if constant:
                yield found.start(), found.end(), constant.group(1)
        elif STATEMENT.match(found.group()):
            within = re.findall(r"\bfn (\w+)", before)
            name = constant.group(1) if constant else within[-1]
            counts[name] = counts.get(name, 0) + 1
            yield found.start(), found.end(), name if counts[name] == 1 else f"{name}, text {counts[name]}"


def mutants(crate):
    """Name, path and changed source of each mutant."""
    for source in SOURCES[crate]:
        source = pathlib.Path(source)
        for path in sorted(source.rglob("*.rs")) if source.is_dir() else [source]:
            text = path.read_text()
            for start, end, name in literals(text, str(path)):
                literal = text[start:end]
                for pattern, replacements in SWAPS:
                    for number, spot in enumerate(re.finditer(pattern, literal), 1):
                        for replacement in replacements:
                            changed = literal[:spot.start()] + replacement + literal[spot.end():]
                            what = f"replace `{spot.group().strip()}` ({number}) with `{replacement}` in the text {name}"
                            yield f"{path}: {what}", path, text[:start] + changed + text[end:]


def verdict(crate):
    """The result of the crate's tests on the current sources."""
    command = ["cargo", "nextest", "run", "--locked", "--offline", "-p", f"longhaul-{crate}"]
    try:
        tested = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "missed" if tested.returncode == 0 else "caught"


def run(crate, out, shard):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("caught", "missed", "timeout"):
        (out / f"{kind}.txt").write_text("")
    if verdict(crate) != "missed":
        sys.exit(f"texts.py: the tests of {crate} fail without any change")
    first, step = map(int, shard.split("/"))
    for name, path, changed in list(mutants(crate))[first::step]:
        text = path.read_text()
        path.write_text(changed)
        try:
            kind = verdict(crate)
        finally:
            path.write_text(text)
        print(f"{kind:8} {name}", flush=True)
        with (out / f"{kind}.txt").open("a") as names:
            names.write(name + "\n")


def main(arguments):
    match arguments:
        case ["list", *crates]:
            for crate in crates:
                for name, _path, _changed in mutants(crate):
                    print(name)
        case ["run", crate, out, shard]:
            run(crate, out, shard)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
