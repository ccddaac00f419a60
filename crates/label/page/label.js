// The labeling page. What comes from files and people is set as text; `show` alone sets HTML, which the server made.
//
// A save is put into a queue in localStorage first and sent from there in order, once: the server knows a request's id and
// does not do it again. When the server is away, the queue waits; when the browser dies, it is sent at the next start.
"use strict";

const $ = (id) => document.getElementById(id);
const MARKS = [["correct", "plus"], ["neutral", "zero"], ["incorrect", "minus"]];
const SIGNS = { correct: "+", neutral: "0", incorrect: "−" };
const WORDS = { correct: "right", neutral: "neutral", incorrect: "wrong" };
const QUEUE = "gradus.label.unsent";
const REJECTED = "gradus.label.rejected";

let person = localStorage.getItem("gradus.label.person") || "";
let task = null;          // the item on the page, as the server gave it
let label = null;         // its marks, comments and categories now
let revision = 0;         // of the label, with all saves that are on their way
let current = 0;          // the step that keys are about
let suggestions = null;   // of the item, once asked for
let overview = null;
let away = false;         // the server did not answer
let failures = 0;         // how often in a row
let sending = false;
let afterSending = null;  // what waits until everything is sent
let visited = [];         // items that were left, for the way back
let busy = false;         // the item may change at any moment: keys wait
let typed = [];           // keys that wait

// ---------------------------------------------------------------------------------------------------------- elements

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (value !== false && value !== null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/// Text as the server rendered it, or else plain.
function show(element, shown) {
  if (typeof shown.html === "string") element.innerHTML = shown.html;
  else element.textContent = shown.text;
  return element;
}

function say(text) {
  $("live").textContent = "";
  setTimeout(() => { $("live").textContent = text; }, 30);
}

function notice(text, bad = true) {
  $("notice").hidden = !text;
  $("notice").classList.toggle("bad", bad);
  $("notice").firstElementChild.textContent = text || "";
}

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const randomId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const stored = (key) => { try { return JSON.parse(localStorage.getItem(key)) || []; } catch { return []; } };
const store = (key, list) => localStorage.setItem(key, JSON.stringify(list));

// -------------------------------------------------------------------------------------------------------- the server

class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.message || `the server answered ${status}`);
    this.status = status;
    this.code = body?.error?.code || "";
  }
}
class Away extends Error {}

async function request(path, body) {
  for (;;) {
    const headers = {};
    const key = sessionStorage.getItem("gradus-key");
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      const method = body === undefined ? "GET" : "POST";
      const sent = body === undefined ? undefined : JSON.stringify(body);
      response = await fetch(`/v1/label/${path}`, { method, headers, body: sent, cache: "no-store" });
    } catch {
      throw new Away("the server is away");
    }
    if (response.ok) return response;
    if (response.status === 401 && await askForKey(key)) continue;
    if ([502, 503, 504].includes(response.status)) throw new Away("the server is away");
    throw new Refused(response.status, await response.json().catch(() => null));
  }
}

const ask = async (path, body) => (await request(path, body)).json();

/// Whether there is another key to try.
let asking = null;
function askForKey(tried) {
  if (sessionStorage.getItem("gradus-key") !== tried) return true;
  asking ??= new Promise((answer) => {
    const dialog = $("key-dialog");
    dialog.onclose = () => {
      asking = null;
      const key = $("key").value.trim();
      $("key").value = "";
      if (key) sessionStorage.setItem("gradus-key", key);
      answer(Boolean(key));
    };
    dialog.showModal();
  });
  return asking;
}

/// Says what went wrong; true where the server is away, so that it is worth trying again.
function failed(error) {
  if (error instanceof Away) {
    away = true;
    showUnsent();
    tryLater();
    return true;
  }
  if (!(error instanceof Refused)) throw error;
  notice(error.message);
  say(error.message);
  return false;
}

function back() {
  failures = 0;
  if (!away) return;
  away = false;
  notice("");
  say("The server is back.");
  showUnsent();
}

