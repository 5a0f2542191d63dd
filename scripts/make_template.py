#!/usr/bin/env python3
"""Writes template.yaml from its parts in infra/src.

  scripts/make_template.py                       prints the template
  scripts/make_template.py --check               fails if template.yaml is another one
  scripts/make_template.py --write               writes template.yaml

A part is a title in its first line, and sections of a template. The sections of all parts follow one another in the
order of PARTS. The console of CloudFormation shows parameters by their part.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "infra/src"
TEMPLATE = ROOT / "template.yaml"

# What everybody deploys. Nobody should have to read more than this to know what a stack is.
CORE = ["stack", "tasks", "functions", "roles", "endpoint"]
CORE_LINES_MAX = 800
PARTS = [
    *CORE, "bearer", "existing-table", "key", "http-api", "rest-api", "domain", "tools", "gateway", "class",
    "schedules", "push", "alarms", "alarms-of-callers", "alarms-of-work", "dashboard",
]  # fmt: skip
PART_LINES_MAX = 400
PARAMETERS_MAX = 30

SECTIONS = ["Parameters", "Rules", "Mappings", "Conditions", "Globals", "Resources", "Outputs"]
HEAD = """\
# Written by scripts/make_template.py from infra/src: change the parts there.
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
"""


class Part:
    """A part: its title, what stands before its sections, and its sections."""

    def __init__(self, name):
        text = (SOURCES / f"{name}.yaml").read_text(encoding="utf-8")
        self.name = name
        self.lines = text.count("\n")
        title, _, rest = text.partition("\n")
        if not re.fullmatch(r"# .+[^.]", title):
            sys.exit(f"infra/src/{name}.yaml: the first line is its title, as in `# An HTTP API as the endpoint`")
        self.title = title.removeprefix("# ")
        pieces = re.split(r"^([A-Z]\w+):\n", rest, flags=re.MULTILINE)
        self.comment = pieces[0].strip("\n")
        self.sections = {section: body.strip("\n") for section, body in zip(pieces[1::2], pieces[2::2], strict=True)}
        for section in self.sections:
            if section not in ["Description", *SECTIONS]:
                sys.exit(f"infra/src/{name}.yaml: `{section}` is not one of {', '.join(SECTIONS)}")

    def names(self, section):
        return re.findall(r"^  (\w+):", self.sections.get(section, ""), re.MULTILINE)


def with_banner(part, section):
    """A section of a part, below a line that says where it comes from."""
    comment = f"{part.comment}\n" if part.comment and section == "Resources" else ""
    comment = re.sub(r"^(?=#)", "  ", comment, flags=re.MULTILINE)
    return f"  # {'-' * 16} {part.title} (infra/src/{part.name}.yaml)\n{comment}{part.sections[section]}\n"


def groups(parts):
    """The parameters by their part, as the console shows them."""
    named = [(part.title, part.names("Parameters")) for part in parts]
    rows = [
        f"      - Label: {{ default: {title!r} }}\n        Parameters: [{', '.join(names)}]\n" for title, names in named if names
    ]
    return "Metadata:\n  AWS::CloudFormation::Interface:\n    ParameterGroups:\n" + "".join(rows)


def refuse_what_is_too_long(parts):
    for part in parts:
        if part.lines > PART_LINES_MAX:
            sys.exit(f"infra/src/{part.name}.yaml has {part.lines} lines, and {PART_LINES_MAX} at most can be read in one sitting")
    core = sum(part.lines for part in parts if part.name in CORE)
    if core > CORE_LINES_MAX:
        sys.exit(f"what everybody deploys ({', '.join(CORE)}) has {core} lines: {CORE_LINES_MAX} at most")
    parameters = sum(len(part.names("Parameters")) for part in parts)
    if parameters > PARAMETERS_MAX:
        sys.exit(f"the parts have {parameters} parameters: {PARAMETERS_MAX} at most")


def template():
    """The text of the template."""
    parts = [Part(name) for name in PARTS]
    refuse_what_is_too_long(parts)
    unknown = {path.stem for path in SOURCES.glob("*.yaml")} - set(PARTS)
    if unknown:
        sys.exit(f"make-template: say in PARTS where these belong: {', '.join(sorted(unknown))}")
    texts = [f"{HEAD}Description: >-\n{parts[0].sections['Description']}\n", groups(parts)]
    for section in SECTIONS:
        bodies = [with_banner(part, section) for part in parts if section in part.sections]
        texts.append(f"{section}:\n" + "\n".join(bodies))
    return "\n".join(texts)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = arguments.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true")
    what.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    text = template()
    if given.write:
        TEMPLATE.write_text(text, encoding="utf-8")
    elif not given.check:
        print(text, end="")
    elif not TEMPLATE.exists() or TEMPLATE.read_text(encoding="utf-8") != text:
        sys.exit("template.yaml is not what its parts make: `scripts/make_template.py --write` writes it")


if __name__ == "__main__":
    main()
