// What an open page does by itself: its parts are replaced as the server tells them, as long as somebody looks. All of it
// works without this file, by loading pages again.
"use strict";

const state = document.getElementById("state");
const address = document.body.dataset.live;
let events = null;
let hasEnded = false;

function say(text, kind) {
  if (state.textContent !== text) state.textContent = text;
  state.className = kind;
}

// Replaces a part, and keeps what a reader has ticked, opened and focused in it.
function replace(part, html) {
  const ticked = new Set([...part.querySelectorAll("input:checked")].map((box) => box.value));
  const opened = [...part.querySelectorAll("details")].map((one) => one.open);
  const scrolled = [...part.querySelectorAll(".scroll, .picture")].map((one) => one.scrollLeft);
  const focused = part.contains(document.activeElement) ? mark(document.activeElement) : null;
  part.innerHTML = html;
  part.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = ticked.has(box.value); });
  part.querySelectorAll("details").forEach((one, at) => { if (at in opened) one.open = opened[at]; });
  part.querySelectorAll(".scroll, .picture").forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
  const titled = part.querySelector("[data-title]");
  if (titled) document.title = titled.dataset.title;
  inZone(part);
  copyable(part);
  if (focused) [...part.querySelectorAll("a, button, input, summary, [tabindex]")].find((one) => mark(one) === focused)?.focus();
  tell();
}

// Moments in the reader's time zone. Without script they are UTC.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const two = (number) => String(number).padStart(2, "0");

function inZone(part) {
  part.querySelectorAll("[data-at]").forEach((one) => {
    const at = new Date(Number(one.dataset.at));
    const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const minute = `${two(at.getHours())}:${two(at.getMinutes())}`;
    const second = `${minute}:${two(at.getSeconds())}`;
    const whole = `${at.getFullYear()}-${day} ${second}`;
    const forms = { minute, second, day: `${day} ${minute}`, whole };
    if (Number.isNaN(at.getTime())) return;
    one.title = whole;
    if (one.dataset.as !== "title") one.textContent = forms[one.dataset.as];
  });
}

// What an element is known by after its part was replaced.
function mark(element) {
  return [element.tagName, element.getAttribute("href"), element.name, element.value, element.textContent].join("\n");
}

function follow() {
  if (!address || events || hasEnded || document.hidden) return;
  events = new EventSource(address);
  events.addEventListener("part", (event) => {
    const at = event.data.indexOf("\n");
    const part = document.getElementById(event.data.slice(0, at));
    // Somebody who marks text wants to copy it.
    if (part && !marksText(part)) replace(part, event.data.slice(at + 1));
    say("live", "on");
  });
  events.addEventListener("up", () => say("live", "on"));
  events.addEventListener("down", (event) => say(event.data + " Trying again. Shown is what was known before.", "down"));
  events.addEventListener("end", () => { hasEnded = true; leave("", ""); });
  events.onopen = () => say("live", "on");
  events.onerror = () => {
    if (events && events.readyState === EventSource.CLOSED) {
      leave("Too many pages are followed, or you have to log in: load this page again.", "down");
    } else {
      say("The console does not answer. Trying again.", "down");
    }
  };
}

function leave(text, kind) {
  if (events) events.close();
  events = null;
  say(text, kind);
}

function marksText(part) {
  const marked = window.getSelection();
  return Boolean(marked && !marked.isCollapsed && part.contains(marked.anchorNode));
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden && events) leave("paused", "");
  else follow();
});

// Ticked rows: how many, and all at once.
const all = document.querySelector("[data-tick]");
function boxes() { return all ? [...document.querySelectorAll(`input[name=id][form=${all.dataset.tick}]`)] : []; }
function tell() {
  if (!all) return;
  const rows = boxes();
  const ticked = rows.filter((box) => box.checked).length;
  all.checked = ticked > 0 && ticked === rows.length;
  document.querySelector("[data-ticked]").textContent = ticked === 1 ? "1 task selected:" : ticked + " tasks selected:";
  document.querySelectorAll("#many button").forEach((button) => { button.disabled = ticked === 0; });
}
if (all) {
  all.parentElement.hidden = false;
  all.addEventListener("change", () => { boxes().forEach((box) => { box.checked = all.checked; }); tell(); });
  document.addEventListener("change", tell);
  tell();
}

// A filter acts as soon as it is changed, and needs no button.
document.querySelectorAll(".filters").forEach((form) => {
  form.addEventListener("change", () => form.requestSubmit());
  form.querySelectorAll("[data-show]").forEach((button) => { button.hidden = true; });
});

// Ids to copy.
function copyable(part) {
  if (!navigator.clipboard) return;
  part.querySelectorAll(".copy-id").forEach((button) => { button.hidden = false; });
}
document.addEventListener("click", (event) => {
  const button = event.target.closest(".copy-id");
  if (!button) return;
  navigator.clipboard.writeText(button.dataset.text).then(() => {
    button.classList.add("copied");
    setTimeout(() => { button.classList.remove("copied"); }, 1500);
  });
});

// Lines to copy.
document.querySelectorAll("[data-copy]").forEach((line) => {
  if (!navigator.clipboard) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy";
  button.textContent = "Copy";
  const text = line.textContent;
  button.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; }));
  line.before(button);
});

inZone(document);
copyable(document);
document.getElementById("zone").textContent = `Times are those of ${zone}.`;

follow();