// ------------------------------------------------------------------------------------------------------- unsent saves

function showUnsent() {
  const count = stored(QUEUE).length;
  const rejected = stored(REJECTED).length;
  const parts = [];
  if (away) {
    const kept = count === 1 ? "1 save is" : `${count} saves are`;
    parts.push(`The server is away. ${count ? `${kept} kept in this browser and sent, in order, when it is back.` : "It is tried again."}`);
  }
  if (rejected) parts.push(`${plural(rejected, "save")} of yours could not be accepted, since somebody else had the item.`);
  $("unsent").hidden = parts.length === 0;
  $("unsent").textContent = parts.join(" ");
  if (rejected) {
    const keep = make("button", { type: "button" }, "Save a copy");
    keep.onclick = () => download("rejected.json", JSON.stringify(stored(REJECTED), null, 1));
    const forget = make("button", { type: "button" }, "Forget");
    forget.onclick = () => { store(REJECTED, []); showUnsent(); };
    $("unsent").append(" ", keep, forget);
  }
}

/// Puts the label as it is now into the queue.
function save(finished = false) {
  const wrong = label.marks.indexOf("incorrect");
  const all = label.marks.every(Boolean);
  const first_error = wrong >= 0 ? wrong : all ? "none" : "unknown";
  const body = { annotator: person, item: task.item, revision, request: randomId(), label: { ...label, first_error }, finished };
  store(QUEUE, [...stored(QUEUE), body]);
  revision += 1;
  send();
}

async function send() {
  if (sending) return;
  sending = true;
  try {
    for (;;) {
      const [first] = stored(QUEUE);
      if (first) {
        if (!await sendOne(first)) return;
      } else if (afterSending) {
        const action = afterSending;
        afterSending = null;
        await action();
        if (away) return;
      } else {
        return;
      }
    }
  } finally {
    sending = false;
    showUnsent();
  }
}

/// Sends a save; false where the server is away.
async function sendOne(first) {
  try {
    const answer = await ask("save", first);
    store(QUEUE, stored(QUEUE).filter((save) => save.request !== first.request));
    back();
    showProgress(answer.progress);
  } catch (error) {
    if (failed(error)) return false;
    rejectItem(first, error);
  }
  return true;
}

/// A save that the server will never take: it and later ones of its item leave the queue, and are kept apart.
function rejectItem(first, error) {
  const queue = stored(QUEUE);
  const isLost = (save) => save.item === first.item && save.annotator === first.annotator;
  store(REJECTED, [...stored(REJECTED), ...queue.filter(isLost).map((save) => ({ ...save, reason: error.message }))]);
  store(QUEUE, queue.filter((save) => !isLost(save)));
  if (task?.item === first.item) afterSending = () => load(error.code === "stale_revision" ? { item: first.item } : {}, true);
}

/// Tries again, less and less often.
let timer = 0;
function tryLater() {
  failures += 1;
  clearTimeout(timer);
  timer = setTimeout(() => (stored(QUEUE).length || afterSending || busy ? send() : beat()), Math.min(1000 * 2 ** (failures - 1), 10000));
}

/// Does something that may change the item, when everything is sent.
function whenSent(action) {
  busy = true;
  afterSending = action;
  return send();
}

// ------------------------------------------------------------------------------------------------------------- items

async function load(wish = {}, keepNotice = false) {
  try {
    const answer = await ask("next", { annotator: person, ...wish });
    overview ??= await ask("overview");
    back();
    showNext(answer, keepNotice);
    // Keys that were meant for the item before are not for this one.
    typed = [];
    refreshOverview();
  } catch (error) {
    if (failed(error)) {
      afterSending = () => load(wish, keepNotice);
    } else if (wish.item !== undefined) {
      await load({}, true);
    } else {
      busy = $("work").inert = false;
    }
  }
}

