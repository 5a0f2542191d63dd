#!/usr/bin/env python3
"""Checks the English of Markdown, doc comments, strings and descriptions of templates: words (scripts/words.txt), and how sentences are built.

  scripts/check_words.py                    fails if a file has more hits than scripts/words_allowed.txt allows it
  scripts/check_words.py --list PATH…       prints each hit in these files
  scripts/check_words.py --lower            lowers the allowed numbers to what the files have now
  scripts/check_words.py --accept [PATH…]   allows these files, or all, what they have now, for one that was moved
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = ROOT / "scripts/words.txt"
ALLOWED = ROOT / "scripts/words_allowed.txt"
WORDS_MAX = 25
STRING_WORDS_MIN = 4
RUST = re.compile(r"(crates/\w[\w-]*|templates/\w+)/(src|examples)/(?!.*\btests?(\.rs|/))")
# Printed by tests from strings in code, which are checked where they are written.
GENERATED = {"docs/settings.md", "docs/transitions.md"}
STARTS = re.compile(r"(What|Who|Whoever|Whom|Whatever|Whichever|Those|Nor|However (many|much|long|often|large)|Of)\b(?! course)")
RAW_OR_STRING = re.compile(r'\br(#*)"(.*?)"\1|(?<!\')"((?:[^"\\]|\\.)*)"', re.DOTALL)
# Sentences, and whether they have a fault: a rule that finds nothing, or too much, is noticed before it is believed.
EXAMPLES = [
    ("A server that lets not everybody in wants a token.", True),
    ("A protected server needs a token.", False),
    ("What fits is accepted.", True),
    ("What fits?", False),
    ("Of several tasks, the greatest counts.", True),
    ("Of course it does.", False),
    ("The value is no number.", True),
    ("There is no number, and the task is no longer running.", False),
    ("The time is over, and nobody looks again.", True),
    ("The time has expired, and `nobody looks again`.", False),
    ("The record is written. So is the message.", True),
    ("The record is written, so the message is too.", False),
    ("The record is written, and so is the message.", True),
    ("The file that is no longer what it was is refused.", True),
    ("The reply is larger than what fits.", True),
    ("The error says what to do.", False),
    ("There is no such task.", True),
    ("The task does not exist.", False),
    ("No one else may read it.", True),
    ("The parent is told that its child has ended.", True),
    ("The error tells the caller which limit it was.", False),
    ("Those that fit are accepted.", True),
    ("The client polls once in five seconds.", True),
    ("The task goes on after a crash.", True),
    ("A server of yours is called.", True),
    ("word " * WORDS_MAX, False),
    ("word " * (WORDS_MAX + 1), True),
]
DESCRIPTION = re.compile(r"^( *)(?:Alarm)?Description: (?:([>|]-?)\n((?:\1 +.*\n|\n)+)|(.*))", re.MULTILINE)
SQL = re.compile(r"\b(SELECT|INSERT INTO|CREATE TABLE|UPDATE|DELETE FROM|ALTER TABLE|DROP INDEX)\b")
TEST_MODULE = re.compile(r"^#\[cfg\((?:all\()?test\b.*?^\}$", re.DOTALL | re.MULTILINE)


def rules():
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, instead = re.split(r" {2,}", line, maxsplit=1)
            yield re.compile(pattern, re.IGNORECASE), instead


def blocks_of_markdown(text):
    """The paragraphs, items, headings and cells as (line, text), without code and without what links point to."""
    blank = lambda found: "\n" * found[0].count("\n")
    text = re.sub(r"^ *(```|~~~).*?^ *\1", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    block, start = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        line = line.strip()
        is_row = line.startswith("|")
        begins = is_row or re.match(r"([-*>]|\d+\.|#+) |\[[^]]+\]: ", line)
        if block and (begins or not line):
            yield start, " ".join(block)
            block = []
        if is_row:
            yield from ((number, cell.strip()) for cell in line.strip("|").split(" | ") if cell.strip(" -:"))
        elif line.startswith("#"):
            yield number, line.lstrip("# ")
        elif line and not re.match(r"\[[^]]+\]: ", line):
            start = start if block else number
            block.append(re.sub(r"^([-*>]|\d+\.) (\[.\] )?", "", line))


def blocks_of_rust(text):
    """The blocks of doc comments, and the strings that are sentences."""
    text = TEST_MODULE.sub(lambda found: "\n" * found[0].count("\n"), text)
    comment, start = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        found = re.match(r"\s*//[/!] ?(.*)", line)
        if found:
            start = start if comment else number
            comment.append(found[1])
        elif comment:
            yield from ((start - 1 + at, block) for at, block in blocks_of_markdown("\n".join(comment)))
            comment = []
    code = re.sub(r"^\s*//.*$|(?<=[;{}),]) //.*$", "", text, flags=re.MULTILINE)
    for found in RAW_OR_STRING.finditer(code):
        string = re.sub(r"\\\n\s*", "", found[2] or found[3] or "")
        if SQL.search(string):
            continue
        string = re.sub(r"\{[^}]*\}", "X", string)
        if len(re.findall(r"(?<![^\s(])[A-Za-z][a-z']*(?=[\s,.:;)]|$)", string)) >= STRING_WORDS_MIN:
            yield code.count("\n", 0, found.start()) + 1, string


def blocks_of_yaml(text):
    """The descriptions of a template, as people read them in CloudFormation."""
    for found in DESCRIPTION.finditer(text):
        string = re.sub(r"\s+", " ", found[3] or found[4]).strip("\"' ")
        yield text.count("\n", 0, found.start()) + 1, string


def sentences(block):
    block = re.sub(r"``.*?``|`[^`]*`", "X", block)
    block = re.sub(r"!?\[([^]]*)\](\([^)]*\)|\[[^]]*\])?", r"\1", block)
    block = re.sub(r"\b[\w./-]+\.(rs|md|py|sh|yaml|json|txt)\b", "X", block)
    block = re.sub(r"https?://\S+|[*_]{1,2}(?=\w)|(?<=[\w.,:])[*_]{1,2}", "", block)
    return [sentence for sentence in re.split(r"(?<=[.!?])[\"”)]* +(?=[\"“(]?(?:[A-Z0-9]|docs/))|\\n", block) if sentence.strip()]


def faults(sentence, words):
    for pattern, instead in words:
        for found in pattern.finditer(sentence):
            yield f"“{found[0].strip()}”: {instead}"
    sentence = sentence.strip()
    if STARTS.match(sentence) and not sentence.endswith("?"):
        yield f"“{sentence.split()[0]} …” begins a sentence: begin with its subject"
    count = len(re.findall(r"[\w’'/.,-]*\w", sentence))
    if count > WORDS_MAX:
        yield f"{count} words in a sentence, at most {WORDS_MAX}: “{' '.join(sentence.split()[:6])} …”"


def hits(path, words):
    text = (ROOT / path).read_text(encoding="utf-8")
    read = {".md": blocks_of_markdown, ".rs": blocks_of_rust, ".yaml": blocks_of_yaml}[pathlib.Path(path).suffix]
    for line, block in read(text):
        for sentence in sentences(block):
            for fault in faults(sentence, words):
                yield line, fault


def checked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md", "infra/*.yaml"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return sorted(path for path in listed.stdout.split()
                  if (ROOT / path).is_file() and path not in GENERATED and (path.endswith((".md", ".yaml")) or RUST.match(path)))


def read_allowed():
    lines = ALLOWED.read_text(encoding="utf-8").splitlines() if ALLOWED.exists() else []
    return {path: int(number) for number, path in (line.split(" ", 1) for line in lines if not line.startswith("#"))}


def write_allowed(allowed):
    lines = ["# Hits of scripts/check_words.py that are left in each file. Lower them with --lower."]
    lines += [f"{number} {path}" for path, number in sorted(allowed.items()) if number and (ROOT / path).exists()]
    ALLOWED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    words = list(rules())
    match sys.argv[1:]:
        case ["--list", *paths] if paths:
            for path in paths:
                for line, fault in hits(path, words):
                    print(f"{path}:{line}: {fault}")
            return
        case [] | ["--lower"] | ["--accept", *_]:
            pass
        case _:
            sys.exit("check-words: usage: scripts/check_words.py [--list PATH… | --lower | --accept [PATH…]]")
    for example, has_fault in EXAMPLES:
        if has_fault != any(fault for sentence in sentences(example) for fault in faults(sentence, words)):
            sys.exit(f"check-words: the rules are wrong about “{example}”")
    counted = collections.Counter({path: sum(1 for _ in hits(path, words)) for path in checked()})
    allowed = read_allowed()
    if sys.argv[1:2] == ["--accept"]:
        write_allowed(allowed | {path: counted[path] for path in sys.argv[2:] or counted})
        return
    if sys.argv[1:2] == ["--lower"]:
        write_allowed({path: min(number, counted[path]) for path, number in allowed.items()})
        return
    above = [path for path in sorted(counted) if counted[path] > allowed.get(path, 0)]
    for path in above:
        for line, fault in hits(path, words):
            print(f"{path}:{line}: {fault}")
        print(f"{path}: {counted[path]} hits, {allowed.get(path, 0)} are allowed")
    if above:
        sys.exit("check-words: these files have more hits than scripts/words_allowed.txt allows: say it in other words")


main()
