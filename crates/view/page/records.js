// Keyboard and filter for records. What is shown is whole without it.
"use strict";
(() => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
  const editing = (target) => target instanceof Element && target.closest("input, textarea, select, dialog");

  // Moves the focus to a record or step, and brings it below the summary that stays in sight.
  const go = (list, way, here) => {
    if (!list.length) return;
    const at = list.findIndex((one) => one === here || one.contains(here));
    let next = at + way;
    if (at < 0) {
      const below = list.findIndex((one) => one.getBoundingClientRect().top > 0);
      next = below < 0 ? list.length - 1 : way > 0 ? below : Math.max(below - 1, 0);
    }
    const one = list[Math.min(Math.max(next, 0), list.length - 1)];
    one.focus({ preventScroll: true });
    one.scrollIntoView({ block: one.matches("tr") ? "nearest" : "start" });
  };

  const keys = {
    n: () => go(shown("article.record"), 1, document.activeElement?.closest("article.record")),
    p: () => go(shown("article.record"), -1, document.activeElement?.closest("article.record")),
    j: () => go(shown("table.steps tbody tr"), 1, document.activeElement?.closest("tr")),
    k: () => go(shown("table.steps tbody tr"), -1, document.activeElement?.closest("tr")),
    o: () => {
      const record = document.activeElement?.closest("article.record") ?? shown("article.record")[0];
      const one = document.activeElement?.closest("details.solution") ?? record?.querySelector("details.solution");
      if (!one) return;
      one.open = !one.open;
      one.querySelector("summary").focus();
    },
    "/": () => shown(".filters input")[0]?.focus(),
    "?": () => document.querySelector("#help")?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || editing(event.target) || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  // A link to a solution opens it.
  const opened = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", opened);

  const filter = (browser) => {
    const words = browser.querySelector(".filters input").value.trim().toLowerCase();
    const kind = browser.querySelector(".filters select").value;
    const articles = [...browser.querySelectorAll("article.record")];
    const entries = [...browser.querySelectorAll(".contents li")];
    let listed = 0;
    articles.forEach((article, index) => {
      const fits = (!kind || article.dataset.kinds.split(" ").includes(kind)) &&
        (!words || article.textContent.toLowerCase().includes(words));
      article.hidden = entries[index].hidden = !fits;
      listed += fits;
    });
    browser.querySelector(".filters output").textContent = `${listed} of ${articles.length}`;
  };
  const filtered = (event) => {
    const browser = event.target.closest(".filters")?.closest(".browser");
    if (browser) filter(browser);
  };
  document.addEventListener("input", filtered);
  document.addEventListener("change", filtered);

  // What is wider than its place can be reached and scrolled by keyboard.
  const reach = (root) => {
    const parts = ".formula, .text, .problem, .answer, .gold, .majority, .comment, .node, .leaf, .aside li, .drawing";
    for (const one of root.querySelectorAll(parts)) {
      if (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1) one.tabIndex = 0;
    }
  };
  document.addEventListener("toggle", (event) => reach(event.target), true);

  // Called for the page, and for every fragment that is added to it.
  const prepare = (root) => {
    for (const filters of root.querySelectorAll(".filters")) {
      filters.hidden = false;
      filter(filters.closest(".browser"));
    }
    if (innerWidth < 800) {
      for (const contents of root.querySelectorAll(".contents > details")) contents.open = false;
    }
    reach(root);
  };
  globalThis.gradus = { prepare };
  prepare(document);
  opened();
})();