function showNext(answer, keepNotice = false) {
  if (!keepNotice) notice("");
  showProgress(answer.progress);
  busy = $("work").inert = false;
  task = answer.task;
  suggestions = null;
  $("work").hidden = $("tools").hidden = !task;
  $("nothing").hidden = Boolean(task);
  $("suggest").setAttribute("aria-pressed", "false");
  $("reference").hidden = true;
  if (!task) {
    label = null;
    $("nothing").textContent = answer.nothing || "There is nothing to label.";
    say($("nothing").textContent);
    return;
  }
  const steps = task.steps.length;
  label = {
    marks: task.label.marks.slice(),
    comments: task.label.comments?.length ? task.label.comments.slice() : Array(steps).fill(""),
    categories: task.label.categories?.length ? task.label.categories.map((list) => list.slice()) : Array.from({ length: steps }, () => []),
  };
  revision = task.revision;
  show($("problem"), task.problem);
  $("problem-heading").textContent = `Problem · ${task.problem_id}`;
  $("steps").replaceChildren(...task.steps.map(stepElement));
  const open = label.marks.indexOf(null);
  select(open < 0 ? 0 : open, true);
  paint();
  say(`Item ${task.item + 1}, ${plural(steps, "step")}.${task.finished ? " You have finished it before." : ""}`);
}

function stepElement(shown, step) {
  const text = show(make("div", { class: "text", id: `step-${step}` }), shown);
  const radio = ([mark, kind]) => {
    const input = make("input", { type: "radio", name: `mark-${step}`, value: mark, "aria-label": WORDS[mark] });
    input.onchange = () => {
      if (busy) return paint();
      select(step, false, false);
      setMark(step, mark);
    };
    return make("label", { class: kind, title: WORDS[mark] }, input, make("span", { "aria-hidden": "true" }, SIGNS[mark]));
  };
  const choice = make("fieldset", {}, make("legend", { class: "hidden" }, `Step ${step + 1}`), make("div", { class: "choice" }, ...MARKS.map(radio)));
  const badge = make("span", { class: "badge", hidden: true }, "first error");
  const chosen = make("span", { class: "explanation", hidden: true });
  const suggested = make("div", { class: "suggestions", hidden: true });
  const comment = make("textarea", { "aria-label": `Comment on step ${step + 1}`, placeholder: "Comment", maxlength: 10000, hidden: !label.comments[step] });
  comment.value = label.comments[step];
  let pause = 0;
  const keep = () => {
    clearTimeout(pause);
    if (!comment.isConnected || label.comments[step] === comment.value) return;
    label.comments[step] = comment.value;
    save();
  };
  comment.oninput = () => { clearTimeout(pause); pause = setTimeout(keep, 800); };
  comment.onchange = keep;
  const boxes = (overview?.categories || []).map((name) => {
    const box = make("input", { type: "checkbox", value: name });
    box.checked = label.categories[step].includes(name);
    box.onchange = () => {
      label.categories[step] = boxes.filter((each) => each.checked).map((each) => each.value);
      save();
      paint();
    };
    return box;
  });
  const categories = make("fieldset", { class: "categories", hidden: true }, make("legend", {}, `Error categories of step ${step + 1}`), ...boxes.map((box) => make("label", {}, box, box.value)));
  const item = make("li", { tabindex: "-1", "aria-labelledby": `number-${step} step-${step}` },
    make("span", { class: "number", id: `number-${step}` }, String(step + 1)), text, choice,
    make("div", { class: "extra" }, badge, chosen, suggested, categories, comment));
  item.onclick = (event) => { if (!event.target.closest("input, textarea, label, button")) select(step); };
  item.addEventListener("focusin", () => { if (current !== step) select(step, false, false); });
  return item;
}

