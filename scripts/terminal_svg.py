#!/usr/bin/env python3
"""Records commands in a pseudo-terminal as an animated SVG: what is typed, what is shown, and when.

    scripts/terminal_svg.py FILE < SCENES

Each line of the standard input is a scene, as JSON: {"type": "longhaul …"}. "keys" are pressed "after" so many seconds, and
{LAST} stands for the last word of the form of an id that was shown before. The commands run in a shell with this environment.
"run" is what is run instead of what is typed, where that would reach other programs of this machine. "pause" is a time in
seconds that passes before the scene.
Where the reader wants no motion, the picture is the last moment.
"""

import fcntl
import html
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time

COLUMNS, ROWS = 100, 16
# Frames closer to each other than this are one.
FRAME_S = 0.12
# How long the last moment is shown before it begins again.
END_S = 4.0
# A scene that takes longer has failed.
SCENE_S_MAX = 60.0
KEY_S = 0.035
CHARACTER_PX, LINE_PX, MARGIN_PX, BAR_PX = 8.4, 20, 16, 28

CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78]")
BEGUN = re.compile(r"\x1b(?:\[[?\d;]*)?\Z")
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Screen:
    """As much of a terminal as the bars and forms of a command need."""

    def __init__(self):
        self.lines = [""]
        self.row = 0
        self.column = 0
        # The beginning of a control sequence whose end was not read yet.
        self.begun = ""

    def feed(self, text):
        text, at, self.begun = self.begun + text, 0, ""
        begun = BEGUN.search(text)
        if begun:
            text, self.begun = text[: begun.start()], begun.group()
        while at < len(text):
            control = CONTROL.match(text, at)
            if control:
                self.obey(control.group(1) or "", control.group(2) or "")
                at = control.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, character):
        if character == "\n":
            self.row += 1
            while len(self.lines) <= self.row:
                self.lines.append("")
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character >= " ":
            if self.column >= COLUMNS:
                self.put("\r")
                self.put("\n")
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def obey(self, arguments, command):
        first = arguments.split(";")[0]
        number = int(first) if first.isdigit() else 0
        line = self.lines[self.row]
        if command == "A":
            self.row = max(0, self.row - max(1, number))
        elif command == "B":
            self.row = min(len(self.lines) - 1, self.row + max(1, number))
        elif command == "C":
            self.column += max(1, number)
        elif command == "D":
            self.column = max(0, self.column - max(1, number))
        elif command == "G":
            self.column = max(0, number - 1)
        elif command == "K":
            self.lines[self.row] = "" if number == 2 else line[: self.column] if number == 0 else line
        elif command == "J" and number == 0:
            self.lines[self.row] = line[: self.column]
            del self.lines[self.row + 1 :]

    def shown(self):
        return tuple(line.rstrip() for line in self.lines[-ROWS:])


class Recording:
    """What was on the screen from which second on."""

    def __init__(self):
        self.screen = Screen()
        self.frames = []
        self.at_s = 0.0

    def keep(self):
        shown = self.screen.shown()
        if self.frames and self.frames[-1][1] == shown:
            return
        if self.frames and self.at_s - self.frames[-1][0] < FRAME_S:
            self.frames[-1] = (self.frames[-1][0], shown)
        else:
            self.frames.append((self.at_s, shown))

    def type(self, command):
        self.screen.feed("$ ")
        for character in command:
            self.screen.feed(character)
            self.at_s += KEY_S
            self.keep()
        self.at_s += 0.4
        self.screen.feed("\r\n")

    def run(self, command, keys):
        """Runs a command, and presses keys: pairs of when and what."""
        child, terminal = pty.fork()
        if child == 0:
            os.execvp("bash", ["bash", "-c", "exec " + command])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        begun, base_s, pending = time.monotonic(), self.at_s, list(keys)
        while time.monotonic() - begun < SCENE_S_MAX:
            passed_s = time.monotonic() - begun
            if pending and passed_s >= pending[0][0]:
                os.write(terminal, pending.pop(0)[1].encode())
            if not select.select([terminal], [], [], 0.02)[0]:
                continue
            try:
                read = os.read(terminal, 65536)
            except OSError:
                read = b""
            if not read:
                os.waitpid(child, 0)
                self.at_s = base_s + time.monotonic() - begun + 0.8
                return
            self.at_s = base_s + time.monotonic() - begun
            self.screen.feed(read.decode(errors="replace"))
            self.keep()
        raise SystemExit(f"it does not end: {command}")

    def last_id(self):
        found = ID.findall("\n".join(self.screen.lines))
        return found[-1] if found else ""


def spans(frames, total_s):
    """Each line of text with where it stands, and the seconds between which it is there without a change."""
    open_lines, done = {}, []
    for at_s, shown in [*frames, (total_s, ())]:
        for row in set(open_lines) | set(range(len(shown))):
            text = shown[row] if row < len(shown) else ""
            if row in open_lines and open_lines[row][0] != text:
                done.append((row, *open_lines.pop(row), at_s))
            if text and row not in open_lines and at_s < total_s:
                open_lines[row] = (text, at_s)
    return done


def svg(recording):
    total_s = recording.at_s + END_S
    width, height = COLUMNS * CHARACTER_PX + 2 * MARGIN_PX, ROWS * LINE_PX + 2 * MARGIN_PX + BAR_PX
    rules, texts = [], []
    for number, (row, text, from_s, to_s) in enumerate(spans(recording.frames, total_s)):
        start, end = 100 * from_s / total_s, 100 * to_s / total_s
        is_last = to_s >= total_s
        if start > 0 or not is_last:
            # Each rule holds until the next one.
            frames = ["0%{visibility:hidden}"] if start > 0 else []
            frames.append(f"{start:.2f}%{{visibility:visible}}")
            frames += [] if is_last else [f"{end:.2f}%{{visibility:hidden}}"]
            rules.append(f"@keyframes k{number}{{{''.join(frames)}}}#l{number}{{animation-name:k{number}}}")
        y = BAR_PX + MARGIN_PX + row * LINE_PX + 14
        css = "" if is_last else ' class="gone"'
        texts.append(f'<text id="l{number}"{css} x="{MARGIN_PX}" y="{y}">{html.escape(text, quote=False)}</text>')
    style = (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d6deeb;white-space:pre;"
        f"animation-duration:{total_s:.2f}s;animation-iteration-count:infinite;animation-timing-function:step-end}}"
        ".gone{visibility:hidden}@media(prefers-reduced-motion:reduce){text{animation:none}}" + "".join(rules)
    )
    dots = "".join(f'<circle cx="{18 + 18 * index}" cy="16" r="5" fill="#4a5568"/>' for index in range(3))
    last = html.escape("\n".join(recording.frames[-1][1]), quote=False)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        f"<title>The command in a terminal</title><desc>{last}</desc><style>{style}</style>"
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0f1720"/>{dots}{"".join(texts)}</svg>\n'
    )


def main():
    recording = Recording()
    for line in filter(str.strip, sys.stdin):
        scene = json.loads(line)
        time.sleep(scene.get("pause", 0))
        recording.at_s += scene.get("pause", 0)
        command = scene["type"].replace("{LAST}", recording.last_id())
        recording.type(command)
        recording.run(scene.get("run", command), [(key["after"], key["press"]) for key in scene.get("keys", [])])
    recording.screen.feed("$ ")
    recording.keep()
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(svg(recording))


if __name__ == "__main__":
    main()
