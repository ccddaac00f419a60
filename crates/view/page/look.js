// Paste or open, choose models, score: fragments come from the server, which escapes all that is in them.
"use strict";
(() => {
  const find = (selector) => document.querySelector(selector);
  const [status, alert, result, models] = ["#status", "#alert", "#result", "#models"].map(find);
  const KEY = "gradus-key";
  let file = null;
  let running = null;

  const say = (text) => { status.textContent = text; };
  const complain = (text) => {
    say("");
    alert.textContent = text;
    alert.hidden = !text;
  };

  const askForKey = () => new Promise((resolve) => {
    const dialog = find("#key");
    const input = dialog.querySelector("input");
    input.value = "";
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "send" ? input.value.trim() : "");
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });

  // A request with the key of this tab; asks for one when the server wants it.
  const request = async (path, options = {}) => {
    for (let again = true; ; again = false) {
      const key = sessionStorage.getItem(KEY);
      const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
      const response = await fetch(path, { ...options, headers });
      if (response.status !== 401 || !again) return response;
      // Another request may have asked for it meanwhile.
      if (sessionStorage.getItem(KEY) !== key) continue;
      sessionStorage.removeItem(KEY);
      const given = await askForKey();
      if (!given) return response;
      sessionStorage.setItem(KEY, given);
    }
  };

  const problemOf = async (response) => {
    const plain = `The server answered ${response.status}.`;
    try {
      return (await response.json()).error?.message ?? plain;
    } catch {
      return plain;
    }
  };

  // Shows the fragment that a path answers with; a later request replaces an earlier one.
  const load = async (path, options, doing) => {
    running?.abort();
    const mine = running = new AbortController();
    complain("");
    say(doing);
    result.setAttribute("aria-busy", "true");
    try {
      const response = await request(path, { ...options, method: "POST", signal: mine.signal });
      if (!response.ok) {
        complain(await problemOf(response));
        return;
      }
      const fragment = new DOMParser().parseFromString(await response.text(), "text/html");
      result.replaceChildren(...fragment.body.childNodes);
      gradus.prepare(result);
      say("Done.");
      result.focus({ preventScroll: true });
      result.scrollIntoView({ block: "start" });
    } catch (error) {
      if (error.name !== "AbortError") complain("The server does not answer.");
    } finally {
      if (running === mine) result.removeAttribute("aria-busy");
    }
  };

  const chosen = () => [...models.querySelectorAll("input:checked")].map((one) => one.value);

  const listModels = async () => {
    const note = document.createElement("p");
    note.className = "hint";
    try {
      const response = await request("/v1/models");
      if (!response.ok) throw new Error(await problemOf(response));
      const rewards = (await response.json()).data.filter((model) => model.kind === "reward");
      const boxes = rewards.map(({ id }, index) => {
        const label = document.createElement("label");
        const box = document.createElement("input");
        box.type = "checkbox";
        box.value = id;
        box.checked = index === 0;
        label.append(box, " ", id);
        return label;
      });
      note.textContent = rewards.length ? "" : "This server has no reward model.";
      models.replaceChildren(models.firstElementChild, ...boxes, ...(rewards.length ? [] : [note]));
    } catch (error) {
      note.textContent = `No models: ${error.message}`;
      models.replaceChildren(models.firstElementChild, note);
    }
  };

  find("#add").addEventListener("click", () => {
    const list = find("#solutions");
    const label = document.createElement("label");
    const box = document.createElement("textarea");
    box.name = "solution";
    box.rows = 6;
    label.append(`Solution ${list.children.length + 1} `, box);
    list.append(label);
    box.focus();
  });

  find("#paste").addEventListener("submit", (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const solutions = form.getAll("solution").filter((text) => text.trim());
    if (!chosen().length) {
      complain("Choose at least one reward model.");
      return;
    }
    const body = { models: chosen(), problem: form.get("problem"), solutions };
    if (form.get("answer").trim()) body.answer = form.get("answer").trim();
    const headers = { "Content-Type": "application/json" };
    load("/page/score", { headers, body: JSON.stringify(body) }, "Scoring …");
  });

  const send = (named) => {
    const query = new URLSearchParams({ name: file.name, ...(named.length ? { models: named.join(",") } : {}) });
    const doing = named.length ? `Scoring ${file.name} …` : `Reading ${file.name} …`;
    load(`/page/file?${query}`, { headers: { "Content-Type": "application/octet-stream" }, body: file }, doing);
  };
  const take = (given) => {
    if (!given) return;
    file = given;
    find("#rescore").hidden = false;
    send([]);
  };
  find("#open").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!chosen().length) complain("Choose at least one reward model.");
    else send(chosen());
  });
  const drop = find(".drop");
  drop.querySelector("input").addEventListener("change", (event) => take(event.target.files[0]));
  for (const kind of ["dragover", "drop"]) {
    document.addEventListener(kind, (event) => event.preventDefault());
  }
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, () => drop.classList.add("over"));
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => take(event.dataTransfer?.files[0]));

  listModels();
})();