/// Shows marks, badges and suggestions as they are now.
function paint() {
  const wrong = label.marks.indexOf("incorrect");
  label.marks.forEach((mark, step) => {
    const item = $("steps").children[step];
    item.classList.remove("correct", "neutral", "incorrect");
    if (mark) item.classList.add(mark);
    item.classList.toggle("after", wrong >= 0 && step > wrong);
    for (const input of item.querySelectorAll("input[type=radio]")) input.checked = input.value === mark;
    item.querySelector(".badge").hidden = step !== wrong;
    const chosen = item.querySelector(".explanation");
    const open = !item.querySelector(".categories").hidden;
    chosen.hidden = open || label.categories[step].length === 0;
    chosen.textContent = label.categories[step].join(", ");
    paintSuggestions(item.querySelector(".suggestions"), step);
  });
}

function paintSuggestions(place, step) {
  place.hidden = !suggestions;
  if (!suggestions) return place.replaceChildren();
  const list = make("ul", { class: "suggested" });
  for (const [model, scores] of Object.entries(suggestions.scores)) {
    const low = scores[step] < suggestions.threshold;
    list.append(make("li", {}, make("span", { class: low ? "low" : "high" }, `${model} ${scores[step].toFixed(2)}`)));
  }
  const texts = [];
  for (const by of suggestions.labels) {
    if (by.marks[step]) {
      const tone = { correct: "high", neutral: "flat", incorrect: "low" }[by.marks[step]];
      list.append(make("li", {}, make("span", { class: tone }, `${by.annotator}: ${SIGNS[by.marks[step]]}`)));
    }
    if (by.explanations[step]) texts.push(make("p", { class: "explanation" }, `${by.annotator}: ${by.explanations[step]}`));
  }
  if (!list.children.length) list.append(make("li", {}, make("span", {}, "no suggestion")));
  place.replaceChildren(list, ...texts);
}

function select(step, scroll = true, focus = true) {
  current = Math.max(0, Math.min(step, task.steps.length - 1));
  for (const [index, item] of [...$("steps").children].entries()) {
    if (index === current) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  }
  const item = $("steps").children[current];
  if (focus) item.focus({ preventScroll: true });
  if (scroll) item.scrollIntoView({ block: "nearest" });
}

function setMark(step, mark) {
  label.marks[step] = mark;
  save();
  paint();
}

// ----------------------------------------------------------------------------------------------------------- commands

const COMMANDS = {
  "+": () => mark("correct"),
  "0": () => mark("neutral"),
  "-": () => mark("incorrect"),
  x: () => { if (label.marks[current]) { setMark(current, null); say(`Step ${current + 1}: no mark.`); } },
  e: firstError,
  j: () => move(1),
  k: () => move(-1),
  c: () => open("textarea"),
  g: () => open(".categories"),
  u: undo,
  s: toggleSuggestions,
  n: leave,
  b: goBack,
  Enter: finish,
  "?": () => $("help").showModal(),
};

function mark(value) {
  const step = current;
  setMark(step, value);
  if (step + 1 < task.steps.length) select(step + 1);
  say(`Step ${step + 1} ${WORDS[value]}.${step + 1 < task.steps.length ? ` Step ${step + 2}.` : " That was the last step."}`);
}

function firstError() {
  const earlier = label.marks.indexOf("incorrect");
  if (earlier >= 0 && earlier < current) {
    const text = `Step ${earlier + 1} is marked wrong already: change it first.`;
    notice(text, false);
    return say(text);
  }
  for (let step = 0; step < current; step += 1) label.marks[step] ??= "correct";
  setMark(current, "incorrect");
  say(`First error: step ${current + 1}. Enter finishes.`);
}

function move(by) {
  select(current + by);
  const mark = label.marks[current];
  say(`Step ${current + 1} of ${task.steps.length}${mark ? `, ${WORDS[mark]}` : ""}.`);
}

function open(what) {
  const field = $("steps").children[current].querySelector(what);
  field.hidden = false;
  paint();
  (field.matches("textarea") ? field : field.querySelector("input"))?.focus();
}

function close(field) {
  const box = field.closest(".categories") || field;
  if (box.matches("textarea")) box.onchange();
  if (!box.matches("textarea") || !box.value) box.hidden = true;
  paint();
  select(current);
}

