#!/usr/bin/env python3
"""The documentation site, and the links of all pages.

  scripts/docs.py check          fails if a link of a page leads nowhere, if docs/SUMMARY.md misses a page, if JSON or
                                 Python that a page shows cannot be parsed, or if a page with a figure of AWS does not
                                 say that nothing was measured there, as long as `make prove-aws` has written no report
  scripts/docs.py build FOLDER   builds the site with mdBook into FOLDER, with llms.txt and llms-full.txt, and checks it
"""

import ast
import collections
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SUMMARY = DOCS / "SUMMARY.md"
REPOSITORY = "https://github.com/longhaul-mcp/longhaul"
# Pages outside docs that are part of the site.
OUTSIDE = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"]
SUFFIXES = {".md", ".svg", ".png", ".json", ".txt"}
# llms-full.txt ends before this part of the summary.
FOR_CONTRIBUTORS = "Contribute"
ENTRY = re.compile(r"^( *)(- )?\[([^]]+)\]\(([^)]+)\)$")
LINK = re.compile(r"(\]\(|^\[[^]]+\]: )([^)\s]+)", re.MULTILINE)
FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
# What `make prove-aws` writes. Until it is there, the status and each page with a figure of AWS say so.
AWS_REPORT = DOCS / "aws-report.md"
AWS_FIGURE = re.compile(
    r"\d\s+(?:US )?(?:dollars|cents)\b|\bfor a million\b|AWS emulator behind them|^\*\*Status:", re.MULTILINE
)
UNMEASURED = re.compile(r"\bnothing\b[^.]*\bmeasured\s+on\s+AWS\s+itself", re.IGNORECASE)
SNIPPET = re.compile(r"^( *)```(json|python)\n(.*?)^\1``` *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(FENCED.pattern + r"|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def tracked(pattern):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return [ROOT / path for path in listed.stdout.split("\n") if path and (ROOT / path).is_file()]


def without_code(text):
    return CODE.sub(lambda code: "\n" * code[0].count("\n"), text)


def anchors(text):
    """The anchors that GitHub and mdBook give to the headings of a page."""
    seen, found = collections.Counter(), set()
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", FENCED.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower().replace(" ", "-")
        anchor = "".join(character for character in plain if character.isalnum() or character in "-_")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def is_elsewhere(target):
    return re.match(r"[a-z][a-z0-9+.-]*:", target) is not None


def fault_of(page, target):
    """Why a link of this page leads nowhere, or None."""
    path, _, anchor = target.partition("#")
    file = (page.parent / urllib.parse.unquote(path)).resolve() if path else page
    if not file.exists():
        return "the file does not exist"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
        return "the heading does not exist"
    return None


def snippet_fault(language, code):
    """Why code that a page shows cannot be pasted, or None. A part of an object in JSON is shown without its braces."""
    try:
        if language == "python":
            ast.parse(code)
        else:
            json.loads(code if code.lstrip().startswith(("{", "[")) else "{" + code + "}")
    except (SyntaxError, ValueError) as error:
        return str(error)
    return None


def entries():
    """The lines of the summary: the part, the title, the depth, and the page."""
    part = ""
    for line in SUMMARY.read_text(encoding="utf-8").splitlines():
        entry = ENTRY.match(line)
        if line.startswith("# ") and line != "# Summary":
            part = line[2:]
        elif entry:
            yield part, entry[3], len(entry[1]), (DOCS / entry[4]).resolve()


def fault_of_figures(page, text):
    """What a page says wrongly about what was measured on AWS itself, or None."""
    if page == AWS_REPORT:
        is_whole = "Region " in text and text.count(": REPORT ") >= 150 and "Init Duration" in text
        return None if is_whole else "it is no report of a whole run of `make prove-aws` on AWS"
    if page.parent not in (ROOT, DOCS) or page.name == "CHANGELOG.md":
        return None
    if AWS_REPORT.exists() and UNMEASURED.search(text):
        return f"it says that nothing was measured on AWS itself: name what {AWS_REPORT.name} says instead"
    if not AWS_REPORT.exists() and AWS_FIGURE.search(text) and not UNMEASURED.search(text):
        return "it has a figure of AWS: say that nothing was measured on AWS itself"
    return None


def check():
    faults = []
    for page in tracked("*.md"):
        text = page.read_text(encoding="utf-8")
        if fault := fault_of_figures(page, text):
            faults.append(f"{page.relative_to(ROOT)}: {fault}")
        for snippet in SNIPPET.finditer(text):
            fault = snippet_fault(snippet[2], textwrap.dedent(snippet[3]))
            if fault:
                faults.append(f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, snippet.start()) + 1}: {fault}")
        for link in LINK.finditer(without_code(text)):
            fault = None if is_elsewhere(link[2]) else fault_of(page, link[2])
            if fault:
                faults.append(f"{page.relative_to(ROOT)}: ({link[2]}): {fault}")
    listed = {page for _, _, _, page in entries()}
    for page in sorted(DOCS.rglob("*.md")):
        is_record = page.parent.name == "adr"
        if page not in listed and page != SUMMARY and not is_record:
            faults.append(f"{page.relative_to(ROOT)}: it is not in docs/SUMMARY.md: add it where readers look for it")
    for number, record in enumerate(sorted((DOCS / "adr").glob("[0-9]*.md")), 1):
        if not record.name.startswith(f"{number:04}-") or not title_of(record).startswith(f"{number}. "):
            faults.append(f"{record.relative_to(ROOT)}: its name and its title begin with {number}, the next free number")
            break
    if faults:
        sys.exit("\n".join(faults) + f"\ndocs: {len(faults)} faults")


