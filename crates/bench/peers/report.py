"""What was measured: tables in Markdown whose rows are systems, and pictures of some columns."""

import collections
import html
import os
import pathlib
import statistics

from systems import python_versions

# The tables and columns that are drawn, with the name of the file and the heading.
DRAWN = [
    ("Calls per second", 1, "calls-1-step.svg", "Tool calls per second, one step each, 16 at a time (longer is better)"),
    ("Calls per second", 2, "calls-10-steps.svg", "Tool calls per second, ten steps each, 16 at a time (longer is better)"),
    ("A kill in flight", 0, "kill.svg", "Seconds from a kill to the last result (shorter is better)"),
    ("On AWS: capacity with long results of the same caller", 8, "aws-results.svg",
     "Read units of a call next to 100 results of 100 KB (shorter is better)"),
    ("On AWS: capacity of a call", 0, "aws-writes.svg", "Write units of a call without steps (shorter is better)"),
    ("On AWS: a kill in flight", 3, "aws-kill.svg", "Results of 20 that a kill loses (shorter is better)"),
]
NO_FIGURE = "–"
# Pixels: the picture, the names at its left, room for a bar's figure, a bar with the gap below it, the heading.
WIDTH, NAMES, FIGURE, BAR, GAP, HEAD = 760, 260, 70, 26, 8, 36
# To be told apart in light and in dark surroundings.
OWN, OTHERS = "#0b7894", "#9696a0"


class Table:
    """One table of the report."""

    def __init__(self, systems, title, about, columns):
        self.systems, self.title, self.about, self.columns = systems, title, about, columns
        self.cells, self.reasons = collections.defaultdict(list), {}

    def add(self, system, column, value):
        """What one round gave for a system."""
        self.cells[system.name, column].append(value)

    def explain(self, system, why):
        """Why a system has no figures here, or only some."""
        self.reasons[system.name] = why

    def median(self, system, column):
        rounds = self.cells.get((system.name, column))
        return statistics.median(rounds) if rounds else None

    def markdown(self, noted=frozenset()):
        """The table. A system without any figure has no row. Reasons that are noted elsewhere are left out."""
        lines = [f"## {self.title}", "", self.about, "", f"| | {' | '.join(self.columns)} |",
                 "|" + " --- |" * (len(self.columns) + 1)]
        for system in self.systems:
            cells = [self.cell(system, column) for column in range(len(self.columns))]
            if any(cell != NO_FIGURE for cell in cells):
                lines.append(f"| {system.title} | {' | '.join(cells)} |")
        for why, explained in self.explained(lambda system: (system.name, self.reasons[system.name]) not in noted):
            lines += ["", f"{'; '.join(explained)}: {why}"]
        return "\n".join(lines) + "\n"

    def explained(self, takes):
        """Each reason, with the systems that have it here."""
        titles = {}
        for system in self.systems:
            if system.name in self.reasons and takes(system):
                titles.setdefault(self.reasons[system.name], []).append(system.title)
        return titles.items()

    def cell(self, system, column):
        median = self.median(system, column)
        if median is None:
            return NO_FIGURE
        shown = number(median)
        if median > 0 and self.best(column) == system:
            shown = f"**{shown}**"
        rounds = self.cells[system.name, column]
        least, most = number(min(rounds)), number(max(rounds))
        return shown if least == most else f"{shown} ({least} to {most})"

    def best(self, column):
        """The durable system with the best figure of a column: the highest of what is done per second, else the
        lowest."""
        measured = [system for system in self.systems if system.is_durable and self.median(system, column) is not None]
        choose = max if self.columns[column].endswith("/s") else min
        return choose(measured, key=lambda system: self.median(system, column), default=None)


def number(value):
    """Three significant digits, or all digits before the point."""
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def picture(title, bars):
    """Horizontal bars, one for each system."""
    longest = max((value for _, value in bars), default=0) or 1
    height = HEAD + BAR * len(bars)
    text = '<text x="{}" y="{}" text-anchor="{}" font-size="{}" dominant-baseline="central">{}</text>'
    parts = [f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             text.format(8, HEAD // 2, "start", 16, html.escape(title))]
    for row, (system, value) in enumerate(bars):
        top, end = HEAD + row * BAR, NAMES + round((WIDTH - NAMES - FIGURE) * value / longest)
        middle = top + (BAR - GAP) // 2
        parts += [f'<rect x="{NAMES}" y="{top}" width="{end - NAMES}" height="{BAR - GAP}"'
                  f' fill="{OWN if system.is_longhaul else OTHERS}"/>',
                  text.format(NAMES - 8, middle, "end", 13, html.escape(system.title)),
                  text.format(end + 6, middle, "start", 13, number(value))]
    inner = "\n".join(parts)
    return (f'<svg width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
            f' xmlns="http://www.w3.org/2000/svg">\n{inner}\n</svg>\n')


def write(options, ground, tables):
    """Writes `peers.md` and its pictures."""
    options.out.mkdir(parents=True, exist_ok=True)
    text = head(options, ground)
    repeated = repeated_reasons(tables)
    if repeated:
        noted = {}
        for system in options.systems:
            for name, why in repeated:
                if name == system.name:
                    noted.setdefault(why, []).append(system.title)
        text += "Notes about systems, which apply to all tables:\n\n| systems | note |\n| --- | --- |\n"
        text += "".join(f"| {'; '.join(titles)} | {why} |\n" for why, titles in noted.items()) + "\n"
    for table in tables:
        text += table.markdown(repeated)
        for of, column, file, title in DRAWN:
            medians = [(system, table.median(system, column)) for system in table.systems]
            bars = [bar for bar in medians if bar[1] is not None]
            if of == table.title and bars:
                (options.out / file).write_text(picture(title, bars), encoding="utf-8")
                text += f"\n![{title}]({file})\n"
        text += "\n"
    path = options.out / "peers.md"
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(path)


def repeated_reasons(tables):
    """The reasons of systems that more than one table has: they are said once, at the beginning."""
    counted = collections.Counter(each for table in tables for each in table.reasons.items())
    return {each for each, times in counted.items() if times > 1}


def head(options, ground):
    arguments = f' PEERS_ARGS="{options.asked}"' if options.asked else ""
    emulator = f" AWS is an emulator here: {python_versions('../aws/bin/python', 'ministack')(ground)}."
    lines = [
        "# Comparison with other systems", "",
        f"Written by `make bench-peers{arguments}`. Systems, services and the client (one thread) share the machine."
        f" Medians of {options.rounds} round{'' if options.rounds == 1 else 's'} (lowest to highest),"
        f" {number(options.seconds)} s each; each round begins with another system. Each result is checked: a wrong one"
        " ends the measurement of its system. The best figure of a column among the systems whose records outlive the"
        " process is bold.", "", machine(), "",
        "A call is of a tool whose steps do nothing. It lasts until the client has the result: the sum of the steps'"
        f" numbers.{emulator if ground.aws else ''}", "",
        "| system | version | durable by |", "| --- | --- | --- |"]
    for system in options.systems:
        lines.append(f"| {system.title} | {system.version(ground)} | {system.durable_by} |")
    return "\n".join(lines) + "\n\n"


def machine():
    """The processors, memory and kernel of this machine."""
    def line(path, start):
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(start)), "")

    gib = -(-int(line("/proc/meminfo", "MemTotal").split()[0]) // 1_048_576)
    kernel = ".".join(os.uname().release.split(".")[:2])
    processor = line("/proc/cpuinfo", "model name")
    return f"Machine: {os.cpu_count()} cores ({processor}), {gib} GiB of memory, Linux {kernel}."