function undo() {
  return whenSent(async () => {
    try {
      const answer = await ask("undo", { annotator: person });
      const [before, item, step] = [label?.marks.slice(), task?.item, current];
      showNext(answer);
      // The step whose mark changed, where it is the same item.
      const changed = item === task.item ? task.label.marks.findIndex((mark, index) => mark !== before?.[index]) : -1;
      if (item === task.item) select(changed >= 0 ? changed : step);
      say(`Undone. Step ${current + 1}.`);
    } catch (error) {
      if (failed(error)) say("The server is away: undo again when it is back.");
    }
    busy = false;
    while (typed.length && !busy) COMMANDS[typed.shift()]();
  });
}

async function toggleSuggestions() {
  if (suggestions) {
    suggestions = null;
    say("Suggestions hidden.");
  } else {
    try {
      suggestions = await ask("suggestions", { annotator: person, item: task.item });
      say("Suggestions shown.");
    } catch (error) {
      failed(error);
      return;
    }
  }
  $("suggest").setAttribute("aria-pressed", String(Boolean(suggestions)));
  const reference = $("reference");
  reference.hidden = !suggestions || (!suggestions.answer && !suggestions.reference?.length);
  reference.replaceChildren();
  if (suggestions?.answer) reference.append(make("h3", {}, "Right answer"), make("div", { class: "text" }, suggestions.answer));
  if (suggestions?.reference?.length) {
    const steps = suggestions.reference.map((step) => show(make("li", { class: "text" }), step));
    reference.append(make("h3", {}, "Reference solution"), make("ol", {}, ...steps));
  }
  paint();
}

function finish() {
  const wrong = label.marks.indexOf("incorrect");
  const needed = wrong >= 0 ? wrong + 1 : label.marks.length;
  const missing = label.marks.slice(0, needed).indexOf(null);
  if (missing >= 0) {
    select(missing);
    const text = `Step ${missing + 1} has no mark: every step up to the first error needs one.`;
    notice(text, false);
    return say(text);
  }
  save(true);
  leave();
}

/// On to the next item, when the server has all of this one.
function leave() {
  const item = task.item;
  visited.push(item);
  $("work").inert = true;
  whenSent(() => load({ after: item }));
}

/// The item that was left last, as it was left.
function goBack() {
  const item = visited.pop();
  if (item === undefined) return say("There is no earlier solution.");
  $("work").inert = true;
  whenSent(() => load({ item }));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const at = event.target;
  if (event.key === "Escape" && at.closest("textarea, .categories")) return close(at);
  if (at.closest("textarea, select, input:not([type=radio]):not([type=checkbox])")) return;
  if (!task) return;
  const key = { ArrowDown: "j", ArrowUp: "k", "=": "+", "−": "-", Delete: "x", Backspace: "x" }[event.key] || event.key;
  if (!COMMANDS[key]) return;
  if (key === "Enter" && at.closest("button, a, summary, input[type=checkbox]")) return;
  event.preventDefault();
  command(key);
});
$("tools").addEventListener("click", (event) => {
  const key = event.target.closest("button")?.dataset.key;
  if (key && task) command(key);
});

function command(key) {
  if (!busy || key === "?") COMMANDS[key]();
  else if (typed.length < 20) typed.push(key);
}

// ----------------------------------------------------------------------------------------------------------- overview

function showProgress(progress) {
  if (!progress) return;
  $("progress").textContent = `${progress.done} of ${progress.items} done · ${progress.mine} by you`;
  $("bar").max = progress.items || 1;
  $("bar").value = progress.done;
}

async function refreshOverview() {
  try {
    overview = await ask("overview");
  } catch (error) {
    failed(error);
    return;
  }
  $("project").textContent = overview.name;
  document.title = `${overview.name} · Label · Gradus`;
  if ($("team").open) showNumbers();
}

const share = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));