def staged_path(file):
    """Where a file is in the site's sources, or None if it is not part of them."""
    if file.is_relative_to(DOCS) and file.suffix in SUFFIXES:
        return file.relative_to(DOCS)
    return pathlib.Path(file.name) if file.parent == ROOT and file.name in OUTSIDE else None


def relinked(text, page):
    """The text of a page with its links as they are in the site: files that are not part of it are in the repository."""
    here = staged_path(page)
    keep = [(code.start(), code.end()) for code in CODE.finditer(text)]

    def replace(link):
        target = link[2]
        in_code = any(start <= link.start() < end for start, end in keep)
        if in_code or is_elsewhere(target) or target.startswith("#"):
            return link[0]
        path, hash_sign, anchor = target.partition("#")
        file = (page.parent / urllib.parse.unquote(path)).resolve()
        there = staged_path(file)
        if there is None or file == SUMMARY:
            kind = "tree" if file.is_dir() else "blob"
            return f"{link[1]}{REPOSITORY}/{kind}/main/{file.relative_to(ROOT).as_posix()}{hash_sign}{anchor}"
        return f"{link[1]}{pathlib.PurePath(os.path.relpath(there, here.parent)).as_posix()}{hash_sign}{anchor}"

    return LINK.sub(replace, text)


def title_of(page):
    return page.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")


def stage(source):
    """Copies the pages and what they show, and adds the records of decisions to the summary."""
    shutil.rmtree(source, ignore_errors=True)
    for file in [*tracked("docs"), *(ROOT / name for name in OUTSIDE)]:
        there = staged_path(file)
        if there is None:
            continue
        to = source / there
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            to.write_text(relinked(file.read_text(encoding="utf-8"), file), encoding="utf-8")
        else:
            shutil.copyfile(file, to)
    records = [record for record in sorted((DOCS / "adr").glob("[0-9]*.md"))]
    lines = "".join(f"  - [{title_of(record)}](adr/{record.name})\n" for record in records)
    summary = (source / "SUMMARY.md").read_text(encoding="utf-8")
    (source / "SUMMARY.md").write_text(re.sub(r"(- \[.*\]\(adr/README\.md\)\n)", rf"\1{lines}", summary), encoding="utf-8")


def first_sentence(text):
    """The first sentence of a page's first paragraph, without marks."""
    plain = re.sub(r"<!--.*?-->", "", FENCED.sub("", text), flags=re.DOTALL)
    for block in plain.split("\n\n"):
        block = " ".join(block.split())
        if block and block[0] not in "#|!<>[-*":
            block = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", block).replace("**", "")
            return re.split(r"(?<=\.) ", block, maxsplit=1)[0].rstrip(":")
    return ""


def visible(text):
    """The text without the lines that rustdoc and mdBook hide in blocks of Rust."""
    def shown(block):
        return "\n".join(line for line in block[0].split("\n") if not re.match(r"#( |$)", line))

    return re.sub(r"^```rust.*?^```", shown, text, flags=re.DOTALL | re.MULTILINE)


def write_llms(source, site):
    """llms.txt, an index for language models, and llms-full.txt with all pages for users. https://llmstxt.org"""
    index, full, last = ["# Longhaul", "", f"> {first_sentence((ROOT / 'README.md').read_text(encoding='utf-8'))}"], [], ""
    for part, title, _, page in entries():
        there = staged_path(page)
        text = visible((source / there).read_text(encoding="utf-8"))
        (site / there).parent.mkdir(parents=True, exist_ok=True)
        (site / there).write_text(text, encoding="utf-8")
        if part and part != last:
            index += ["", f"## {part}", ""]
            last = part
        if part:
            index.append(f"- [{title}]({there.as_posix()}): {first_sentence(text)}")
        if part != FOR_CONTRIBUTORS:
            full.append(f"<!-- {there.as_posix()} -->\n\n{text}")
    (site / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(full), encoding="utf-8")


class Page(html.parser.HTMLParser):
    """The ids of a page of the site, and where its links lead."""

    def __init__(self, file):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.ids |= {named[name] for name in ("id", "name") if named.get(name)}
        self.links += [named[name] for name in ("href", "src") if named.get(name)]


def check_site(site):
    pages = {file: Page(file) for file in site.rglob("*.html")}
    faults = set()
    for file, page in pages.items():
        # The page for addresses that do not exist has links from the top of the site.
        for link in (link for link in page.links if file.name != "404.html" and not is_elsewhere(link)):
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            to = (file.parent / path.split("?")[0]).resolve() if path else file
            if not to.exists() or (anchor and to in pages and anchor not in pages[to].ids):
                faults.add(f"{file.relative_to(site)}: {link}")
    if faults:
        sys.exit("\n".join(sorted(faults)) + f"\ndocs: {len(faults)} links of the site lead nowhere")


def build(folder):
    site = pathlib.Path(folder).resolve()
    work = site.parent / (site.name + "-source")
    stage(work / "src")
    shutil.copyfile(DOCS / "book.toml", work / "book.toml")
    subprocess.run([str(ROOT / ".cache/tools/bin/mdbook"), "build", str(work), "--dest-dir", str(site)], check=True)
    write_llms(work / "src", site)
    check_site(site)
    print(f"{site / 'index.html'}: {sum(1 for _ in site.rglob('*.html'))} pages")


def main():
    match sys.argv[1:]:
        case ["check"]:
            check()
        case ["build", folder]:
            check()
            build(folder)
        case _:
            sys.exit(__doc__)


main()
