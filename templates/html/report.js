
// What makes the report handier. It is whole without: all texts, tables and charts are in the document.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  root.classList.add("scripted");

  // Tables: a click on a heading sorts, numbers with the greatest first; what has no value comes last.
  function value(cell) {
    if (!cell) return NaN;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return cell.classList.contains("n") ? parseFloat(text.replace(/[\s<>]/g, "").replace("−", "-")) : text;
  }
  function compare(a, b, sign) {
    if (typeof a === "string") return sign * a.localeCompare(b, undefined, { numeric: true });
    return Number.isNaN(a) - Number.isNaN(b) || sign * (a - b) || 0;
  }
  function sort(heading) {
    const table = heading.closest("table"), body = table.tBodies[0];
    const numeric = heading.classList.contains("n");
    const now = heading.getAttribute("aria-sort");
    const next = now === "none" ? (numeric ? "descending" : "ascending")
      : now === "ascending" ? "descending" : "ascending";
    all("thead th", table).forEach((one) => one.setAttribute("aria-sort", "none"));
    heading.setAttribute("aria-sort", next);
    const rows = [...body.rows].map((row) => [value(row.cells[heading.cellIndex]), row]);
    rows.sort((a, b) => compare(a[0], b[0], next === "ascending" ? 1 : -1));
    body.append(...rows.map((pair) => pair[1]));
  }
  all("thead button").forEach((button) => button.addEventListener("click", () => sort(button.closest("th"))));

  // A row stays if it has all words of the filter.
  all(".filter input").forEach((input) => input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...input.closest(".table").querySelector("tbody").rows];
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    });
    const left = rows.filter((row) => !row.hidden).length;
    input.closest(".filter").querySelector("output").textContent = words.length ? `${left} / ${rows.length}` : "";
  }));

  // Switches. The theme is remembered where the browser lets a file do so.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const press = (id, is) => byId(id).setAttribute("aria-pressed", is);
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  function remembered(theme) {
    try {
      if (theme) localStorage.setItem("rooflens-theme", theme);
      return localStorage.getItem("rooflens-theme");
    } catch {
      return null;
    }
  }
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  press("theme", isDark());
  dark.addEventListener("change", () => press("theme", isDark()));
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembered(root.dataset.theme);
    press("theme", isDark());
  });
  if (!all("tbody code").some((code) => code.textContent.length > 80)) byId("names").remove();
  else byId("names").addEventListener("click", () => press("names", root.classList.toggle("names")));
  const parts = all("details");
  if (parts.length === 0) byId("unfold").remove();
  else byId("unfold").addEventListener("click", () => {
    const open = !parts.every((part) => part.open);
    parts.forEach((part) => { part.open = open; });
    press("unfold", open);
  });

  // Links into folded parts open them.
  function reveal(target) {
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView({ block: "start" });
  }
  function follow() {
    const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (target) reveal(target);
  }
  addEventListener("hashchange", follow);
  follow();

  // The contents show where the reader is.
  const links = new Map(all("#toc a").map((link) => [link.hash.slice(1), link]));
  const visible = new Set();
  const seen = new IntersectionObserver((entries) => {
    entries.forEach((one) => visible[one.isIntersecting ? "add" : "delete"](one.target.id));
    const link = [...links].filter(([id]) => visible.has(id)).pop()?.[1], bar = byId("toc");
    if (!link) return;
    links.forEach((one) => one.removeAttribute("aria-current"));
    link.setAttribute("aria-current", "true");
    const place = link.getBoundingClientRect(), room = bar.getBoundingClientRect();
    if (place.left < room.left || place.right > room.right) bar.scrollLeft += place.left - room.left - 40;
    if (place.top < room.top || place.bottom > room.bottom) bar.scrollTop += place.top - room.top - 80;
  }, { rootMargin: "-10% 0px -80% 0px" });
  all("main section[id], main details[id]").filter((part) => links.has(part.id)).forEach((part) => seen.observe(part));

  // Charts: the titles of marks become tooltips without delay; a click on a mark goes to the row of its name.
  all("figure svg").forEach((svg) => {
    for (const title of all("title", svg)) {
      if (title.parentElement === svg) svg.setAttribute("aria-label", title.textContent);
      else title.parentElement.dataset.tip = title.textContent;
      title.remove();
    }
    const description = svg.querySelector("desc");
    if (description) svg.setAttribute("aria-description", description.textContent);
  });
  const tip = byId("tip");
  addEventListener("pointermove", (event) => {
    const text = event.target.dataset?.tip;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  });
  function goToRow(name) {
    const cell = all("tbody code").find((code) => code.textContent === name);
    if (!cell) return;
    all(".found").forEach((row) => row.classList.remove("found"));
    const row = cell.closest("tr");
    row.hidden = false;
    row.classList.add("found");
    reveal(row);
    row.scrollIntoView({ block: "center" });
  }

  // Charts can be looked at closely: buttons, the keys + - 0 and arrows, Ctrl and the wheel, dragging.
  function zoomable(chart) {
    const svg = chart.querySelector("svg"), whole = svg.viewBox.baseVal;
    const [width, height] = [whole.width, whole.height];
    let view = { x: 0, y: 0, scale: 1 }, from = null, moved = false;
    function show(x, y, scale) {
      scale = Math.max(1, Math.min(scale, 60));
      const within = (at, size) => Math.max(0, Math.min(at, size - size / scale));
      view = { x: within(x, width), y: within(y, height), scale };
      svg.setAttribute("viewBox", `${view.x} ${view.y} ${width / scale} ${height / scale}`);
      chart.classList.toggle("zoomed", scale > 1);
    }
    // What lies at a share of the width and height stays there.
    function zoom(factor, across = 0.5, down = 0.5) {
      const scale = Math.max(1, Math.min(view.scale * factor, 60));
      const change = 1 / view.scale - 1 / scale;
      show(view.x + across * width * change, view.y + down * height * change, scale);
    }
    const pan = (across, down) =>
      show(view.x + across * width / view.scale, view.y + down * height / view.scale, view.scale);
    const actions = { in: () => zoom(1.6), out: () => zoom(1 / 1.6), reset: () => show(0, 0, 1) };
    const keys = {
      "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.reset,
      ArrowLeft: () => pan(-0.15, 0), ArrowRight: () => pan(0.15, 0),
      ArrowUp: () => pan(0, -0.15), ArrowDown: () => pan(0, 0.15),
    };
    chart.append(byId("zoom").content.cloneNode(true));
    all("[data-zoom]", chart).forEach((one) => one.addEventListener("click", actions[one.dataset.zoom]));
    chart.addEventListener("keydown", (event) => {
      const isArrow = event.key.startsWith("Arrow");
      if (!keys[event.key] || event.ctrlKey || event.metaKey || (isArrow && view.scale === 1)) return;
      event.preventDefault();
      keys[event.key]();
    });
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const room = svg.getBoundingClientRect();
      zoom(event.deltaY < 0 ? 1.25 : 0.8,
        (event.clientX - room.left) / room.width, (event.clientY - room.top) / room.height);
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY };
      moved = false;
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from || view.scale === 1 || !event.buttons) return;
      const room = svg.getBoundingClientRect();
      pan((from.x - event.clientX) / room.width, (from.y - event.clientY) / room.height);
      from = { x: event.clientX, y: event.clientY };
      moved = true;
    });
    svg.addEventListener("click", (event) => {
      if (!moved && event.target.dataset.tip) goToRow(event.target.dataset.tip.split(" · ")[0]);
    });
  }
  all(".chart").forEach(zoomable);
})();