function table(caption, head, rows) {
  const row = (cells, name) => make("tr", {}, ...cells.map((cell, at) => make(at === 0 || name === "th" ? "th" : "td", at === 0 && name === "td" ? { scope: "row" } : name === "th" ? { scope: "col" } : {}, String(cell))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, make("caption", {}, caption), make("thead", {}, row(head, "th")), make("tbody", {}, ...rows.map((cells) => row(cells, "td")))));
}

function showNumbers() {
  const parts = [];
  const order = { file: "in the order of the file", disagreement: "where annotators disagree most first", uncertainty: "where reward models are least certain first" };
  parts.push(make("p", {}, `${plural(overview.people_per_item, "person").replace("persons", "people")} per item, ${order[overview.order]}.`));
  if (overview.damaged_lines) parts.push(make("p", { class: "notice bad" }, `${plural(overview.damaged_lines, "line")} of the journal could not be read: those saves are lost.`));
  if (overview.people.length) {
    parts.push(table("People", ["name", "finished", "begun", "marks", "with an error", "after suggestions"],
      overview.people.map((each) => [each.name, each.finished, each.begun, each.marks, each.errors, each.suggestions_seen])));
  }
  if (overview.pairs.length) {
    parts.push(table("Agreement", ["people", "items", "steps", "Cohen's κ", "same first error"],
      overview.pairs.map((pair) => [pair.people.join(" – "), pair.items, pair.steps, share(pair.kappa), share(pair.same_first_error)])));
  }
  if (overview.estimate) {
    const found = overview.estimate;
    parts.push(table("Reliability (Dawid–Skene)", ["name", "finds errors", "false alarms"],
      found.people.map((each) => [each.name, share(each.sensitivity), share(each.false_alarm)])));
    parts.push(make("p", {}, `Estimated: ${plural(found.with_error, "solution")} with an error, ${found.without_error} without; mean certainty ${share(found.mean_probability)}.`));
  }
  $("numbers").replaceChildren(...parts);
}

function download(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

$("team").addEventListener("toggle", async () => { if ($("team").open) await refreshOverview(); });
$("export").addEventListener("click", async () => {
  const [format, combine] = [$("format").value, $("combine").value];
  try {
    const response = await request(`export?format=${format}&combine=${combine}`);
    download(`${format}.jsonl`, await response.text());
    say("Downloaded.");
  } catch (error) {
    failed(error);
  }
});

// --------------------------------------------------------------------------------------------------------------- start

/// Tells the server that the person is still here, and asks whether there is something to do where there was nothing.
async function beat() {
  if (!person || busy || stored(QUEUE).length) return;
  if (!task) return load({}, true);
  const item = task.item;
  try {
    await ask("heartbeat", { annotator: person, item });
    back();
  } catch (error) {
    if (!failed(error) && task?.item === item) await load({}, true);
  }
}

function askForName() {
  $("name").value = person;
  $("name-dialog").showModal();
  $("name").select();
}

async function begin() {
  $("person").textContent = person || "Who labels?";
  $("person").setAttribute("aria-label", person ? `Labeling as ${person}: change` : "Who labels?");
  showUnsent();
  if (!person) return askForName();
  await whenSent(() => load());
}

$("name-dialog").addEventListener("cancel", (event) => { if (!person) event.preventDefault(); });
$("name-save").addEventListener("click", async () => {
  const name = $("name").value.trim();
  if (!name) return $("name").focus();
  $("name-dialog").close();
  if (name === person) return;
  const [before, item] = [person, task?.item];
  person = name;
  localStorage.setItem("gradus.label.person", person);
  visited = [];
  if (before && item !== undefined) await ask("release", { annotator: before, item }).catch(() => {});
  begin();
});
$("name").addEventListener("keydown", (event) => { if (event.key === "Enter") $("name-save").click(); });
$("help-close").addEventListener("click", () => $("help").close());
$("person").addEventListener("click", askForName);
$("dismiss").addEventListener("click", () => notice(""));
$("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("gradus.theme", document.documentElement.dataset.theme);
});
const theme = localStorage.getItem("gradus.theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
addEventListener("online", () => { if (away) send(); });
setInterval(() => beat(), 45000);
begin();
